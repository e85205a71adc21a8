"""One text for many names, as a mapping that is not made unless somebody looks into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["UniformMapping"]


class UniformMapping(Mapping[str, str]):
    """Every name with the same text.

    A scheduler is told why each of thousands of nodes does not fit, and mostly it is one reason: making a mapping of it
    would take longer than reading the request.
    """

    def __init__(self, names: Sequence[str], text: str, *, plain: bool = False) -> None:
        self.names = names
        self.text = text
        self.plain = plain
        """whether no name has a character that a format may write in another way"""
        self._found: dict[str, str] = {}

    def whole(self) -> dict[str, str]:
        """The same as a dictionary."""
        if not self._found:
            self._found = dict.fromkeys(self.names, self.text)
        return self._found

    def __getitem__(self, name: str) -> str:
        return self.whole()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())
