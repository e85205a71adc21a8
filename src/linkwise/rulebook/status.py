"""Status of rules: joins the table with marks and proofs, and prints docs/rules.md.

Evidence is scanned from the files of a checkout, and read from record.json in an installed wheel: it ships no tests and no
docs, so hatch_build.py writes the record when the wheel is built.

For each rule that is not implemented, the planned parts of Linkwise that it depends on are listed; a test checks that they are
listed for every such rule and no implemented one.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from linkwise.errors import RulebookError
from linkwise.rulebook import scan, table
from linkwise.rulebook.scan import Mark, Proof
from linkwise.rulebook.table import LEVELS, Rule

__all__ = [
    "FILE",
    "HEAD",
    "INTRO",
    "WAITING",
    "Record",
    "RuleStatus",
    "checkout",
    "current",
    "decode",
    "encode",
    "join",
    "load",
    "parts_by_rule",
    "render",
    "rules_page",
    "scanned",
    "tally",
]

FILE: Final = "record.json"


@dataclass(frozen=True, slots=True)
class Record:
    """All marks and proofs."""

    marks: tuple[Mark, ...]
    proofs: tuple[Proof, ...]


def load() -> Record:
    """The record of this installation."""
    root = checkout(Path(__file__))
    if root is not None:
        return scanned(root)
    shipped = files("linkwise.rulebook") / FILE
    if not shipped.is_file():
        raise RulebookError(f"this installation lacks rulebook/{FILE}; build the wheel with hatch_build.py")
    return decode(shipped.read_text("utf-8"))


def checkout(file: Path) -> Path | None:
    """The root of the checkout that holds `file` in src/linkwise/<package>/, if there is one."""
    package = file.resolve().parents[1]
    root = package.parents[1]
    if package != root / "src" / "linkwise" or not (root / "tests").is_dir():
        return None
    return root if _project_name(root / "pyproject.toml") == "linkwise" else None


def scanned(root: Path) -> Record:
    """Scan a checkout."""
    known = {rule.id for rule in table.rules()}
    return Record(tuple(scan.marks(root, known)), tuple(scan.proofs(root, known)))


def encode(record: Record) -> str:
    """Encode a record as the JSON that ships."""
    return json.dumps(asdict(record), indent=1) + "\n"


def decode(text: str) -> Record:
    """Decode the text of `encode`."""
    raw = json.loads(text)
    return Record(
        tuple(Mark(**mark) for mark in raw["marks"]),
        tuple(Proof(**proof) for proof in raw["proofs"]),
    )


def _project_name(pyproject: Path) -> str | None:
    if not pyproject.is_file():
        return None
    name: str | None = tomllib.loads(pyproject.read_text("utf-8")).get("project", {}).get("name")
    return name


WAITING: Final[Mapping[str, tuple[str, ...]]] = {}
"""rules by the part they depend on; a rule may depend on several"""


def parts_by_rule(waiting: Mapping[str, tuple[str, ...]] = WAITING) -> dict[str, tuple[str, ...]]:
    """Invert the table: the parts that each rule depends on."""
    parts: dict[str, tuple[str, ...]] = {}
    for part, rules in waiting.items():
        for rule in rules:
            parts[rule] = (*parts.get(rule, ()), part)
    return parts


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
    return join(table.rules(), load(), parts_by_rule())


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


INTRO = f"""\
<!-- Generated by `make docs`; change the code, the tests or the table of rules instead. -->
# The rules

Requirements of the five systems that Linkwise implements. Each has an id, the code that implements it and the tests
that prove it. A rule that is not proven at all of its levels lists the parts of Linkwise that are still missing.
`linkwise rules` prints the same with line numbers.

Levels: {", ".join(f"{level} {name}" for level, name in LEVELS.items())}.
"""
HEAD = "| id | rule | levels | proven | waits for | where | tests |\n|---|---|---|---|---|---|---|"


def rules_page() -> str:
    """The page for the current state of the checkout."""
    return render(current(), table.systems())


def render(statuses: Iterable[RuleStatus], systems: dict[str, str]) -> str:
    """Render a page with one table per system."""
    return "\n".join([INTRO, *_sections(statuses, systems)])


def _sections(statuses: Iterable[RuleStatus], systems: dict[str, str]) -> Iterator[str]:
    for number, rules in groupby(statuses, key=lambda rule: rule.id.partition(".")[0]):
        rows = "\n".join(_row(rule) for rule in rules)
        yield f"## {number} {systems[number]}\n{HEAD}\n{rows}\n"


def _row(rule: RuleStatus) -> str:
    levels = [level for level in LEVELS if level in rule.proven + rule.missing]
    # Without line numbers: the page changes when a rule moves to another file, not when a line is added above it.
    files = dict.fromkeys(place.rpartition(":")[0] for place in rule.where)
    cells = (
        f"`{rule.id}`",
        rule.statement,
        " ".join(levels),
        " ".join(rule.proven) or "not yet",
        ", ".join(rule.waits_for),
        "<br>".join(_link(file.removeprefix("src/linkwise/"), file) for file in files),
        "<br>".join(_link(test.rpartition("::")[2], test.partition("::")[0]) for test in rule.tests),
    )
    return f"| {' | '.join(cells)} |"


def _link(label: str, file: str) -> str:
    target = file.removeprefix("docs/") if file.startswith("docs/") else f"../{file}"
    return f"[{label}]({target})"
