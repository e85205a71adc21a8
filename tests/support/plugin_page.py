"""Follows the page "Support a new accelerator" as an engineer would: writes its files and runs its commands.

A block with a path behind its language is that file of the example. The `sh` blocks run in one shell, in the folder of
the files, with the wheel installed; a `text` block without a path is the output of the `sh` block before it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
import venv
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from support.doc_examples import FENCE, PLAIN
from support.environment import surroundings
from support.wheel import ROOT, build_wheel

if TYPE_CHECKING:
    import re

__all__ = ["EXAMPLE", "PAGE", "followed"]

PAGE: Final = ROOT / "docs/how-to/support-a-new-accelerator.md"
EXAMPLE: Final = ROOT / "examples/plugin"
OFFLINE: Final = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_QUIET": "1"}
MARK: Final = "==== end of block\n"
PATIENCE: Final = 200  # seconds for all commands


def followed() -> str:
    """The page with the files of the example, and with the outputs that its commands print now."""
    text = FENCE.sub(_with_file, PAGE.read_text("utf-8"))
    outputs = iter(_outputs(text))
    output = ""

    def with_output(block: re.Match[str]) -> str:
        nonlocal output
        if block["language"] == "sh":
            output = next(outputs)
        elif block["language"] == "text" and not block["file"]:
            return f"```text\n{output}```"
        return block[0]

    return FENCE.sub(with_output, text)


def _with_file(block: re.Match[str]) -> str:
    """The block with the content of the example's file of that name."""
    file = EXAMPLE / (block["file"] or "none")
    return f"```{block['language']} {block['file']}\n{file.read_text('utf-8')}```" if file.is_file() else block[0]


def _outputs(text: str) -> list[str]:
    """What each `sh` block prints."""
    with TemporaryDirectory(prefix="linkwise-plugin-") as name:
        folder = Path(name, "plugin")
        for block in FENCE.finditer(text):
            if block["file"]:
                (folder / block["file"]).parent.mkdir(parents=True, exist_ok=True)
                (folder / block["file"]).write_text(block["text"], "utf-8")
        programs = _environment(Path(name, "environment"), build_wheel(Path(name)))
        commands = [block["text"] for block in FENCE.finditer(text) if block["language"] == "sh"]
        printed = _run(f"printf '{MARK}'\n".join(commands), folder, programs).split(MARK)
    if len(printed) != len(commands):
        raise AssertionError(f"{len(printed)} of {len(commands)} blocks have run")
    return printed


def _environment(folder: Path, wheel: Path) -> Path:
    """A virtual environment with pip and the wheel; its folder of programs.

    A `.pth` file adds the dependencies from the environment of the tests. Python follows no `.pth` file of that folder,
    so that the Linkwise of the checkout, which such a file installs, is not importable.
    """
    venv.create(folder, with_pip=True)
    (site,) = folder.glob("lib/python*/site-packages")
    install = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    return folder / "bin"


def _run(script: str, folder: Path, programs: Path) -> str:
    """What the script prints; the cluster that it starts ends with it, whatever happens."""
    with subprocess.Popen(
        ["bash", "-eu", "-c", script],  # noqa: S607 - any bash will do
        cwd=folder,
        env=surroundings() | PLAIN | OFFLINE | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    if shell.returncode:
        raise AssertionError(f"the commands of the page end with {shell.returncode}:\n{printed}")
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
