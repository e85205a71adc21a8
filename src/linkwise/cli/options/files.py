"""Files that a command reads: with -f as for kubectl, or by themselves as a shell's `*.yaml` gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["file_name", "files_flag", "named_files"]


def files_flag(told: str) -> Callable[[Function], Function]:
    """-f, as often as wanted, as `files`, and files without it as `bare`."""

    def flags(function: Function) -> Function:
        option = click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help=told)
        return click.argument("bare", nargs=-1, metavar="[FILE]...")(option(function))

    return flags


def named_files(files: Sequence[str], bare: Sequence[str]) -> tuple[str, ...]:
    """All of them, once they make sense."""
    named = (*files, *bare)
    if not named:
        raise click.UsageError("Name a file: -f FILE, or -f - for standard input.")
    if named.count("-") > 1:
        raise InputError("only one of the files can be standard input")
    return named


def file_name(file: str) -> str:
    """What a file is called in a sentence."""
    return "standard input" if file == "-" else file
