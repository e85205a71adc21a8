from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkwise import __version__
from linkwise.cli.program import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def test_every_command_teaches_with_an_example(linkwise: Linkwise) -> None:
    for name in COMMANDS:
        shown = linkwise(name, "--help")
        assert shown.returncode == 0
        assert "Example" in shown.stdout
        assert f"linkwise {name}" in shown.stdout


def test_a_near_name_is_suggested(linkwise: Linkwise) -> None:
    shown = linkwise("pcik")
    assert shown.returncode == 2
    assert "No such command 'pcik'. Did you mean 'pick'?" in shown.stderr


def test_the_version_is_told(linkwise: Linkwise) -> None:
    assert __version__ in linkwise("--version").stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_the_shell_closed_is_not_missed(closed: str) -> None:
    program = f"'{sys.executable}' -m linkwise example link-pair {closed}"
    assert subprocess.run(["/bin/sh", "-c", program], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_completion_script(linkwise: Linkwise, shell: str) -> None:
    assert "_LINKWISE_COMPLETE" in linkwise("completion", shell).stdout


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys, linkwise.cli.program as p; p.main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for slow in ("'rich'", "'msgspec'", "'yaml'", "'linkwise.topology"):
        assert slow not in shown.stdout
