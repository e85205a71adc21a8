"""Every example of the documentation is run, and prints what the page says.

In a ``console`` block a line `$ command` is followed by its output. A file that commands read stands on the same page
before them: a ``yaml`` block whose first line is `# name.yaml`, or a block with its name behind the language.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from doctest import DocTestParser, DocTestRunner
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ["README.md", *sorted(page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md"))]
FENCE: Final = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED: Final = re.compile(r"# (?P<file>[\w-]+\.\w+)\n")
PLAIN: Final = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1", "TERM": "dumb"}


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
        assert program == "linkwise", f"only linkwise is run, found: {command}"
        return self._python("-m", "linkwise", *arguments)

    def run_python(self, source: str) -> str:
        return self._python("-c", source)

    def _python(self, *arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "TTY_COMPATIBLE"}}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=kept | PLAIN,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        self.code = done.returncode
        return "\n".join(line.rstrip() for line in done.stdout.splitlines()).rstrip("\n")


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found = FENCE.finditer((ROOT / page).read_text("utf-8"))
    return [Block(block["language"], block["text"], block["file"] or _named(block)) for block in found]


def examples(text: str) -> Iterator[Example]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Example(command, "\n".join(line.rstrip() for line in output.splitlines()).rstrip("\n"))


def _named(block: re.Match[str]) -> str:
    name = NAMED.match(block["text"]) if block["language"] == "yaml" else None
    return name["file"] if name else ""


def _pages_with(language: str) -> list[str]:
    return [page for page in PAGES if any(block.language == language for block in blocks(page))]


@pytest.mark.parametrize("page", _pages_with("console"))
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text, "utf-8")
        if block.language == "console":
            for example in examples(block.text):
                assert shell.run(example.command) == example.output, f"$ {example.command}"


@pytest.mark.parametrize("page", _pages_with("console"))
def test_a_console_block_begins_with_a_command(page: str) -> None:
    texts = [block.text for block in blocks(page) if block.language == "console"]
    assert [text for text in texts if not text.startswith("$ ")] == []


@pytest.mark.parametrize("page", _pages_with("python"))
def test_python_on_the_page_runs_and_answers_as_shown(page: str, tmp_path: Path) -> None:
    shell, parser, said = Shell(tmp_path), DocTestParser(), list[str]()
    for number, block in enumerate(found for found in blocks(page) if found.language == "python"):
        if ">>> " in block.text:
            example = parser.get_doctest(block.text, {}, f"{page} block {number}", page, 0)
            DocTestRunner(verbose=False).run(example, out=said.append)
        else:
            printed = shell.run_python(block.text)
            assert shell.code == 0, printed
    assert "".join(said) == ""
