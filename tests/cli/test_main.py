from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from linkwise import __version__
from linkwise.cli.program import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def test_the_help_of_every_command_has_an_example(linkwise: Linkwise) -> None:
    for name in COMMANDS:
        shown = linkwise(name, "--help")
        assert shown.returncode == 0
        assert "Example" in shown.stdout
        assert f"linkwise {name}" in shown.stdout


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand."""
    with click.Context(main) as context:
        for name in COMMANDS:
            found = main.get_command(context, name)
            assert found is not None
            yield name, found
            if isinstance(found, click.Group):
                yield from ((f"{name} {inner}", command) for inner, command in found.commands.items())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_help_examples_can_be_copied_as_they_are(name: str, command: click.Command) -> None:
    block = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    lines = [line for line in block.splitlines() if line.strip()]
    assert any(f"linkwise {name}" in line for line in lines)
    assert [line for line in lines if "   " in line.strip() and " # " not in line] == []


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_help_fits_a_terminal_of_80_columns(name: str, command: click.Command) -> None:
    program = click.Context(main, info_name="linkwise", **main.context_settings)
    with click.Context(command, parent=program, info_name=name, terminal_width=80) as context:
        shown = command.get_help(context)
    assert [line for line in shown.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("group", ["config", "manifests"])
def test_subcommand_summaries_are_not_truncated(linkwise: Linkwise, group: str) -> None:
    assert "..." not in linkwise(group, "--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize(
    "words",
    [
        "pick --profile dgx1-v100 --size 2",
        "topo --profile dgx1-v100",
        "rules 003.groups",
        "config check",
        "read pod.yaml",
        "plan pod.yaml --fleet p40-share",
        "replay list.json",
    ],
)
def test_the_json_flag_and_the_output_option_are_equivalent(linkwise: Linkwise, tmp_path: Path, words: str) -> None:
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}")
    (tmp_path / "list.json").write_text('{"kind": "List", "items": []}')
    one, other = linkwise(*words.split(), "--json"), linkwise(*words.split(), "-o", "json")
    assert json.loads(one.stdout) == json.loads(other.stdout)
    assert (one.returncode, one.stderr) == (other.returncode, other.stderr)


def test_a_similar_command_is_suggested(linkwise: Linkwise) -> None:
    shown = linkwise("pcik")
    assert shown.returncode == 2
    assert "No such command 'pcik'. Did you mean 'pick'?" in shown.stderr


def test_the_version_is_printed(linkwise: Linkwise) -> None:
    assert __version__ in linkwise("--version").stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_tolerated(closed: str) -> None:
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
