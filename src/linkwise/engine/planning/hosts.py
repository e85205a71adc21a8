"""Hosts: the members that nodes of one shape can take, at which bandwidth, and at what loss to other pods.

One host per shape: by links if the policy is by bandwidth, otherwise by what the policy picks. Bound: hosts use class
values instead of samples, so thousands of nodes have few shapes, and all results are cached by shape.
"""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from linkwise.engine.usage import node_after
from linkwise.model.verdict import Offer
from linkwise.topology.canonical import canonical
from linkwise.topology.device_sets import mask_of, positions, sets_with
from linkwise.topology.fabric import SIZES, fabric_of
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Shape
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix

__all__ = [
    "NOTHING_LOST",
    "NO_FLOORS",
    "CountedHost",
    "Floors",
    "Host",
    "Hosts",
    "LinkedHost",
    "Loss",
    "PartSize",
    "PickedHost",
    "Size",
    "Sizes",
    "UncertainHost",
    "among",
    "arranged",
    "by_links",
    "in_parts",
    "picked",
    "weight_of",
]


class PartSize(NamedTuple):
    """A kind of member that gets a part of one device."""

    number: int
    """among the kinds of parts in its group"""
    weight: float = 0.0
    """the least fraction of a device that it takes on any node"""


Size = int | PartSize
"""what a member gets: a number of whole devices, or a part of one"""
Sizes = tuple[Size, ...]
"""of several members, the largest first"""
Loss = tuple[int, ...]
"""good sets of 16, 8, 4 and 2 devices that other pods lose, and free devices taken"""

NOTHING_LOST: Final[Loss] = (0,) * (len(SIZES) + 1)


def weight_of(size: Size) -> float:
    """The number of devices that a member takes at least."""
    return size.weight if isinstance(size, PartSize) else size


def whole_devices(sizes: Sizes) -> list[int]:
    """The devices of each of these members, if they get whole ones."""
    return [size for size in sizes if not isinstance(size, PartSize)]


class Floors(NamedTuple):
    """Least bandwidth in GB/s: between all devices of the group on a node, and between the devices of one member."""

    node: float = 0.0
    member: float = 0.0


NO_FLOORS: Final = Floors()


class Host(Protocol):
    """Nodes of one shape as hosts of members."""

    room: float
    """the number of devices that members can get, those of which they can get a part in part"""
    free: int
    """the number of unused devices"""

    @property
    def exact(self) -> bool:
        """Whether members that it refused can't be placed there in any way."""

    def speeds(self) -> set[float]:
        """All values that a bottleneck can have here."""

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """The least loss to other pods if these members are placed here; None if they don't fit."""

    def fits(self, sizes: Sizes, floors: Floors) -> bool:
        """Whether these members fit; cheaper than their loss."""

    def slots(self, size: Size, floors: Floors) -> int:
        """The number of members of one size that fit at once."""

    def at_most(self, size: Size, floors: Floors) -> int:
        """Upper bound of members of this size, with larger ones counted as several of it."""


