"""A safety failure is not excused by a second run; any other failure is."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
from pathlib import Path
from support.e2e.safety_plugin import UnsafeError

def test_once():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        raise {error}("device 0 of n1 has several pods")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return tmp_path


def fail_once(folder: Path, error: str, *words: str) -> None:
    """Make a test that fails the first time only, and run it."""
    (folder / "test_once.py").write_text(TEST.format(error=error), "utf-8")
    assert run(folder, *words)[0] == 1


def run(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a run."""
    command = [sys.executable, "-m", "pytest", "-p", "support.e2e.safety_plugin", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_device_that_was_allocated_twice_fails_the_second_run_with_its_report(folder: Path, processes: str) -> None:
    fail_once(folder, "UnsafeError", "--numprocesses", processes)
    for _ in range(2):
        code, output = run(folder, "--last-failed")
        assert code == 1
        assert "test_once.py::test_once: device 0 of n1 has several pods" in output
        assert "passed" not in output


def test_a_test_whose_time_ran_out_may_pass_the_second_time(folder: Path) -> None:
    fail_once(folder, "AssertionError")
    assert run(folder, "--last-failed")[0] == 0


def test_a_run_of_all_tests_starts_without_reports(folder: Path) -> None:
    fail_once(folder, "UnsafeError")
    assert run(folder)[0] == 0
    assert run(folder, "--last-failed")[0] == 0
