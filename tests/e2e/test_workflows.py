"""Workflows of GitHub: actionlint knows their syntax, their expressions and the inputs of actions. None of them runs here."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def findings(programs: Path, workflow: Path) -> str:
    done = subprocess.run(
        [programs / "actionlint", "-no-color", "-shellcheck=", "-pyflakes=", workflow],
        capture_output=True,
        text=True,
        check=False,
        cwd=workflow.parent,
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["ci.yaml", "release.yaml"])
def test_a_workflow_has_no_findings(actionlint_programs: Path, root: Path, name: str) -> None:
    assert findings(actionlint_programs, root / ".github/workflows" / name) == ""


def test_a_wrong_input_of_an_action_is_found(actionlint_programs: Path, root: Path, tmp_path: Path) -> None:
    text = (root / ".github/workflows/ci.yaml").read_text("utf-8")
    wrong = tmp_path / "ci.yaml"
    wrong.write_text(text.replace("fetch-depth:", "fetch-deep:"), "utf-8")
    assert 'input "fetch-deep" is not defined in action "actions/checkout@v4"' in findings(actionlint_programs, wrong)
