"""Lazy mapping of many names to one text.

Buys: no dictionary of thousands of equal refusals, unless a caller reads it as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["UniformMapping"]


class UniformMapping(Mapping[str, str]):
    """All names with the same text.

    A filter answer has a refusal for each of thousands of nodes, usually all the same. Building the dictionary would take
    longer than parsing the request.
    """

    def __init__(self, names: Sequence[str], text: str, *, plain: bool = False) -> None:
        self.names = names
        self.text = text
        self.plain = plain
        """whether no name has a character that JSON may escape"""
        self._dict: dict[str, str] = {}

    def whole(self) -> dict[str, str]:
        """The mapping as a dictionary."""
        if not self._dict:
            self._dict = dict.fromkeys(self.names, self.text)
        return self._dict

    def __getitem__(self, name: str) -> str:
        return self.whole()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())
