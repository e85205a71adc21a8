"""A bounded round of what `make soak` does for longer."""

from __future__ import annotations

import random
from pathlib import Path
from runpy import run_path

import pytest

from support.profile import examples

SOAK = run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "soak.py"))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_texts_are_read_or_refused_and_never_raise(seed: int) -> None:
    chooser, texts = random.Random(seed), SOAK["seeds"]()
    for _ in range(examples(300)):
        SOAK["attempt"](SOAK["damaged"](chooser, texts), seed)
