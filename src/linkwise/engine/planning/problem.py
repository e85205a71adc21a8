"""A group to be planned: members of a few kinds, and the nodes that could host some of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from linkwise.engine.planning.hosts import Host, Loss, Sizes

__all__ = ["Case", "Cost", "Counts", "GroupProblem", "MemberKind", "Option", "Rack", "Region", "Spot"]

Counts = tuple[int, ...]
"""members of each kind"""
Place = tuple[tuple[str, ...], str]
"""a node's domains and its name"""
Cost = tuple[int, ...]
"""good sets that others lose, the largest first, and devices left over: compared in order"""


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Members that differ in nothing but their name."""

    size: int
    """devices of each"""
    count: int


class Spot(NamedTuple):
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
    like: Hashable = None
    """nodes that agree in it take the same members side by side; None if that is not known"""


class Case(NamedTuple):
    """Nodes that are alike as hosts."""

    host: Host
    caps: Counts
    fresh: bool


class Option(NamedTuple):
    """What one node could take."""

    counts: Counts
    cost: Cost
    devices: int


class Rack:
    """Nodes of one path in the network; what is alike among them is counted once."""

    __slots__ = ("_firsts", "cases", "path")

    def __init__(self, path: tuple[str, ...], spots: Iterable[Spot] = ()) -> None:
        self.path = path
        self.cases: dict[Case, list[Spot]] = {}
        self._firsts: dict[Case, Place] = {}
        for spot in spots:
            self.put(spot)

    def put(self, spot: Spot) -> None:
        """One node more; a region asks for the others when the rack is full."""
        case = Case(spot.host, spot.caps, spot.fresh)
        alike = self.cases.get(case)
        if alike is None:
            self.cases[case] = [spot]
        else:
            alike.append(spot)

    def spots(self) -> list[Spot]:
        """All nodes by name."""
        return sorted((spot for alike in self.cases.values() for spot in alike), key=_name)

    def counts(self) -> Iterable[tuple[Case, int]]:
        """How many nodes of each kind there are."""
        return ((case, len(alike)) for case, alike in self.cases.items())

    def firsts(self) -> dict[Case, Place]:
        """The first node of each kind."""
        if not self._firsts:
            self._firsts = {case: (self.path, min(alike, key=_name).name) for case, alike in self.cases.items()}
        return self._firsts


class Region:
    """Nodes among which a plan is looked for: some racks, or other regions taken together."""

    def __init__(self, path: tuple[str, ...], racks: Sequence[Rack] = (), parts: Sequence[Region] = ()) -> None:
        self.path = path
        self._racks = racks
        self._parts = parts
        self._spots: tuple[Spot, ...] = ()
        self._cases: Counter[Case] = Counter()
        self._firsts: dict[Case, Place] = {}
        self._largest: tuple[list[Spot], list[Spot]] | None = None

    @property
    def racks(self) -> Sequence[Rack]:
        """Where its nodes are."""
        if self._parts and not self._racks:
            self._racks = [rack for part in self._parts for rack in part.racks]
        return self._racks

    @property
    def spots(self) -> tuple[Spot, ...]:
        """All nodes, those of a rack by name."""
        if not self._spots:
            self._spots = tuple(spot for rack in self.racks for spot in rack.spots())
        return self._spots

    @property
    def cases(self) -> Counter[Case]:
        """How many nodes of each kind there are."""
        if not self._cases:
            for part in self._parts or self._racks:
                for case, count in part.counts():
                    self._cases[case] += count
        return self._cases

    def counts(self) -> Iterable[tuple[Case, int]]:
        """The same in pairs."""
        return self.cases.items()

    def firsts(self) -> dict[Case, Place]:
        """The first node of each kind, by domain and name."""
        if not self._firsts:
            for part in self._parts or self._racks:
                for case, place in part.firsts().items():
                    known = self._firsts.get(case)
                    if known is None or place < known:
                        self._firsts[case] = place
        return self._firsts

    def names(self, case: Case) -> Iterator[str]:
        """The nodes of one kind, by domain and name."""
        found: dict[tuple[str, ...], list[str]] = {}
        for rack in self.racks:
            if case in rack.cases:
                found.setdefault(rack.path, []).extend(spot.name for spot in rack.cases[case])
        for path in sorted(found):
            yield from sorted(found[path])

    def largest(self, count: int) -> list[Spot]:
        """The fresh nodes with the most free devices, after those that are not fresh."""
        if not self._largest:
            fresh = [spot for spot in self.spots if spot.fresh]
            fresh.sort(key=lambda spot: (-spot.host.room, spot.path, spot.name))
            self._largest = ([spot for spot in self.spots if not spot.fresh], fresh)
        bound, fresh = self._largest
        return [*bound, *fresh[:count]]

    def devices(self) -> int:
        """Devices that are free."""
        return sum(case.host.room * count for case, count in self.cases.items())

    def __len__(self) -> int:
        return self.cases.total()


def _name(spot: Spot) -> str:
    return spot.name


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
    floor: float = 0.0  # GB/s
    """how fast the devices of every member must reach each other at least"""
    together: Callable[[str, Counts], bool] = field(default=_always)
    """whether a node could take members of several kinds side by side, by CPU, memory and all else"""
    options: dict[Hashable, list[Option]] = field(default_factory=dict, repr=False, compare=False)
    """what nodes could take, as far as it was worked out"""
    _sizes: dict[Counts, Sizes] = field(default_factory=dict, repr=False, compare=False)
    _devices: dict[Counts, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def wanted(self) -> Counts:
        """Members of each kind."""
        return tuple(kind.count for kind in self.kinds)

    def cost(self, loss: Loss, left: int) -> Cost:
        """What a choice costs, in the order in which that counts."""
        # rule 001.left-over: among equals the nodes that keep fewer free devices; the seed has them before bandwidth.
        return (left, *loss) if self.seed_order else (*loss, left)

    def devices(self, counts: Counts) -> int:
        """How many devices so many members of each kind need."""
        known = self._devices.get(counts)
        if known is None:
            known = self._devices[counts] = sum(self.sizes(counts))
        return known

    def sizes(self, counts: Counts) -> Sizes:
        """The devices of so many members of each kind, the largest first."""
        known = self._sizes.get(counts)  # asked for again and again, of few different counts
        if known is None:
            pairs = zip(self.kinds, counts, strict=True)
            known = self._sizes[counts] = tuple(kind.size for kind, count in pairs for _ in range(count))
        return known
