"""Findings: the results of a check, each with the object it is about, what was found, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.doctor.facts import Facts

__all__ = ["SEVERITIES", "Check", "Finding", "Severity", "names_text", "problem", "skipped", "warning"]

Severity = Literal["error", "warning", "ok", "skipped"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "skipped", "ok")
"""the worst first"""
PAGE: Final = "docs/reference/doctor.md"
NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    severity: Severity
    subject: str
    """the object, as kubectl names it: `node/gpu-1`, `configmap/linkwise-scheduler`; empty for the cluster"""
    found: str
    """what was found, in a sentence"""
    remedy: str = ""
    """what to do, in a sentence"""
    objects: tuple[str, ...] = ()
    """all objects that it is about, if there are several"""
    check: str = ""
    """id of the check; the runner sets it"""
    page: str = ""
    """where the check is documented; the runner sets it"""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: an id that never changes, and a function of the facts."""

    id: str
    group: str
    """heading under which it is listed"""
    claim: str
    """what holds if nothing is found"""
    run: Callable[[Facts], Iterable[Finding]]
    needs: tuple[str, ...] = ()
    """sources without which it is skipped"""
    uses: tuple[str, ...] = ()
    """further sources that it reads; without one of them it finds less"""

    @property
    def page(self) -> str:
        """Where it is documented."""
        return f"{PAGE}#{self.id}"


def problem(subject: str, found: str, remedy: str, objects: Iterable[str] = ()) -> Finding:
    """Something that breaks scheduling, or will."""
    return Finding("error", subject, found, remedy, tuple(objects))


def warning(subject: str, found: str, remedy: str, objects: Iterable[str] = ()) -> Finding:
    """Something that works, and works worse or less safely than it could."""
    return Finding("warning", subject, found, remedy, tuple(objects))


def skipped(found: str, remedy: str = "") -> Finding:
    """Something that could not be examined."""
    return Finding("skipped", "", found, remedy)


def names_text(names: Iterable[str]) -> str:
    """Names for a sentence: the first few, and how many more there are."""
    every = sorted(names)
    more = len(every) - NAMES_SHOWN
    return ", ".join(every[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
