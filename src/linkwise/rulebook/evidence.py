"""Evidence for rules: scanned from the files of a checkout, read from record.json in an installed wheel.

A wheel ships no tests and no docs, so hatch_build.py writes the record when the wheel is built.
"""

import json
import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from linkwise.errors import RulebookError
from linkwise.rulebook import scan, table
from linkwise.rulebook.scan import Mark, Proof

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
