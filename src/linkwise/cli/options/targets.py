"""Objects of any kind that the cluster serves, as arguments of the commands that change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Target", "targets_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """One object, or all of a kind."""

    kind: str
    """as the user wrote it"""
    name: str = ""
    """empty for those that a selector matches"""


def targets_of(arguments: Sequence[str], *, selected: bool) -> tuple[Target, ...]:
    """Parse `pod x y`, `pod/x job/y` or, with a selector, `pods` or `pods,jobs`; InputError says what is missing."""
    if not arguments:
        raise InputError("objects required: KIND NAME, KIND/NAME, or KIND with -l")
    if any("/" in argument for argument in arguments):
        if selected:
            raise InputError("a name can't be used together with -l or --all")
        pairs = [argument.partition("/") for argument in arguments]
        wrong = next(("".join(pair) for pair in pairs if not (pair[0] and pair[2])), "")
        if wrong:
            raise InputError(f"{wrong}: KIND/NAME required, because other arguments have that form")
        return tuple(dict.fromkeys(Target(kind, name) for kind, _, name in pairs))
    kind, *names = arguments
    if selected and names:
        raise InputError("a name can't be used together with -l or --all")
    if not selected and not names:
        raise InputError(f"name required: {kind} NAME, or {kind} with -l SELECTOR or --all")
    if selected:
        return tuple(Target(word) for word in dict.fromkeys(kind.split(",")) if word)
    return tuple(dict.fromkeys(Target(kind, name) for name in names))
