"""Comparisons of a requirement, checked as they are read: the values that each fact can be compared with, and how.

Both grammars, that of the annotation and that of NVIDIA's variables, report errors with their column, counted from 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.model.requirement import KINDS, SIZE, VERSION, Comparison

if TYPE_CHECKING:
    from linkwise.model.requirement import FactName, Operator

__all__ = ["LONGEST", "checked", "error_at"]

LONGEST: Final = 16_384
"""characters of one requirement; those of images list several thousand"""
_EQUALITY: Final = ("=", "!=")
_EXAMPLES: Final = {"version": "a version such as 12.2", "bytes": "an amount of memory such as 40Gi"}


def error_at(column: int, sentence: str) -> InputError:
    """An error in a requirement, with the column where it is."""
    return InputError(f"column {column}: {sentence}")


def checked(fact: FactName, operator: Operator, values: tuple[tuple[str, int], ...], column: int) -> Comparison:
    """The comparison; values have their columns, and `column` is that of the operator.

    Raises:
        InputError: the fact can't be compared in this way, or not with one of the values.
    """
    kind = KINDS[fact]
    if kind == "text" and operator not in _EQUALITY:
        raise error_at(column, f"{fact} can't be compared by {operator}; use =, !=, in or not in")
    for value, place in values:
        valid = kind == "text" or (VERSION if kind == "version" else SIZE).fullmatch(value)
        if not valid:
            raise error_at(place, f"{value[:40]!r} is not {_EXAMPLES[kind]}, which {fact} is compared with")
        if kind == "text" and fact != "model" and "*" in value:
            raise error_at(place, f"{value[:40]!r}: only a model may contain *")
    return Comparison(fact, operator, tuple(value for value, _ in values))
