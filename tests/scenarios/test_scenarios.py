"""Every scenario below this folder passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkwise.testing.scenario import Scenario, load, run

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.yaml"))


def _case(file: Path) -> object:
    scenario = load(file)
    name = str(file.relative_to(FOLDER).with_suffix(""))
    return pytest.param(scenario, id=name, marks=[pytest.mark.rule(rule) for rule in scenario.rules])


@pytest.mark.parametrize("scenario", [_case(file) for file in FILES])
def test_the_scenario_passes(scenario: Scenario) -> None:
    run(scenario)
