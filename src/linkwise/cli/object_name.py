"""Names of objects, checked where they are given: what is printed with a wrong one fails much later, and elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError

if TYPE_CHECKING:
    import click

__all__ = ["namespace_name", "object_name"]

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAMESPACE: Final = re.compile(_LABEL)
_LONGEST, _LONGEST_NAMESPACE = 253, 63  # characters


def object_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The name as it is; InputError if no object can be called so."""
    del context
    if len(value) > _LONGEST or not _NAME.fullmatch(value):
        raise InputError(
            f"--{option.name}: {value!r} is no name for an object: small letters, digits, - and . make one"
        )
    return value


def namespace_name(context: click.Context, option: click.Parameter, value: str) -> str:
    """The same for a namespace."""
    del context
    if len(value) > _LONGEST_NAMESPACE or not _NAMESPACE.fullmatch(value):
        raise InputError(f"--{option.name}: {value!r} is no name for a namespace: small letters, digits and - make one")
    return value
