"""Table of rules: a strict parser of rules.md, beside this file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from linkwise.errors import RulebookError

# Where a rule can be proven, from the cheapest kind of test to the most expensive, and in the docs.
LEVELS: Final = {
    "L": "library",
    "E": "embedded cluster",
    "R": "real component",
    "-": "documentation",
}
ID: Final = r"\d{3}\.[a-z][a-z0-9-]*"
FURNITURE: Final = ("| id | rule | proven |", "|---|---|---|")
SYSTEM: Final = re.compile(r"^## (\d{3}) (.+)$", re.MULTILINE)
ROW: Final = re.compile(rf"\| (?P<id>{ID}) \| (?P<statement>[^|]*[^|\s]) \| (?P<levels>[^|]*[^|\s]) \|")


@dataclass(frozen=True, slots=True)
class Rule:
    """One requirement of a system, and the levels at which it must be proven."""

    id: str
    statement: str
    levels: tuple[str, ...]

    @property
    def system(self) -> str:
        """The number of its system: 003 for 003.groups."""
        return self.id.partition(".")[0]


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the table."""
    return read(_packaged())


def systems() -> dict[str, str]:
    """Names of the systems by number."""
    return dict(SYSTEM.findall(_packaged()))


def read(text: str, name: str = "rules.md") -> tuple[Rule, ...]:
    """Parse a text in the format of rules.md.

    Raises:
        RulebookError: a row is invalid or repeats an id; the message names the line.
    """
    lines: dict[str, int] = {}
    table: list[Rule] = []
    for line, rule in _rows(text, name):
        if rule.id in lines:
            raise RulebookError(f"{name}:{line}: rule {rule.id} is already in line {lines[rule.id]}")
        lines[rule.id] = line
        table.append(rule)
    return tuple(table)


def _packaged() -> str:
    return (files("linkwise.rulebook") / "rules.md").read_text("utf-8")


def _rows(text: str, name: str) -> Iterator[tuple[int, Rule]]:
    system = ""
    for line, content in enumerate(text.splitlines(), start=1):
        if heading := SYSTEM.match(content):
            system = heading[1]
        elif content.startswith("|") and content not in FURNITURE:
            yield line, _rule(content, system, f"{name}:{line}")


def _rule(content: str, system: str, place: str) -> Rule:
    row = ROW.fullmatch(content)
    if row is None:
        raise RulebookError(f"{place}: expected '| 000.name | statement | levels |', found '{content}'")
    rule = Rule(row["id"], row["statement"], tuple(row["levels"].split()))
    if rule.system != system:
        raise RulebookError(f"{place}: rule {rule.id} is in the section of {system or 'no system'}")
    if not set(rule.levels) <= set(LEVELS) or len(set(rule.levels)) < len(rule.levels):
        raise RulebookError(f"{place}: levels must be distinct and among {' '.join(LEVELS)}, found '{row['levels']}'")
    return rule
