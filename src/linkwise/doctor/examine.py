"""Examination: the table of checks, and their findings in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.doctor.checks import access, clocks, devices, extender, foreign, installation, pods, scheduler, webhook
from linkwise.doctor.facts import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkwise.doctor.facts import Check, Facts

__all__ = ["CHECKS", "examine", "is_any_examined", "sources_of"]

CHECKS: Final[tuple[Check, ...]] = (
    *installation.CHECKS,
    *access.CHECKS,
    *extender.CHECKS,
    *scheduler.CHECKS,
    *webhook.CHECKS,
    *devices.CHECKS,
    *foreign.CHECKS,
    *clocks.CHECKS,
    *pods.CHECKS,
)


def sources_of(checks: Collection[str]) -> frozenset[str]:
    """What must be read for these checks."""
    return frozenset(source for each in CHECKS if each.id in checks for source in (*each.needs, *each.uses))


def examine(facts: Facts, checks: Collection[str]) -> list[Finding]:
    """The findings of these checks: at least one each, so that what was not examined never looks well."""
    return [finding for each in CHECKS if each.id in checks for finding in _findings(each, facts)]


def is_any_examined(facts: Facts, checks: Collection[str]) -> bool:
    """Whether what one of these checks needs could be read; the time, which every response states, does not count."""
    needs = [wanted for each in CHECKS if each.id in checks and (wanted := set(each.needs) - {"clock"})]
    return not needs or any(wanted.isdisjoint(facts.unread) for wanted in needs)


def _findings(check: Check, facts: Facts) -> Iterator[Finding]:
    """The findings of one check; skipped if a source that it needs could not be read, ok if it finds nothing."""
    unread = [facts.unread[source] for source in check.needs if source in facts.unread]
    found = [] if unread else list(check.run(facts))
    for sentence in dict.fromkeys(unread):
        found.append(Finding("skipped", "", sentence))
    if not found:
        left = [facts.unread[source] for source in check.uses if source in facts.unread]
        limits = [f"only the first {source}" for source in (*check.needs, *check.uses) if source in facts.cut]
        more = "; ".join(dict.fromkeys((*left, *limits)))
        found.append(Finding("ok", "", f"{check.claim}{f' (as far as could be read: {more})' if more else ''}"))
    for each in found:
        yield replace(each, check=check.id, page=check.page)
