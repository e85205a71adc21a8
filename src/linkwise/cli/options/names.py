"""Options for object names, validated at once: an invalid name would fail much later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["name_option", "namespace_name", "namespace_option", "object_name"]

_DEFAULT_NAMESPACE: Final = "linkwise-system"
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE: Final = re.compile(_LABEL)
_MAX_NAME, _MAX_NAMESPACE = 253, 63  # characters
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def name_option(default: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add --name; InputError if it is not a valid object name."""
    return click.option("--name", default=default, show_default=True, callback=object_name, help=help_text)


def namespace_option(help_text: str) -> Callable[[_Command], _Command]:
    """Add --namespace; InputError if it is not a valid namespace."""
    return click.option(
        "--namespace", default=_DEFAULT_NAMESPACE, show_default=True, callback=namespace_name, help=help_text
    )


def object_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The value of an option; InputError if it is not a valid object name."""
    del context
    if len(value) > _MAX_NAME or not _NAME.fullmatch(value):
        raise InputError(
            f"{option.opts[0]}: {value!r} is not a valid object name: use lowercase letters, digits, - and ."
        )
    return value


def namespace_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The value of an option; InputError if it is not a valid namespace."""
    del context
    if len(value) > _MAX_NAMESPACE or not _NAMESPACE.fullmatch(value):
        raise InputError(f"{option.opts[0]}: {value!r} is not a valid namespace: use lowercase letters, digits and -")
    return value
