"""Prints findings of `linkwise doctor`: grouped lines with what to do, a table, JSON or YAML."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from linkwise.cli.render.documents import list_document, print_data
from linkwise.cli.render.tables import Table, print_table, terminal
from linkwise.doctor.examine import CHECKS
from linkwise.doctor.facts import SEVERITIES
from linkwise.views.blocks import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.doctor.facts import Check, Facts, Finding

__all__ = ["Shown", "progress", "show_checks", "show_findings"]

_COLOURS: Final = {"error": "red", "warning": "yellow", "ok": "green", "skipped": "bright_black"}
_WORDS: Final = {"error": "ERROR", "warning": "WARNING", "ok": "OK", "skipped": "SKIPPED"}
_NOUNS: Final = {
    "error": ("problem", "problems"),
    "warning": ("warning", "warnings"),
    "skipped": ("skipped", "skipped"),
    "ok": ("passed", "passed"),
}
_MARK: Final = 7
"""width of the longest word"""


@dataclass(frozen=True, slots=True)
class Shown:
    """How findings are printed."""

    form: str | None
    everything: bool
    """whether passed and skipped checks are printed too"""
    headers: bool


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says what is being read; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield lambda text: click.echo(f"\r\033[K{text[:70]}...", err=True, nl=False)
    finally:
        click.echo("\r\033[K", err=True, nl=False)


def show_checks(checks: Sequence[Check], form: str | None, *, headers: bool) -> None:
    """Print the checks that there are."""
    if form in {"json", "yaml"}:
        fields = ("id", "group", "claim", "page")
        print_data(list_document("Check", ({key: getattr(each, key) for key in fields} for each in checks)), form)
        return
    if form == "name":
        for each in checks:
            click.echo(f"check/{each.id}")
        return
    table = Table(("id", "group", "claim"), [(each.id, each.group, each.claim) for each in checks])
    print_table(terminal(), table, headers=headers)


def show_findings(findings: Sequence[Finding], shown: Shown, facts: Facts) -> None:
    """Print findings: all of them in JSON and YAML, the problems only for people unless everything is wanted."""
    if shown.form in {"json", "yaml"}:
        print_data(_document(findings, facts), shown.form)
        return
    listed = [each for each in findings if shown.everything or each.severity in {"error", "warning"}]
    if shown.form == "name":
        for check in dict.fromkeys(each.check for each in listed):
            click.echo(f"check/{check}")
    elif shown.form == "wide":
        table = Table(("severity", "check", "object", "found", "what to do"))
        for each in listed:
            table.add(_WORDS[each.severity], each.check, each.subject or "-", each.found, each.remedy or "-")
        print_table(terminal(), table, headers=shown.headers)
    else:
        _lines(listed, headers=shown.headers)
        if shown.headers:
            _summary(findings, everything=shown.everything)


def _document(findings: Sequence[Finding], facts: Facts) -> dict[str, Any]:
    items = [
        {
            "check": each.check,
            "severity": each.severity,
            "object": each.subject,
            "found": each.found,
            "remedy": each.remedy,
            "objects": list(each.objects),
            "page": each.page,
        }
        for each in findings
    ]
    counts = Counter(each.severity for each in findings)
    return list_document(
        "Finding",
        items,
        time=rfc3339(facts.now),
        version=facts.version,
        namespace=facts.namespace,
        summary={severity: counts[severity] for severity in SEVERITIES},
    )


def _lines(findings: Sequence[Finding], *, headers: bool) -> None:
    groups = {each.id: each.group for each in CHECKS}
    last = ""
    for each in findings:
        group = groups[each.check]
        if headers and group != last:
            click.secho(f"{'' if not last else chr(10)}{group}", bold=True)
        last = group
        mark = click.style(_WORDS[each.severity].ljust(_MARK), fg=_COLOURS[each.severity])
        subject = f"{each.subject}: " if each.subject else ""
        click.echo(f"{mark}  {each.check}: {subject}{each.found}")
        if each.remedy:
            click.echo(f"{' ' * _MARK}  -> {each.remedy}")


def _summary(findings: Sequence[Finding], *, everything: bool) -> None:
    counts = Counter(each.severity for each in findings)
    parts = [f"{counts[each]} {_NOUNS[each][counts[each] != 1]}" for each in SEVERITIES]
    shown = everything or counts["error"] or counts["warning"]
    hint = "" if everything else "; --all shows passed and skipped checks"
    click.echo(f"{chr(10) if shown else ''}{', '.join(parts)}{hint}")
