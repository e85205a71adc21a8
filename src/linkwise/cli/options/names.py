"""Options for names of objects, checked where they are given: a wrong one fails much later, and elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["name_option", "namespace_option"]

_OURS: Final = "linkwise-system"
"""where everything of ours is, unless somebody wants it elsewhere"""
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE: Final = re.compile(_LABEL)
_LONGEST, _LONGEST_NAMESPACE = 253, 63  # characters
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def name_option(default: str, told: str) -> Callable[[_Command], _Command]:
    """--name, which InputError refuses if no object can be called so."""
    return click.option("--name", default=default, show_default=True, callback=_object_name, help=told)


def namespace_option(told: str) -> Callable[[_Command], _Command]:
    """--namespace, the same for a namespace."""
    return click.option("--namespace", default=_OURS, show_default=True, callback=_namespace_name, help=told)


def _object_name(context: click.Context, option: click.Parameter, value: str) -> str:
    del context
    if len(value) > _LONGEST or not _NAME.fullmatch(value):
        raise InputError(
            f"--{option.name}: {value!r} is no name for an object: small letters, digits, - and . make one"
        )
    return value


def _namespace_name(context: click.Context, option: click.Parameter, value: str) -> str:
    del context
    if len(value) > _LONGEST_NAMESPACE or not _NAMESPACE.fullmatch(value):
        raise InputError(f"--{option.name}: {value!r} is no name for a namespace: small letters, digits and - make one")
    return value
