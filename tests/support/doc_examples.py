"""Examples in the documentation: parser, runner and refresh of their output.

In a `console` block a line `$ command` is followed by its output. A file that commands read is defined earlier on the
same page: a `yaml` block whose first line is `# name.yaml`, or a block with its name behind the language.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from support.command_line import run_linkwise
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Block", "Example", "Shell", "blocks", "examples", "pages", "refreshed"]

FENCE: Final = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED: Final = re.compile(r"# (?P<file>[\w-]+\.\w+)\n")
PLAIN: Final = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1", "TERM": "dumb"}


def pages(root: Path) -> list[Path]:
    """The README and every page of the documentation."""
    return [root / "README.md", *sorted(root.glob("docs/**/*.md"))]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    file: str
    """the name under which commands find it, if it is a file"""


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the output that the page shows."""

    command: str
    output: str


class Shell:
    """Runs the commands of one page, one after the other, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0

    def run(self, command: str) -> str:
        """What the command prints, both streams, without spaces at the ends of lines."""
        if command == "echo $?":
            return str(self.code)
        program, *arguments = shlex.split(command)
        if program != "linkwise":
            raise ValueError(f"only linkwise is run, found: {command}")
        return self._printed(
            run_linkwise(*arguments, folder=self.folder, environment=surroundings() | PLAIN, joined=True)
        )

    def place(self, block: Block) -> None:
        """Write the block as a file, if it is one."""
        if block.file:
            file = self.folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, "utf-8")

    def run_python(self, source: str) -> str:
        """What a piece of Python prints."""
        command = [sys.executable, "-c", source]
        environment = surroundings() | PLAIN
        return self._printed(
            subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                check=False,
            )
        )

    def _printed(self, done: subprocess.CompletedProcess[str]) -> str:
        self.code = done.returncode
        return "\n".join(line.rstrip() for line in done.stdout.splitlines()).rstrip("\n")


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return [_block(found) for found in FENCE.finditer(text)]


def examples(text: str) -> Iterator[Example]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Example(command, "\n".join(line.rstrip() for line in output.splitlines()).rstrip("\n"))


def refreshed(text: str) -> str:
    """The page with the outputs that its commands print now; a traceback is an error, never an output."""
    with TemporaryDirectory() as folder:
        shell = Shell(Path(folder))
        return FENCE.sub(lambda found: _rerun(shell, found), text)


def _rerun(shell: Shell, found: re.Match[str]) -> str:
    block = _block(found)
    shell.place(block)
    if block.language != "console":
        return found[0]
    lines = []
    for example in examples(block.text):
        printed = shell.run(example.command)
        if "Traceback" in printed:
            raise ValueError(f"$ {example.command}\n{printed}")
        lines += [f"$ {example.command}", *printed.splitlines()]
    return "\n".join(["```console", *lines, "```"])


def _block(found: re.Match[str]) -> Block:
    name = NAMED.match(found["text"]) if found["language"] == "yaml" else None
    return Block(found["language"], found["text"], found["file"] or (name["file"] if name else ""))
