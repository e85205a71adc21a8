"""Every scenario below this folder passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkwise.testing.scenario import load, run

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.yaml"))


def _case(file: Path) -> object:
    rules = load(file).rules
    return pytest.param(
        file, id=str(file.relative_to(FOLDER).with_suffix("")), marks=[pytest.mark.rule(rule) for rule in rules]
    )


@pytest.mark.parametrize("file", [_case(file) for file in FILES])
def test_the_scenario_passes(file: Path) -> None:
    run(load(file))
