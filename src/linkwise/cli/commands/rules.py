"""`linkwise rules`: requirements of the five systems, with their code and tests."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.options.io import json_flag
from linkwise.rulebook import status, table
from linkwise.rulebook.table import LEVELS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from linkwise.rulebook.status import RuleStatus

EXAMPLES: Final = """\b
Examples:
  linkwise rules               # every rule, one table per system
  linkwise rules 003           # the rules of one system
  linkwise rules 003.groups    # one rule, with its code and tests
  linkwise rules --json        # JSON, one object per rule
"""
LEGEND: Final = ", ".join(f"{level} {name}" for level, name in LEVELS.items())


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    return [rule.id for rule in table.rules() if rule.id.startswith(incomplete)]


@click.command("rules", epilog=EXAMPLES)
@click.argument("pattern", default="", shell_complete=_complete)
@json_flag("Print a JSON list with one object per rule.")
def command(pattern: str, *, as_json: bool) -> None:
    """List the requirements of the five systems, with the code that implements and the tests that prove each.

    PATTERN is a rule id or a prefix of one. A rule is done when it is marked in the code and proven by a test at each of
    its levels (library, embedded cluster, real component, documentation). Until then its status is "not yet", with the
    missing levels and the missing parts of Linkwise.
    """
    chosen = _chosen(status.current(), pattern)
    if as_json:
        click.echo(json.dumps([asdict(rule) for rule in chosen], indent=2, ensure_ascii=False))
    elif len(chosen) == 1:
        click.echo(_details(chosen[0]))
    else:
        _print_tables(chosen)


def _chosen(known: tuple[RuleStatus, ...], pattern: str) -> tuple[RuleStatus, ...]:
    exact = tuple(rule for rule in known if rule.id == pattern)
    chosen = exact or tuple(rule for rule in known if rule.id.startswith(pattern))
    if not chosen:
        raise click.UsageError(f"No rule starts with '{pattern}'.{_hint(known, pattern)}")
    return chosen


def _hint(known: tuple[RuleStatus, ...], pattern: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only a typing mistake needs it

    ids = [rule.id for rule in known]
    # The name without its number: `groups` for 003.groups.
    near = [id_ for id_ in ids if pattern in id_] or get_close_matches(pattern, ids)
    return f" Did you mean {' or '.join(near[:3])}?" if near else f" Systems: {', '.join(table.systems())}."


def _details(rule: RuleStatus) -> str:
    nothing = ("none yet",)
    rows = (
        ("status", (rule.sentence(),)),
        ("proven", tuple(LEVELS[level] for level in rule.proven) or nothing),
        ("where", rule.where or nothing),
        ("tests", rule.tests or nothing),
    )
    indent = "\n" + " " * 10
    return "\n".join([f"{rule.id}  {rule.statement}", *(f"  {name:8}{indent.join(of)}" for name, of in rows)])


def _print_tables(chosen: tuple[RuleStatus, ...]) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and JSON does without

    console = Console(highlight=False, markup=False)
    systems = table.systems()
    for number, rules in groupby(chosen, key=lambda rule: rule.id.partition(".")[0]):
        console.print(f"{number} {systems[number]}", style="bold")
        console.print(_table(tuple(rules), max(len(rule.id) for rule in chosen)))
    _print_summary(console, chosen)


def _table(rules: tuple[RuleStatus, ...], id_width: int) -> Table:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    made = Table(box=SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    made.add_column("id", width=id_width)
    made.add_column("rule", ratio=1, overflow="fold")
    made.add_column("status", width=17)
    made.add_column("code", justify="right", width=4)
    made.add_column("tests", justify="right", width=5)
    for rule in rules:
        colour = "green" if rule.status == "done" else "yellow" if rule.proven else "dim"
        verdict = Text(rule.sentence(), style=colour)
        made.add_row(rule.id, rule.statement, verdict, str(len(rule.where)), str(len(rule.tests)))
    return made


def _print_summary(console: Console, chosen: tuple[RuleStatus, ...]) -> None:
    done = sum(rule.status == "done" for rule in chosen)
    tally = status.tally(chosen).items()
    levels = ", ".join(f"{level} {proven}/{of}" for level, (proven, of) in tally if of)
    console.print(f"{done} of {len(chosen)} rules done; proven {levels}", style="bold")
    console.print(f"({LEGEND})", style="dim")
