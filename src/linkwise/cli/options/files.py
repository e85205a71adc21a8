"""Input files: given with -f as for kubectl, or as arguments, for example from `*.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from linkwise.cli.options.completion import complete_files
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["file_name", "files_flag", "named_files"]


def files_flag(help_text: str) -> Callable[[Function], Function]:
    """Add a repeatable -f as `files`, and file arguments as `bare`."""

    def flags(function: Function) -> Function:
        option = click.option(
            *("-f", "--filename", "files"), multiple=True, metavar="FILE", help=help_text, shell_complete=complete_files
        )
        return click.argument("bare", nargs=-1, metavar="[FILE]...", shell_complete=complete_files)(option(function))

    return flags


def named_files(files: Sequence[str], bare: Sequence[str]) -> tuple[str, ...]:
    """Return all files; an error if there are none, or if standard input is given twice."""
    named = (*files, *bare)
    if not named:
        raise click.UsageError("File required: -f FILE, or -f - for standard input.")
    if named.count("-") > 1:
        raise InputError("only one of the files can be read from standard input")
    return named


def file_name(file: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if file == "-" else file
