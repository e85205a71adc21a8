"""Status of rules: joins the table with marks and proofs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from linkwise.rulebook import evidence, table
from linkwise.rulebook.evidence import Record
from linkwise.rulebook.missing_parts import parts_by_rule
from linkwise.rulebook.table import LEVELS, Rule


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """One rule with its status and evidence; `linkwise rules --json` prints these fields in this order."""

    id: str
    statement: str
    status: Literal["done", "not yet"]
    proven: tuple[str, ...]
    missing: tuple[str, ...]
    waits_for: tuple[str, ...]
    """parts of Linkwise that it depends on and that do not exist yet"""
    where: tuple[str, ...]
    tests: tuple[str, ...]

    def sentence(self) -> str:
        """`done`, or `not yet` with the missing levels and the parts that it waits for."""
        if self.status == "done":
            return "done"
        levels = ", ".join(LEVELS[level] for level in self.missing)
        return f"not yet: {levels}" + (f"; waits for {' and '.join(self.waits_for)}" if self.waits_for else "")


def current() -> tuple[RuleStatus, ...]:
    """The status of every rule of this installation."""
    return join(table.rules(), evidence.load(), parts_by_rule())


def join(
    rules: Iterable[Rule], record: Record, parts: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[RuleStatus, ...]:
    """The status of each rule, in the same order; `parts` are the missing parts by rule."""
    return tuple(_status(rule, record, (parts or {}).get(rule.id, ())) for rule in rules)


def tally(statuses: Iterable[RuleStatus]) -> dict[str, tuple[int, int]]:
    """For each level, the numbers of rules that are proven at it and that list it."""
    every = tuple(statuses)
    proven = {level: sum(level in status.proven for status in every) for level in LEVELS}
    missing = {level: sum(level in status.missing for status in every) for level in LEVELS}
    return {level: (proven[level], proven[level] + missing[level]) for level in LEVELS}


def _status(rule: Rule, record: Record, parts: tuple[str, ...]) -> RuleStatus:
    where = tuple(mark.place for mark in record.marks if mark.rule == rule.id)
    proofs = [proof for proof in record.proofs if proof.rule == rule.id]
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
