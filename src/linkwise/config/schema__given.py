"""A value of a setting, who gave it, and the one error for all values that make no sense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Given", "Source", "refusal"]

Source = Literal["default", "file", "environment", "flag"]


@dataclass(frozen=True, slots=True)
class Given:
    """What a setting is, and since where."""

    value: object
    source: Source
    place: str = ""
    """`linkwise.yaml:3`, or the variable"""


def refusal(problems: Sequence[object]) -> InputError:
    """One error that tells of all problems, a line each."""
    start = "" if len(problems) == 1 else f"{len(problems)} things are wrong:\n  "
    return InputError(start + "\n  ".join(map(str, problems)))
