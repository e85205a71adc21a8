"""How an answer is written: `--json` and `-o json` mean the same to every command that can answer as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["form_flag", "json_flag"]

_ASKED: Final = "linkwise.json"
"""where a context remembers that the other spelling was used"""


def json_flag(told: str) -> Callable[[Function], Function]:
    """--json, as `as_json`; who is used to kubectl may write -o json."""

    def either(context: click.Context, option: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - as click calls it
        del option
        return value or _ASKED in context.meta

    def flags(function: Function) -> Function:
        other = click.option(
            "-o", "--output", type=click.Choice(["json"]), **_other_spelling(), help="The same as --json."
        )
        return click.option("--json", "as_json", is_flag=True, callback=either, help=told)(other(function))

    return flags


def form_flag(*forms: str) -> Callable[[Function], Function]:
    """-o, as `form`; who is used to our other commands may write --json."""

    def either(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
        del option
        if _ASKED not in context.meta:
            return value
        if value not in {None, "json"}:
            raise InputError(f"--json and -o {value} say different things: give one of them")
        return "json"

    def flags(function: Function) -> Function:
        other = click.option("--json", is_flag=True, **_other_spelling(), help="The same as -o json.")
        return click.option(
            "-o", "--output", "form", type=click.Choice(forms), callback=either, help="Another form of the answer."
        )(other(function))

    return flags


def _other_spelling() -> dict[str, Any]:
    """What the options have in common that are known and not advertised."""
    return {"hidden": True, "expose_value": False, "is_eager": True, "callback": _remember}


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    del option
    if value:
        context.meta[_ASKED] = True
