"""Names sorted by numbers, in short lists, so that a change moves little."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST", "SortedNames"]

LONGEST: Final = 512
"""entries of a list; one that grows beyond is halved"""


class SortedNames:
    """Pairs of a number and a name, by number and then by name: how they came about does not show."""

    __slots__ = ("_names", "_numbers", "_tops")

    def __init__(self) -> None:
        # Beside each other and not as pairs: a part is taken of either without making or touching pairs.
        self._numbers: list[list[int]] = [[]]
        self._names: list[list[str]] = [[]]
        self._tops: list[tuple[int, str]] = []
        """no pair of a list comes after its top; the last list has none"""

    def add(self, number: int, name: str) -> None:
        """Put in a pair that is not there."""
        place, position = self._find(number, name)
        numbers, names = self._numbers[place], self._names[place]
        numbers.insert(position, number)
        names.insert(position, name)
        if len(numbers) > LONGEST:
            half = len(numbers) // 2
            self._numbers[place : place + 1] = [numbers[:half], numbers[half:]]
            self._names[place : place + 1] = [names[:half], names[half:]]
            self._tops.insert(place, (numbers[half - 1], names[half - 1]))

    def remove(self, number: int, name: str) -> None:
        """Take out a pair that is there."""
        place, position = self._find(number, name)
        del self._numbers[place][position], self._names[place][position]
        if self._tops and not self._numbers[place]:
            del self._numbers[place], self._names[place], self._tops[min(place, len(self._tops) - 1)]

    def between(self, least: float, most: float, piece: int = LONGEST) -> Iterator[tuple[list[int], list[str]]]:
        """The pairs with numbers from the one to the other, in pieces of at most so many, numbers and names apart."""
        for place in range(bisect_left(self._tops, (least,)), len(self._numbers)):
            numbers, names = self._numbers[place], self._names[place]
            start, end = bisect_left(numbers, least), bisect_right(numbers, most)
            for first in range(start, end, piece):
                last = min(first + piece, end)
                yield numbers[first:last], names[first:last]
            if end < len(numbers):
                return

    def _find(self, number: int, name: str) -> tuple[int, int]:
        place = bisect_left(self._tops, (number, name))
        numbers = self._numbers[place]
        start = bisect_left(numbers, number)
        return place, bisect_left(self._names[place], name, start, bisect_right(numbers, number, start))