class CountedHost:
    """Nodes without link data, for members with whole devices: only the number of free ones matters."""

    exact = True

    def __init__(self, free: int) -> None:
        self.room: float = free
        self.free = free

    def speeds(self) -> set[float]:
        """0 for unknown pairs, infinity for a single device, which has no pair."""
        return {0.0, inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """No set lost, if there are enough devices and no bandwidth is required of unknown pairs."""
        whole = whole_devices(sizes)
        devices = sum(whole)
        pairs = devices > 1 and floors.node > 0
        inside = max(whole, default=0) > 1 and floors.member > 0
        if devices > self.free or pairs or inside:
            return None
        return (*NOTHING_LOST[:-1], devices)

    def fits(self, sizes: Sizes, floors: Floors) -> bool:
        """By the number of devices."""
        return self.loss(sizes, floors) is not None

    def slots(self, size: Size, floors: Floors) -> int:
        """By the number of free devices."""
        count = _most_whole(self.free, size)
        while count and self.loss((size,) * count, floors) is None:
            count -= 1
        return count

    at_most = slots


class LinkedHost:
    """Nodes with link data, for members with whole devices.

    Args:
        values: class values of every pair of devices; at most LARGEST_EXACT devices.
        open_: the devices that members can get, as a mask.
        held: the devices of members that are bound there already, as a mask.
        free: those of the open devices that are unused; all of them by default, because only parts are of used ones.
    """

    exact = True

    def __init__(self, values: Matrix, open_: int, held: int = 0, free: int | None = None) -> None:
        self._open = open_
        self._held = held
        self._free = open_ if free is None else free
        self.room: float = open_.bit_count()
        self.free = self._free.bit_count()
        self.fabric = fabric_of(values)
        self._losses: dict[tuple[Sizes, Floors], Loss | None] = {}
        self._fitting: dict[tuple[Sizes, Floors], bool] = {}
        self._slots: dict[tuple[Size, Floors], int] = {}
        self._sets: dict[int, list[tuple[int, float]]] = {}
        self._lost: dict[int, Loss] = {}

    def speeds(self) -> set[float]:
        """The values of all pairs, and infinity for a single device."""
        members = positions(self._open | self._held)
        return {self.fabric.values[i][j] for i in members for j in members if i != j} | {inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """The least loss of all sets that are fast enough."""
        key = (sizes, floors)
        if key not in self._losses:
            self._losses[key] = min(map(self.loss_of, self._unions(sizes, floors)), default=None)
        return self._losses[key]

    def fits(self, sizes: Sizes, floors: Floors) -> bool:
        """Whether any set is fast enough."""
        key = (sizes, floors)
        if key not in self._fitting:
            self._fitting[key] = next(self._unions(sizes, floors), None) is not None
        return self._fitting[key]

    def slots(self, size: Size, floors: Floors) -> int:
        """By the largest set that is fast enough and can be divided among the members."""
        if not any(floors):
            return _most_whole(self.free, size)
        key = (size, floors)
        if key not in self._slots:
            count = _most_whole(self.free, size)
            while count and next(self._unions((size,) * count, floors), None) is None:
                count -= 1
            self._slots[key] = count
        return self._slots[key]

    at_most = slots  # exact as a bound: a subset is never slower than its set

    def _unions(self, sizes: Sizes, floors: Floors) -> Iterator[int]:
        """The sets of devices that these members could share."""
        whole = tuple(whole_devices(sizes))
        for chosen, speed in self._sets_of(sum(whole)):
            if speed < floors.node:
                return
            if self.divides(chosen, whole, floors.member):
                yield chosen

    def speed(self, chosen: int) -> float:
        """The bottleneck of a set of devices, including held ones."""
        return self.fabric.bottlenecks()[chosen | self._held]

    def _sets_of(self, count: int) -> list[tuple[int, float]]:
        """The open sets of `count` devices with their bottleneck including held devices, the fastest first."""
        if count not in self._sets:
            table, held = self.fabric.bottlenecks(), self._held
            sets = [(chosen, table[chosen | held]) for chosen in sets_with(self._open, 0, count)]
            self._sets[count] = sorted(sets, key=lambda entry: -entry[1])
        return self._sets[count]

    def divides(self, chosen: int, sizes: Sequence[int], speed: float) -> bool:
        """Whether a set can be divided into sets of these sizes, each fast enough."""
        table, low = self.fabric.bottlenecks(), chosen & -chosen
        if not sizes or table[chosen] >= speed:
            return True
        for size in dict.fromkeys(sizes):
            rest = list(sizes)
            rest.remove(size)
            for part in sets_with(chosen, low, size):
                if table[part] >= speed and self.divides(chosen & ~part, rest, speed):
                    return True
        return False

    def loss_of(self, chosen: int) -> Loss:
        """What other pods lose with a set of devices."""
        if chosen not in self._lost:
            before, after = self.fabric.left(self._free), self.fabric.left(self._free & ~chosen)
            lost = (was - now for was, now in zip(before, after, strict=True))
            self._lost[chosen] = (*lost, (self._free & chosen).bit_count())
        return self._lost[chosen]


MAX_CACHED_SETS: Final = 4_000_000
"""sets of free devices of all cached hosts together; beyond it the cache is cleared"""
LEAST_SETS: Final = 64
"""sets that every host is counted with at least"""


def by_links(query: Query) -> bool:
    """Whether members are placed by the bandwidth of their links."""
    return query.policy.name == "bandwidth"


def in_parts(query: Query) -> bool:
    """Whether a member gets a part of a device."""
    return not query.ask.devices


def picked(query: Query, node: Node, devices: Collection[str]) -> tuple[str, ...]:
    """What the policy picks of these devices; empty if it refuses."""
    offer = query.pick(node.with_only(devices))
    return offer.devices if isinstance(offer, Offer) else ()


LAYOUTS_TRIED: Final = 2000
"""layouts tried on one node; beyond them a refusal is not proven"""


class Arrangement(NamedTuple):
    """Offers for several members on one node, or a refusal."""

    offers: tuple[Offer, ...] | None
    proven: bool = True
    """whether a refusal is certain: all layouts that make a difference were tried"""


def arranged(node: Node, asked: Sequence[Query], tries: int = LAYOUTS_TRIED) -> Arrangement:
    """An offer for each query, in their order: by the policy's picks if they all fit, else in other layouts."""
    search = _LayoutSearch(asked, tries)
    offers = search.offers(node, 0)
    complete = search.tries > 0 and all(query.policy.all_layouts for query in asked)
    return Arrangement(offers, offers is not None or complete)


class _LayoutSearch:
    """Depth-first search over the layouts of one member after the other."""

    def __init__(self, asked: Sequence[Query], tries: int) -> None:
        self._asked = asked
        self.tries = tries
        self._refused: set[tuple[int, frozenset[str]]] = set()

    def offers(self, node: Node, number: int) -> tuple[Offer, ...] | None:
        """Offers for the members from `number` on."""
        if number == len(self._asked):
            return ()
        state = (number, frozenset(node.used))
        if state in self._refused:
            return None
        query = self._asked[number]
        for offer in query.layouts(node):
            self.tries -= 1
            if self.tries < 0:
                return None
            rest = self.offers(node_after(node, offer, query.ask.domain, query.ask.mode), number + 1)
            if rest is not None:
                return (offer, *rest)
        self._refused.add(state)
        return None


Arranged = dict[Sizes, tuple[Loss | None, bool]]
"""by the sizes of members, what is lost on nodes of one shape, and whether a refusal is certain"""


class PickedHost:
    """Nodes of a policy with its own layout rules: by its picks, or in other layouts if these don't fit all members.

    Nodes of one shape share what is `known` of it: the policy is run once per shape.
    """

    def __init__(self, node: Node, asks: Mapping[Size, Query], known: Arranged | None = None) -> None:
        self.free = max(0, len(node.free()) - node.unattributed)
        # Parts of used devices are bounded by their number alone.
        self.room: float = len(node.healthy()) if any(isinstance(size, PartSize) for size in asks) else self.free
        self.exact = all(query.policy.all_layouts for query in asks.values())
        self._node = node
        self._asks = asks
        self._known = {} if known is None else known

    def speeds(self) -> set[float]:
        """Bandwidth does not matter."""
        return {inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """No set lost, if the policy has devices for all."""
        del floors
        if sizes not in self._known:
            offers, proven = arranged(self._node, [self._asks[size] for size in sizes])
            taken = self._taken(offers) if offers is not None else 0
            self._known[sizes] = (None if offers is None else (*NOTHING_LOST[:-1], taken), proven)
        loss, certain = self._known[sizes]
        self.exact &= certain
        return loss

    def _taken(self, offers: Iterable[Offer]) -> int:
        """The number of unused devices that these offers take."""
        free = {device.id for device in self._node.free()}
        return len(free.intersection(device for offer in offers for device in offer.devices))

    def fits(self, sizes: Sizes, floors: Floors) -> bool:
        """Whether the policy has devices for all."""
        return self.loss(sizes, floors) is not None

    def slots(self, size: Size, floors: Floors) -> int:
        """The most members that the policy has devices for."""
        if isinstance(size, PartSize):
            count = 0
            # Members of kinds that are not in `asks` are served by other nodes only.
            while size in self._asks and self.loss((size,) * (count + 1), floors) is not None:
                count += 1
            return count
        count = self.free // size
        while count and self.loss((size,) * count, floors) is None:
            count -= 1
        return count

    def at_most(self, size: Size, floors: Floors) -> int:
        """By the number of devices: a policy may refuse fewer members and accept more."""
        return self.slots(size, floors) if isinstance(size, PartSize) else self.free // size


class UncertainHost(PickedHost):
    """Nodes without link data of all devices while a bandwidth floor is set: the policy checks the floor."""

    def __init__(self, node: Node, asks: Mapping[Size, Query], floor: float) -> None:
        super().__init__(node, asks)
        self.exact = False  # the policy picks for one member after the other, and may take what another needs
        self._floor = floor

    def speeds(self) -> set[float]:
        """0 for unknown pairs, infinity for a single device, which has no pair."""
        return {0.0, inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """No set lost, if the policy picks devices for all and no more than the floor is required of pairs."""
        whole = whole_devices(sizes)
        pairs = (sum(whole) > 1 or len(sizes) > 1) and floors.node > 0
        inside = max(whole, default=0) > 1 and floors.member > self._floor
        return None if pairs or inside else super().loss(sizes, floors)


def _most_whole(room: int, size: Size) -> int:
    """The number of members with so many whole devices each."""
    return 0 if isinstance(size, PartSize) else room // size


class Hosts:
    """Cache of hosts by shape, shared by all plans."""

    def __init__(self) -> None:
        self._linked: dict[tuple[int, ...], Host] = {}
        self._values: dict[int, Matrix | None] = {}
        self._sets = 0

    def __len__(self) -> int:
        return len(self._linked)

    def linked(self, node: Node, shape: Shape, held: frozenset[str]) -> Host:
        """The host of a node by links."""
        taken = mask_of(place for place, device in enumerate(node.devices) if device.id in held) if held else 0
        key = (shape.build, shape.free, taken, shape.unattributed)
        if key not in self._linked:
            if self._sets >= MAX_CACHED_SETS:
                self._linked.clear()
                self._values.clear()
                self._sets = 0
            host = self._linked[key] = self._build(node, shape, taken)
            # A host caches results per set of devices: one with 16 free devices weighs as much as 256 with 8.
            self._sets += max(LEAST_SETS, 1 << host.free) if isinstance(host, LinkedHost) else LEAST_SETS
        return self._linked[key]

    def slowest(self, node: Node, shape: Shape, devices: Collection[str]) -> float:
        """The class value of the slowest pair of these devices; 0 if it is unknown, infinite for a single device."""
        values = self.values(node, shape) if len(devices) > 1 else None
        if values is None:
            return 0.0 if len(devices) > 1 else inf
        places = [place for place, device in enumerate(node.devices) if device.id in devices]
        known = len(places) == len(devices)
        return min(values[i][j] for i, j in combinations(places, 2)) if known else 0.0

    def values(self, node: Node, shape: Shape) -> Matrix | None:
        """Class values in the order of the node's devices; None unless they are known for all."""
        if shape.build not in self._values:
            self._values[shape.build] = _values(node)
        return self._values[shape.build]

    def _build(self, node: Node, shape: Shape, held: int) -> Host:
        if shape.unattributed:
            return CountedHost(max(0, shape.free.bit_count() - node.unattributed))
        values, free = self.values(node, shape), shape.free
        if values is None:
            return CountedHost(free.bit_count())
        if len(values) <= LARGEST_EXACT:
            return LinkedHost(values, free, held)
        members = positions(free | held)
        if len(members) > LARGEST_EXACT:
            return CountedHost(free.bit_count())
        return LinkedHost(among(values, members), _mask_among(free, members), _mask_among(held, members))


def _values(node: Node) -> Matrix | None:
    """Class values in the order of the node's devices; None unless they are known for all."""
    values = canonical(node.topology) if node.topology else ()
    positions_by_id = node.positions()
    if not values or any(device.id not in positions_by_id for device in node.devices):
        return None
    order = [positions_by_id[device.id] for device in node.devices]
    return tuple(tuple(values[i][j] for j in order) for i in order)


def among(values: Matrix, members: Sequence[int]) -> Matrix:
    """The values of some devices, such as those that matter of a machine too large for tables."""
    return tuple(tuple(values[i][j] for j in members) for i in members)


def _mask_among(mask: int, members: Sequence[int]) -> int:
    return mask_of(place for place, device in enumerate(members) if mask >> device & 1)
