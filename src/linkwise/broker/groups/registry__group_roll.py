"""The members of one group, with what is asked of them whenever one changes: who is first, and how many are bound."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from linkwise.model.ask__group import Group
    from linkwise.model.views import PodView

__all__ = ["Enrolled", "Roll"]

Enrolled = tuple["PodView", "Group"]
"""a member, and the group as it says it"""
_NUMBERS: Final = re.compile(r"([0-9]+)")


class Roll:
    """Members by UID."""

    __slots__ = ("_first", "bound", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, Enrolled] = {}
        self.bound = 0
        """members that have a node"""
        self._first: Enrolled | None = None

    def __len__(self) -> int:
        return len(self.pods)

    def put(self, pod: PodView, group: Group) -> Enrolled | None:
        """Note a member as it is now; as it was before, None if it is new."""
        before, member = self.pods.get(pod.uid), (pod, group)
        if before:
            self._leave(before)
        self.pods[pod.uid] = member
        self.bound += bool(pod.node)
        if self._first and _age(pod) < _age(self._first[0]):
            self._first = member
        return before

    def take(self, uid: str) -> Enrolled:
        """Strike a member out."""
        member = self.pods.pop(uid)
        self._leave(member)
        return member

    def first(self) -> Enrolled:
        """The oldest member, who says what the group is."""
        if self._first is None:
            self._first = min(self.pods.values(), key=lambda member: _age(member[0]))
        return self._first

    def by_rank(self) -> list[PodView]:
        """By rank, age and name, with numbers in names in their order: w-10 comes after w-2."""
        return [pod for pod, _ in sorted(self.pods.values(), key=lambda member: _order(*member))]

    def _leave(self, member: Enrolled) -> None:
        self.bound -= bool(member[0].node)
        if self._first is member:
            self._first = None


def _age(pod: PodView) -> tuple[float, str]:
    return (pod.created, pod.uid)


def _order(pod: PodView, group: Group) -> tuple[object, ...]:
    return (group.rank is None, group.rank or 0, pod.created, _natural(pod.name), pod.uid)


@lru_cache(maxsize=1 << 16)
def _natural(name: str) -> tuple[tuple[str, int], ...]:
    parts = _NUMBERS.split(name)
    return tuple((text, int(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True))
