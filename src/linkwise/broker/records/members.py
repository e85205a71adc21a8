"""Members of a group: observed pods in the order of their ranks, and the group as it is now."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from linkwise.dialects.linkwise.gang_gate import is_gated

if TYPE_CHECKING:
    from linkwise.model.ask import Group
    from linkwise.model.views import PodView

__all__ = ["Enrolled", "GroupView", "Members", "with_all_members"]

Enrolled = tuple["PodView", "Group"]
"""a member, and the group that it declares"""
_NUMBERS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it is now; members that are being bound count as bound."""

    group: Group
    """as its oldest pod declares it, completed from its PodGroup"""
    waiting: tuple[PodView, ...]
    """pending members, by rank"""
    bound: tuple[PodView, ...] = ()
    extra: tuple[str, ...] = ()
    """UIDs of pods beyond the number of members, bound or not: each is placed alone"""
    leaving: tuple[PodView, ...] = ()
    """bound and being deleted: not members any more, though their devices are not free yet"""
    satisfied: bool = False
    """whether it is a gang of which enough members have been bound once"""

    @property
    def key(self) -> str:
        """The key of the group."""
        return self.group.key

    @property
    def seen(self) -> int:
        """Existing members."""
        return len(self.waiting) + len(self.bound)

    @property
    def least(self) -> int:
        """The number of members that must start together; 0 without a gang, or once enough of it have started."""
        return 0 if self.group.minimum is None or self.satisfied else self.group.minimum


def with_all_members(group: Group, members: int) -> Group:
    """Return the group with the number of existing members as its minimum, if all of them must start together."""
    return replace(group, minimum=members) if group.all_members and group.minimum is None else group


class Members:
    """Members by UID, with the counts that are needed whenever a member changes."""

    __slots__ = ("_first", "bound", "gated", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, Enrolled] = {}
        self.bound = 0
        """members that have a node"""
        self.gated = 0
        """members that have the gate of gangs"""
        self._first: Enrolled | None = None

    def __len__(self) -> int:
        return len(self.pods)

    def put(self, pod: PodView, group: Group) -> Enrolled | None:
        """Record a member; return its earlier version, None if it is new."""
        before, member = self.pods.get(pod.uid), (pod, group)
        if before:
            self._leave(before)
        self.pods[pod.uid] = member
        self.bound += bool(pod.node)
        self.gated += is_gated(pod)
        if self._first and _age(pod) < _age(self._first[0]):
            self._first = member
        return before

    def take(self, uid: str) -> Enrolled:
        """Remove a member."""
        member = self.pods.pop(uid)
        self._leave(member)
        return member

    def first(self) -> Enrolled:
        """Return the oldest member, which defines the group."""
        if self._first is None:
            self._first = min(self.pods.values(), key=lambda member: _age(member[0]))
        return self._first

    def by_rank(self) -> list[PodView]:
        """Return members by rank, age and natural name order: w-10 follows w-2."""
        return [pod for pod, _ in sorted(self.pods.values(), key=lambda member: _order(*member))]

    def order(self, uid: str) -> tuple[object, ...]:
        """Return the sort key of a member."""
        return _order(*self.pods[uid])

    def _leave(self, member: Enrolled) -> None:
        self.bound -= bool(member[0].node)
        self.gated -= is_gated(member[0])
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
