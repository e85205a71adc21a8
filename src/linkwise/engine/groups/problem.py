"""A group to be planned: members of a few kinds, and the nodes that could host some of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.engine.groups.hosting import Host, Loss, Sizes

__all__ = ["Case", "Cost", "Counts", "GroupProblem", "MemberKind", "Region", "Spot"]

Counts = tuple[int, ...]
"""members of each kind"""
Cost = tuple[int, ...]
"""good sets that others lose, the largest first, and devices left over: compared in order"""


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Members that differ in nothing but their name."""

    size: int
    """devices of each"""
    count: int


@dataclass(frozen=True, slots=True)
class Spot:
    """A node as a host of members."""

    name: str
    host: Host
    caps: Counts
    """members of each kind that it could take by CPU, memory and all else, if they came alone"""
    path: tuple[str, ...] = ()
    """its domains in the network, the broadest first"""
    model: str = ""
    """of its devices"""
    fresh: bool = True
    """whether no member is bound there yet: only such nodes count as more nodes"""


class Case(NamedTuple):
    """Nodes that are alike as hosts."""

    host: Host
    caps: Counts
    fresh: bool


class Region:
    """Nodes among which a plan is looked for; what is alike among them is counted once."""

    def __init__(self, path: tuple[str, ...], spots: Sequence[Spot] = (), parts: Sequence[Region] = ()) -> None:
        self.path = path
        self._spots = tuple(spots)
        self._parts = tuple(parts)
        self._cases: Counter[Case] = Counter()
        self._firsts: dict[Case, tuple[tuple[str, ...], str]] = {}

    @property
    def spots(self) -> tuple[Spot, ...]:
        """All nodes."""
        if not self._spots and self._parts:
            self._spots = tuple(spot for part in self._parts for spot in part.spots)
        return self._spots

    @property
    def cases(self) -> Counter[Case]:
        """How many nodes of each kind there are."""
        if not self._cases:
            if self._parts:
                for part in self._parts:
                    self._cases.update(part.cases)
            else:
                self._cases.update(Case(spot.host, spot.caps, spot.fresh) for spot in self._spots)
        return self._cases

    def names(self, case: Case) -> list[str]:
        """The nodes of one kind, by domain and name."""
        alike = [spot for spot in self.spots if (spot.host, spot.caps, spot.fresh) == case]
        return [spot.name for spot in sorted(alike, key=lambda spot: (spot.path, spot.name))]

    def first_of(self, case: Case) -> tuple[tuple[str, ...], str]:
        """Where the first node of one kind is."""
        if not self._firsts:
            for spot in self.spots:
                key, place = Case(spot.host, spot.caps, spot.fresh), (spot.path, spot.name)
                self._firsts[key] = min(place, self._firsts.get(key, place))
        return self._firsts[case]

    def __len__(self) -> int:
        return sum(map(len, self._parts)) if self._parts else len(self._spots)


def _always(name: str, counts: Counts) -> bool:
    del name, counts
    return True


@dataclass(frozen=True, slots=True)
class GroupProblem:
    """What has to be placed, and where it could be."""

    kinds: tuple[MemberKind, ...]
    """the largest first"""
    spots: tuple[Spot, ...]
    levels: tuple[str, ...] = ()
    """names of the network's levels, the broadest first: as many as a spot's path is long"""
    required: int = 0
    """so many of the levels must hold the whole group in one domain"""
    mixed: bool = False
    """whether devices of different models may serve one group"""
    seed_order: bool = False
    """whether fewer left-over devices go before bandwidth, as the seed says"""
    together: Callable[[str, Counts], bool] = field(default=_always)
    """whether a node could take members of several kinds side by side, by CPU, memory and all else"""

    @property
    def wanted(self) -> Counts:
        """Members of each kind."""
        return tuple(kind.count for kind in self.kinds)

    def cost(self, loss: Loss, left: int) -> Cost:
        """What a choice costs, in the order in which that counts."""
        # rule 001.left-over: among equals the nodes that keep fewer free devices; the seed has them before bandwidth.
        return (left, *loss) if self.seed_order else (*loss, left)

    def sizes(self, counts: Counts) -> Sizes:
        """The devices of so many members of each kind, the largest first."""
        return tuple(kind.size for kind, count in zip(self.kinds, counts, strict=True) for _ in range(count))
