"""Matrices of the original designs: our copies equal the texts, if these are beside the checkout."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from linkwise.testing.machines import topology_of
from support.builders.seed_machines import M1, M2, MATRIX_000

if TYPE_CHECKING:
    from pathlib import Path


def seed(shared: Path, number: str) -> str:
    return next((shared / "seeds").glob(f"{number}_*")).read_text(errors="replace")


def test_the_matrix_of_seed_000_is_ours(shared: Path) -> None:
    rows = re.findall(r"^GPU\d +(.*)$", seed(shared, "000"), re.MULTILINE)
    assert topology_of("\n".join(row for row in rows if " X " in f" {row} ")) == MATRIX_000


def test_both_matrices_of_seed_001_are_ours(shared: Path) -> None:
    text = seed(shared, "001")
    rows = re.findall(r"^gpu_\d +(.*)$", text, re.MULTILINE)[:8]
    assert tuple(tuple(map(float, row.split())) for row in rows) == M1
    found = re.search(r"topology: '(\[\[.*\]\])'", text)
    assert found is not None
    assert tuple(map(tuple, json.loads(found[1]))) == M2
