"""Commands in the documentation: found in code blocks and inline code, and compared with the commands that exist."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Final

import click

from linkwise.cli.program import main

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RunBlock", "commands", "missing", "run_blocks"]

SHELLS: Final = frozenset({"sh", "bash", "shell"})
OUTPUTS: Final = frozenset({"console", "text", ""})
"""languages of blocks in which only lines behind a prompt are commands"""
BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
INLINE: Final = re.compile(r"`(?P<text>(?:kubectl )?linkwise [^`]+)`")
HEADING_OR_NOTE: Final = re.compile(r"^(?:#+ .*|\s*<!-- run: (?P<run>.*?) -->)$", re.MULTILINE)
ASSIGNMENT: Final = re.compile(r"[A-Z_]+=\S*")
ENDS: Final = re.compile(r"\s(?:\||\|\||&&|&|;|>|<|>>|2>)(?=\s|$)")
SIGNS: Final = re.compile(r"[<>|&;)]")


@dataclass(frozen=True, slots=True)
class RunBlock:
    """A block of shell commands, and where the page says that it is executed."""

    text: str
    run: str
    """`embedded`, the name of a test, `no` with a reason, or empty if the page says nothing"""


def run_blocks(page: str) -> Iterator[RunBlock]:
    """The shell blocks of a page; a comment `<!-- run: ... -->` counts for those behind it, up to the next heading."""
    notes = [(found.start(), found["run"] or "") for found in HEADING_OR_NOTE.finditer(BLOCK.sub(_blank, page))]
    for found in BLOCK.finditer(page):
        if found["language"] in SHELLS:
            before = [run for start, run in notes if start < found.start()]
            yield RunBlock(dedent(found["text"]), before[-1] if before else "")


def commands(page: str) -> Iterator[str]:
    """Every command of Linkwise on a page."""
    for found in BLOCK.finditer(page):
        lines = dedent(found["text"]).replace("\\\n", " ").splitlines()
        if found["language"] in OUTPUTS:
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif found["language"] not in SHELLS:
            continue
        for line in lines:
            yield from _in_line(line)
    for found in INLINE.finditer(BLOCK.sub(_blank, page)):
        yield from _in_line(re.sub(r"\s+", " ", found["text"]))


def missing(command: str) -> str:
    """What does not exist of a command: a subcommand or a flag; empty if all of it does."""
    words = shlex.split(command, comments=True)
    here: click.Command = main
    for number, word in enumerate(words[1:], start=1):
        if isinstance(here, click.Group) and not word.startswith("-"):
            inner = here.get_command(click.Context(here), word)
            if inner is None:
                return "" if here.name == "agent" else " ".join(words[: number + 1])
            here = inner
        elif word.startswith("-") and len(word) > 1 and word.partition("=")[0] not in _flags(here):
            return " ".join([*words[:number], word])
        elif number == 2 and here.name == "get" and word.islower() and word.rstrip("s") not in _kinds(here):
            return " ".join(words[: number + 1])
    return ""


def _flags(command: click.Command) -> set[str]:
    return {"-h", "--help", *(flag for part in command.params for flag in (*part.opts, *part.secondary_opts))}


def _kinds(command: click.Command) -> set[str]:
    """Kinds of `linkwise get`, by its help."""
    text = f"{command.help}\n{command.epilog}"
    kinds = re.findall(r"^(\w+)  +\S", text, re.MULTILINE) + re.findall(r"KIND is ([^.]*)\.", text)
    return {word.rstrip("s") for found in kinds for word in re.findall(r"\w+", found)} | {"policy"}


def _in_line(line: str) -> Iterator[str]:
    """The commands of Linkwise in a line of shell, without what they are connected to."""
    for part in re.split(r"\$\(|(?<=\s)\||&&|;|^\s*if |\bdo ", line):
        words = part.strip().removeprefix("sudo ").removeprefix("kubectl ")
        while (found := ASSIGNMENT.match(words)) and " " in words:
            words = words[found.end() :].lstrip()
        if re.match(r"linkwise(?:\s|$)", words):
            yield SIGNS.split(ENDS.split(words)[0].rstrip("&) "))[0] if "'" not in words else ENDS.split(words)[0]


def _blank(found: re.Match[str]) -> str:
    """As many characters without a meaning, so that positions stay."""
    return re.sub(r"[^\n]", " ", found[0])
