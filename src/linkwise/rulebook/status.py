"""Joins the table of rules with what is marked and proven: which rules are done, and what the others lack."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from linkwise.rulebook import evidence, table
from linkwise.rulebook.evidence import Record
from linkwise.rulebook.missing_parts import parts_by_rule
from linkwise.rulebook.table import LEVELS, Rule


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """One rule, how far it is, and where; the fields are those of `linkwise rules --json`, in this order."""

    id: str
    statement: str
    status: Literal["done", "not yet"]
    proven: tuple[str, ...]
    missing: tuple[str, ...]
    waits_for: tuple[str, ...]
    """parts of the product that it can't be done without, and that are not there yet"""
    where: tuple[str, ...]
    tests: tuple[str, ...]

    def sentence(self) -> str:
        """`done`, or `not yet` with the names of the levels that are missing and of what it waits for."""
        if self.status == "done":
            return "done"
        levels = ", ".join(LEVELS[level] for level in self.missing)
        return f"not yet: {levels}" + (f"; waits for {' and '.join(self.waits_for)}" if self.waits_for else "")


def current() -> tuple[RuleStatus, ...]:
    """Every rule of the Linkwise that is running."""
    return join(table.rules(), evidence.load(), parts_by_rule())


def join(
    rules: Iterable[Rule], known: Record, parts: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[RuleStatus, ...]:
    """The status of each rule, in the order given; `parts` are what rules wait for."""
    return tuple(_status(rule, known, (parts or {}).get(rule.id, ())) for rule in rules)


def tally(statuses: Iterable[RuleStatus]) -> dict[str, tuple[int, int]]:
    """For each level, how many of the rules that list it are proven there."""
    known = tuple(statuses)
    proven = {level: sum(level in status.proven for status in known) for level in LEVELS}
    missing = {level: sum(level in status.missing for status in known) for level in LEVELS}
    return {level: (proven[level], proven[level] + missing[level]) for level in LEVELS}


def _status(rule: Rule, known: Record, parts: tuple[str, ...]) -> RuleStatus:
    where = tuple(mark.place for mark in known.marks if mark.rule == rule.id)
    proofs = [proof for proof in known.proofs if proof.rule == rule.id]
    tested = {proof.level for proof in proofs}
    proven = tuple(level for level in rule.levels if level in tested and _marked(level, where))
    missing = tuple(level for level in rule.levels if level not in proven)
    return RuleStatus(
        id=rule.id,
        statement=rule.statement,
        status="not yet" if missing else "done",
        proven=proven,
        missing=missing,
        waits_for=parts,
        where=where,
        tests=tuple(dict.fromkeys(proof.test for proof in proofs)),
    )


def _marked(level: str, where: Iterable[str]) -> bool:
    in_the_docs = level == "-"
    return any(place.startswith("docs/") == in_the_docs for place in where)
