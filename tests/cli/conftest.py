from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

Run = subprocess.CompletedProcess[str]


@pytest.fixture
def linkwise(tmp_path: object) -> Callable[..., Run]:
    """Run the command line as a user would: in an empty folder, at a width of 80 columns."""

    def run(*words: str, stdin: str = "") -> Run:
        environment = {**surroundings(), "COLUMNS": "80", "NO_COLOR": "1"}
        return subprocess.run(
            [sys.executable, "-m", "linkwise", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=str(tmp_path),
            env=environment,
            timeout=200,
        )

    return run
