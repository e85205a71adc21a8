"""Input and output options: files with -f as for kubectl or as arguments, JSON by `--json` or `-o json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.cli.options.kinds import complete_files
from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Function = TypeVar("Function", bound=Callable[..., Any])
    from collections.abc import Callable

__all__ = ["file_name", "files_flag", "form_flag", "json_flag", "named_files"]

_JSON_REQUESTED: Final = "linkwise.json"
"""key in the click context, set when the hidden spelling was used"""


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


def json_flag(help_text: str) -> Callable[[Function], Function]:
    """Add --json as `as_json`, and the hidden synonym -o json."""

    def either(context: click.Context, option: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click's own signature
        del option
        return value or _JSON_REQUESTED in context.meta

    def flags(function: Function) -> Function:
        other = click.option(
            "-o", "--output", type=click.Choice(["json"]), **_other_spelling(), help="The same as --json."
        )
        return click.option("--json", "as_json", is_flag=True, callback=either, help=help_text)(other(function))

    return flags


def form_flag(*forms: str) -> Callable[[Function], Function]:
    """Add -o as `form`, and the hidden synonym --json."""

    def either(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
        del option
        if _JSON_REQUESTED not in context.meta:
            return value
        if value not in {None, "json"}:
            raise InputError(f"--json and -o {value} can't be used together")
        return "json"

    def flags(function: Function) -> Function:
        other = click.option("--json", is_flag=True, **_other_spelling(), help="The same as -o json.")
        return click.option("-o", "--output", "form", type=click.Choice(forms), callback=either, help="Output format.")(
            other(function)
        )

    return flags


def _other_spelling() -> dict[str, Any]:
    """Return the settings of the hidden synonyms."""
    return {"hidden": True, "expose_value": False, "is_eager": True, "callback": _remember}


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    del option
    if value:
        context.meta[_JSON_REQUESTED] = True
