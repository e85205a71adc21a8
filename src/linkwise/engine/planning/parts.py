"""Parts of devices: the members that a node fits with a part of one each, beside those with whole devices.

A device takes several members of one sharing domain as long as its memory and compute suffice, unless the group wants
distinct devices. Which of the devices are used is decided as for whole devices, by links and by what other pods lose: only
sets without a spare device matter, because a subset is never slower and costs others never more. Bound: devices that are
equal are one class, so the sets are found by counts per class. A search that reaches its limit proves nothing, and says so.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, islice, product
from math import ceil, floor, inf
from operator import mul, sub
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.planning.hosts import NOTHING_LOST, LinkedHost, PartSize, among
from linkwise.model.node import FREE
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import WHOLE_CORE
from linkwise.topology.device_sets import bit_values, mask_of, positions, sets_with
from linkwise.topology.machine import LARGEST_EXACT

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence

    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.hosts import Floors, Loss, Size, Sizes
    from linkwise.model.ask import Ask
    from linkwise.model.device import Device
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix

__all__ = ["Amount", "Card", "Cards", "Packing", "PartsHost", "at_least", "cards_of", "divided", "weight_on"]

GRAIN: Final = 1 << 20
"""fractions of a device are multiples of 1/GRAIN, so that sums of them are exact"""
STEPS: Final = 2_000
"""ways to fill devices that are tried for one combination of members on so many devices of each class; without a yield"""
STEPS_PER_SEARCH: Final = 40_000
"""the same for one combination of members on all numbers of devices per class"""
STEPS_PER_YIELD: Final = 1_000
"""the same between two yields, if none of them takes more"""
PATTERNS: Final = 200
"""combinations of members tried on one device"""
VECTORS: Final = 300
"""numbers of devices per class that are tried for one combination of members"""
SETS: Final = 4_000
"""sets of devices that are tried for one combination of members"""
SETS_PER_STEP: Final = 50
"""sets of devices compared between two yields"""

Counts = tuple[int, ...]


class Amount(NamedTuple):
    """Memory in the unit of the node, and percent of compute."""

    share: int
    core: int = 0


class Card(NamedTuple):
    """What a device has left for members, and what one of each kind of parts takes of it."""

    room: Amount
    needs: tuple[Amount | None, ...]
    """by the number of the kind; None if the device does not fit it"""
    idle: bool = True
    """whether it has no usage, so that it can also serve whole"""
    size: int = 0
    """its memory; by default that of `room`"""


def at_least(fraction: float) -> float:
    """A fraction of a device, rounded down."""
    return floor(fraction * GRAIN) / GRAIN


def at_most(fraction: float) -> float:
    """A fraction of a device, rounded up."""
    return ceil(fraction * GRAIN) / GRAIN


def weight_on(ask: Ask, memory: int, size: int) -> float:
    """The least fraction of a device that an ask takes, if no device has more memory: in the node's unit, and in bytes."""
    largest = size if ask.in_bytes else memory
    return at_least(ask.share / largest) if largest else 0.0


Cards = dict["Hashable", Card]
"""cards by all that they depend on"""


def cards_of(
    node: Node,
    asked: Sequence[Query | None],
    avoided: Collection[str] = (),
    known: Cards | None = None,
    like: Hashable = None,
) -> dict[int, Card]:
    """The healthy devices of a node, by position.

    Args:
        node: the node.
        asked: the query of each kind of parts; None of one that the node does not serve.
        avoided: devices that serve none of them.
        known: cache, for nodes that are `like` each other except for the use of their devices.
        like: what these nodes have in common.
    """
    rooms, cards = node.room(), {}
    for position, device in enumerate(node.devices):
        if not device.healthy:
            continue
        use, room = node.use(device), rooms[device.id]
        core = 0 if use.whole else max(0, WHOLE_CORE - use.core - node.unattributed_core)
        key = (like, position, device.memory, device.bytes, use, room, core, device.id in avoided)
        card = known.get(key) if known is not None else None
        if card is None:
            serving = [None if device.id in avoided else query for query in asked]
            needs = tuple(_need(query, node, device) if query else None for query in serving)
            card = Card(Amount(room, core), needs, use == FREE, device.memory)
            if known is not None:
                known[key] = card
        cards[position] = card
    return cards


def _need(query: Query, node: Node, device: Device) -> Amount | None:
    """What the policy gives of a device now; None if it refuses."""
    offer = query.pick(node.with_only({device.id}))
    if not isinstance(offer, Offer):
        return None
    return Amount(sum(part.share for part in offer.parts), sum(part.core for part in offer.parts))


class Packing:
    """Members with parts on counted classes of equal devices.

    Args:
        cards: the devices by position.
        domains: the sharing domain of each kind of parts.
        distinct: whether no two members are on one device.
    """

    def __init__(self, cards: Mapping[int, Card], domains: Sequence[str], *, distinct: bool) -> None:
        masks: dict[Card, int] = {}
        for position, card in sorted(cards.items()):
            if any(card.needs):
                masks[card] = masks.get(card, 0) | 1 << position
        self._classes = list(masks)
        self.masks = list(masks.values())
        self._all = tuple(mask.bit_count() for mask in self.masks)
        self._domains = tuple(domains)
        self._distinct = distinct
        self.exact = True
        self._steps = 0
        self._fitting: dict[tuple[Counts, Counts], bool] = {}
        self._patterns: dict[tuple[int, Counts], list[Counts]] = {}
        self._least: dict[Counts, list[Counts]] = {}
        kinds = range(len(self._domains))
        self._alone = [tuple(self._most(card, kind) for kind in kinds) for card in self._classes]
        """by class, the most members of each kind that a device takes without others"""
        self._needed: dict[tuple[tuple[bool, ...], Counts], Amount | None] = {}
        rooms = [card.room for card in self._classes]
        self._rooms = [room.share for room in rooms], [room.core for room in rooms]
        self.room: float = sum(
            at_most(1.0 if card.idle else card.room.share / (card.size or card.room.share)) * count
            for card, count in zip(self._classes, self._all, strict=True)
            if card.room.share
        )

    def fits(self, parts: Counts, devices: Iterable[Counts] | None = None) -> bool:
        """Whether any of these numbers of devices per class fits these members, by default all devices together."""
        self._steps = STEPS
        return any(self._fits(each, parts) for each in ((self._all,) if devices is None else devices))

    def within(self, mask: int) -> Counts:
        """The number of devices per class in a set."""
        return tuple((each & mask).bit_count() for each in self.masks)

    def idle(self) -> list[int]:
        """The numbers of the classes of devices without usage."""
        return [number for number, card in enumerate(self._classes) if card.idle]

    def most(self, number: int, chosen: int) -> int:
        """The most members of one kind that a set of devices fits."""
        pairs = zip(self._alone, self.masks, strict=True)
        return sum([alone[number] * (mask & chosen).bit_count() for alone, mask in pairs])

    def least(self, parts: Counts) -> list[Counts]:
        """The numbers of devices per class that fit these members and of which none can be spared, the fewest first."""
        for _ in self.search(parts):
            pass
        return self._least[parts]

    def search(self, parts: Counts) -> Generator[None, None, None]:
        """Find these numbers in steps, so that `least` has them."""
        if parts in self._least:
            return
        found: list[Counts] = []
        left, work = STEPS_PER_SEARCH, 0
        for tried, vector in enumerate(self._plausible(parts)):
            if tried == VECTORS or left <= 0:
                self.exact = False
                break
            work += 1
            if not any(all(map(int.__le__, other, vector)) for other in found):
                self._steps = STEPS
                if self._fits(vector, parts):
                    found.append(vector)
                left -= STEPS - self._steps
                work += STEPS - self._steps
            if work >= STEPS_PER_YIELD:
                work = 0
                yield
        self._least[parts] = found

    def sets(self, parts: Counts) -> Iterator[int]:
        """The sets of devices that fit these members and of which none can be spared."""
        for vector in self.least(parts):
            choices = (list(sets_with(mask, 0, count)) for mask, count in zip(self.masks, vector, strict=True) if count)
            yield from map(sum, product(*choices))

    def shared_out(self, order: Sequence[int], parts: Counts) -> Generator[None, None, dict[int, Counts] | None]:
        """The number of members of each kind per device, which are filled in this order; None if they don't fit."""
        classes = {place: number for number, mask in enumerate(self.masks) for place in positions(mask)}
        left = Counter(classes[place] for place in order)
        chosen: dict[int, Counts] = {}
        for place in order:
            if not any(parts):
                break
            yield
            self._steps = STEPS
            number = classes[place]
            left[number] -= 1
            others = tuple(left[each] for each in range(len(self._classes)))
            for pattern in (*self._filled(number, parts), (0,) * len(parts)):
                rest = tuple(map(sub, parts, pattern))
                if self._fits(others, rest):
                    chosen[place] = pattern
                    parts = rest
                    break
            else:
                return None
        return None if any(parts) else chosen

    def _plausible(self, parts: Counts) -> Iterator[Counts]:
        """The numbers of devices per class that have as much memory and compute as the members take, the fewest first."""
        need = self._needs(tuple(map(bool, self._all)), parts)
        if need is None:
            return
        most = tuple(min(count, sum(parts)) for count in self._all)
        ahead = [[_largest(room[place:], most[place:]) for place in range(len(most) + 1)] for room in self._rooms]
        for total in range(1, min(sum(parts), sum(self._all)) + 1):
            yield from _vectors(most, total, tuple(zip(need, self._rooms, ahead, strict=True)))

    def _fits(self, devices: Counts, parts: Counts) -> bool:
        """Whether so many devices of each class fit these members."""
        if not any(parts):
            return True
        key = (devices, parts)
        known = self._fitting.get(key)
        if known is not None:
            return known
        self._steps -= 1
        if not self._enough(devices, parts):
            return False
        if self._steps < 0:
            self.exact = False
            return False
        number = next(number for number, count in enumerate(devices) if count)
        fewer = (*devices[:number], devices[number] - 1, *devices[number + 1 :])
        without = (*devices[:number], 0, *devices[number + 1 :])
        # A device that fits none of them is left out with its class; otherwise only full ones matter.
        patterns = self._filled(number, parts)
        if patterns:
            fit = any(self._fits(fewer, tuple(map(sub, parts, pattern))) for pattern in patterns)
        else:
            fit = self._fits(without, parts)
        if fit or self._steps >= 0:
            self._fitting[key] = fit
        return fit

    def _enough(self, devices: Counts, parts: Counts) -> bool:
        """Whether memory and compute of the devices add up to what the members take at least."""
        need = self._needs(tuple(map(bool, devices)), parts)
        if need is None:
            return False
        shares, cores = self._rooms
        share: int = sum(map(mul, shares, devices))
        core: int = sum(map(mul, cores, devices))
        return need.share <= share and need.core <= core

    def _needs(self, classes: tuple[bool, ...], parts: Counts) -> Amount | None:
        """What members take at least of devices of these classes; None if one of them fits no such device."""
        key = (classes, parts)
        if key not in self._needed:
            share = core = 0
            for number, count in enumerate(parts):
                pairs = zip(self._classes, classes, strict=True)
                needs = [need for card, any_left in pairs if any_left and (need := card.needs[number])]
                if count and not needs:
                    self._needed[key] = None
                    return None
                share += count * min((need.share for need in needs), default=0)
                core += count * min((need.core for need in needs), default=0)
            self._needed[key] = Amount(share, core)
        return self._needed[key]

    def _filled(self, number: int, parts: Counts) -> list[Counts]:
        """The members that one device of a class can take, so that none of the others can be added."""
        card = self._classes[number]
        key = (number, tuple(map(min, parts, self._alone[number])))
        known = self._patterns.get(key)
        if known is None:
            known = list(islice(self._fillings(card, key[1]), PATTERNS + 1))
            if len(known) > PATTERNS:
                self.exact = False
                del known[PATTERNS:]
            self._patterns[key] = known
        return known

    def _most(self, card: Card, number: int) -> int:
        """The most members of one kind that a device takes without others."""
        need = card.needs[number]
        return 0 if need is None else _most_in(card.room, need, 1 if self._distinct else GRAIN)

    def _fillings(self, card: Card, limits: Counts) -> Iterator[Counts]:
        domains = dict.fromkeys(domain for domain, most in zip(self._domains, limits, strict=True) if most)
        for domain in domains:
            own = tuple(most if each == domain else 0 for each, most in zip(self._domains, limits, strict=True))
            yield from self._of_domain(card, own, 0, card.room, ())

    def _of_domain(self, card: Card, limits: Counts, number: int, room: Amount, taken: Counts) -> Iterator[Counts]:
        self._steps -= 1
        if number == len(limits):
            if any(taken) and not any(
                more > own and self._takes_more(card, kind, room, taken)
                for kind, (own, more) in enumerate(zip(taken, limits, strict=True))
            ):
                yield taken
            return
        need = card.needs[number] or Amount(0)
        full = card.needs[number] is None or (self._distinct and any(taken))
        most = 0 if full else _most_in(room, need, limits[number])
        least = 0 if any(limits[number + 1 :]) else most  # no other kind could use what it leaves
        for count in range(most, least - 1, -1):
            left = Amount(room.share - count * need.share, room.core - count * need.core)
            yield from self._of_domain(card, limits, number + 1, left, (*taken, count))

    def _takes_more(self, card: Card, kind: int, room: Amount, taken: Counts) -> bool:
        need = card.needs[kind]
        if need is None or (self._distinct and any(taken)):
            return False
        return need.share <= room.share and need.core <= room.core


def _most_in(room: Amount, need: Amount, limit: int) -> int:
    """The most members of one kind, up to a limit, that fit so much room."""
    return min([limit, *(has // each for has, each in zip(room, need, strict=True) if each)])


def _largest(rooms: Sequence[int], most: Counts) -> list[int]:
    """The room of the 0, 1, ... largest devices of these classes."""
    each = sorted((room for room, count in zip(rooms, most, strict=True) for _ in range(count)), reverse=True)
    return list(accumulate(each, initial=0))


def _vectors(
    most: Counts, total: int, limits: tuple[tuple[int, list[int], list[list[int]]], ...], place: int = 0
) -> Iterator[Counts]:
    """All numbers per class that add up to a total and have enough room.

    Args:
        most: the devices of each class.
        total: the number of devices.
        limits: of memory and compute what is needed, the room of a device of each class, and that of the largest devices
            from each class on.
        place: the first class.
    """
    if place == len(most):
        yield ()
        return
    for count in range(min(most[place], total), -1, -1):
        rest = total - count
        if rest >= len(limits[0][2][place + 1]):
            return
        left = tuple((need - count * rooms[place], rooms, ahead) for need, rooms, ahead in limits)
        if all(need <= ahead[place + 1][rest] for need, _, ahead in left):
            for others in _vectors(most, rest, left, place + 1):
                yield (count, *others)


class PartsHost:
    """Nodes for members of which some get parts of devices, or all of them.

    Args:
        values: class values of every pair of devices; None if they are unknown. Of many devices, only those that are in
            use by the group or have room matter.
        cards: the devices by position.
        domains: the sharing domain of each kind of parts.
        held: the devices of members that are bound there already, as a mask.
        distinct: whether no two members are on one device.
        fewest_first: whether taking few unused devices goes before leaving good sets of them, as in seed order.
    """

    def __init__(  # noqa: PLR0913 - the devices of a node and the settings of a group
        self,
        values: Matrix | None,
        cards: Mapping[int, Card],
        domains: Sequence[str],
        held: int = 0,
        *,
        distinct: bool,
        fewest_first: bool = False,
    ) -> None:
        self._fewest_first = fewest_first
        self.places = tuple(range(len(values or ())))
        """the positions of the devices in the masks of this host"""
        if values is not None and len(values) > LARGEST_EXACT:
            self.places = tuple(
                place for place in range(len(values)) if held >> place & 1 or _is_open(cards.get(place))
            )
            new = {place: number for number, place in enumerate(self.places)}
            cards = {new[place]: card for place, card in cards.items() if place in new}
            held = mask_of(new[place] for place in positions(held))
            values = among(values, self.places) if len(self.places) <= LARGEST_EXACT else None
        self._packing = packing = Packing(cards, domains, distinct=distinct)
        self._kinds, self._held = len(domains), held
        self._idle = mask_of(place for place, card in cards.items() if card.idle)
        parts = sum(packing.masks)
        self.links = None if values is None else LinkedHost(values, parts | self._idle, held, self._idle)
        """None if nothing is known of the links"""
        self.free = self._idle.bit_count()
        self.room: float = packing.room + (self._idle & ~parts).bit_count()
        self._complete = True
        self._losses: dict[tuple[Sizes, Floors], Loss | None] = {}
        self._fitting: dict[tuple[Sizes, Floors], bool] = {}
        self._fast_sets_by: dict[float, list[int]] = {}
        self._slots: dict[tuple[Size, Floors], int] = {}

    @property
    def exact(self) -> bool:
        """Whether no search has reached its limit."""
        return self._complete and self._packing.exact

    def speeds(self) -> set[float]:
        """The values of all pairs, 0 if they are unknown, and infinity for a single device."""
        return self.links.speeds() if self.links else {0.0, inf}

    def loss(self, sizes: Sizes, floors: Floors) -> Loss | None:
        """The least loss of all sets that are fast enough."""
        for _ in self.search(sizes, floors):
            pass
        return self._losses[sizes, floors]

    def search(self, sizes: Sizes, floors: Floors) -> Generator[None, None, None]:
        """Find the least loss in steps, so that `loss` has it."""
        if (sizes, floors) in self._losses:
            return
        whole, parts = divided(sizes, self._kinds)
        yield from self._packing.search(parts)
        least: Loss | None = None
        for number, (union, own) in enumerate(self.seats(sizes), 1):
            if number % SETS_PER_STEP == 0:
                yield
            if self._fast(union, own, whole, floors):
                loss = self.loss_of(union)
                least = loss if least is None else min(least, loss, key=self.order_of)
        self._losses[sizes, floors] = least

    def fits(self, sizes: Sizes, floors: Floors) -> bool:
        """Whether any set is fast enough."""
        for _ in self.search_fit(sizes, floors):
            pass
        return self._fitting[sizes, floors]

    def search_fit(self, sizes: Sizes, floors: Floors) -> Generator[None, None, None]:
        """Find in steps whether any set is fast enough, so that `fits` has it."""
        key = (sizes, floors)
        if key in self._fitting:
            return
        whole, parts = divided(sizes, self._kinds)
        if max(whole, default=0) <= 1 or floors.member <= floors.node:
            # The pairs of a member are pairs of the set, so only numbers matter among devices of which all pairs are fast.
            devices = (left for chosen in self._fast_sets(floors.node) for left in self._left(chosen, sum(whole)))
            self._fitting[key] = self._packing.fits(parts, dict.fromkeys(devices))
            return
        yield from self._packing.search(parts)
        fit = False
        for number, (union, own) in enumerate(self.seats(sizes), 1):
            if number % SETS_PER_STEP == 0:
                yield
            if self._fast(union, own, whole, floors):
                fit = True
                break
        self._fitting[key] = fit

    def slots(self, size: Size, floors: Floors) -> int:
        """The most members that some set fits which is fast enough."""
        if isinstance(size, PartSize):
            # Not cached: values for every kind, node and speed would be most of what the garbage collector has to visit.
            return max((self._packing.most(size.number, chosen) for chosen in self._fast_sets(floors.node)), default=0)
        key = (size, floors)
        if key not in self._slots:
            low, high = 0, self.free // size
            while low < high and any(floors):
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self.fits((size,) * middle, floors) else (low, middle - 1)
            self._slots[key] = high
        return self._slots[key]

    at_most = slots  # exact as a bound: fewer members never need a slower set

    def search_seats(self, sizes: Sizes) -> Generator[None, None, list[tuple[int, int]]]:
        """All of `seats`, found in steps."""
        yield from self._packing.search(divided(sizes, self._kinds)[1])
        found = []
        for number, seat in enumerate(self.seats(sizes), 1):
            if number % (10 * SETS_PER_STEP) == 0:
                yield
            found.append(seat)
        return found

    def seats(self, sizes: Sizes) -> Iterator[tuple[int, int]]:
        """Sets of devices for these members, without a spare one, and those of them that serve whole.

        Without link data, one of the sets that are equal by the amounts of their devices.
        """
        whole, parts = divided(sizes, self._kinds)
        count, tried = sum(whole), 0
        for own in self._part_sets(parts):
            rest = self._idle & ~own
            if rest.bit_count() < count:
                continue
            for others in sets_with(rest, 0, count) if self.links else (mask_of(positions(rest)[:count]),):
                tried += 1
                if tried > SETS:
                    self._complete = False
                    return
                yield own | others, others

    def open(self) -> tuple[int, ...]:
        """The devices that have room for members."""
        return positions(sum(self._packing.masks))

    def shared_out(self, order: Sequence[int], parts: Counts) -> Generator[None, None, Mapping[int, Counts] | None]:
        """The number of members of each kind per device, which are filled in this order; None if they don't fit."""
        return (yield from self._packing.shared_out(order, parts))

    def _part_sets(self, parts: Counts) -> Iterable[int]:
        if not any(parts):
            return (0,)
        if self.links:
            return self._packing.sets(parts)
        masks = self._packing.masks
        return (
            mask_of(place for mask, count in zip(masks, vector, strict=True) for place in positions(mask)[:count])
            for vector in self._packing.least(parts)
        )

    def _fast_sets(self, speed: float) -> list[int]:
        """The largest sets of devices of which all pairs are fast enough, held devices included."""
        if speed not in self._fast_sets_by:
            open_ = self._idle | sum(self._packing.masks)
            if speed <= 0:
                sets = [open_]
            elif self.links is None:
                few = self._held.bit_count() <= 1
                sets = [one for one in bit_values(open_) if (one | self._held).bit_count() <= 1] if few else []
            else:
                fast = mask_of(place for place in positions(open_) if self.links.speed(1 << place) >= speed)
                sets = list(_maximal_cliques(self._neighbours(fast, speed), fast)) if fast else []
            self._fast_sets_by[speed] = sets
        return self._fast_sets_by[speed]

    def _neighbours(self, devices: int, speed: float) -> dict[int, int]:
        """By device, as masks, the others that form a pair with it that is fast enough."""
        if self.links is None:
            return {}
        links, ones = self.links, bit_values(devices)
        return {one: sum(other for other in ones if other != one and links.speed(one | other) >= speed) for one in ones}

    def _left(self, chosen: int, whole: int) -> Iterator[Counts]:
        """The devices per class that members with whole devices leave of a set, in every way to choose theirs."""
        devices = self._packing.within(chosen)
        others = (chosen & self._idle & ~sum(self._packing.masks)).bit_count()
        need, idle = max(0, whole - others), self._packing.idle()
        for taken in product(*(range(min(devices[number], need) + 1) for number in idle)):
            if sum(taken) == need:
                used = dict(zip(idle, taken, strict=True))
                yield tuple(count - used.get(number, 0) for number, count in enumerate(devices))

    def _fast(self, union: int, own: int, whole: Sequence[int], floors: Floors) -> bool:
        """Whether a set is fast enough, and those of it that serve whole for each of their members."""
        if self.links is None:
            pairs = (union | self._held).bit_count() > 1 and floors.node > 0
            return not pairs and not (max(whole, default=0) > 1 and floors.member > 0)
        return self.links.speed(union) >= floors.node and self.links.divides(own, whole, floors.member)

    def order_of(self, loss: Loss) -> Loss:
        """Return the sort key of a loss."""
        return (loss[-1], *loss[:-1]) if self._fewest_first else loss

    def loss_of(self, union: int) -> Loss:
        """What other pods lose with a set of devices."""
        if self.links:
            return self.links.loss_of(union)
        return (*NOTHING_LOST[:-1], self.unused(union))

    def unused(self, union: int) -> int:
        """The number of unused devices in a set."""
        return (union & self._idle).bit_count()


def _maximal_cliques(graph: Mapping[int, int], candidates: int, chosen: int = 0, done: int = 0) -> Iterator[int]:
    """The sets of devices that are all neighbours and to which none can be added; `done` devices are in others."""
    if not candidates:
        if not done:
            yield chosen
        return
    # Every such set has the pivot or a device that is no neighbour of it.
    pivot = max(bit_values(candidates | done), key=lambda one: (graph[one] & candidates).bit_count())
    for one in bit_values(candidates & ~graph[pivot]):
        yield from _maximal_cliques(graph, candidates & graph[one], chosen | one, done & graph[one])
        candidates, done = candidates & ~one, done | one


def _is_open(card: Card | None) -> bool:
    return card is not None and (card.idle or any(card.needs))


def divided(sizes: Sizes, kinds: int) -> tuple[tuple[int, ...], Counts]:
    """The sizes of members with whole devices, and the number of members of each kind of parts."""
    whole = tuple(size for size in sizes if not isinstance(size, PartSize))
    counts = Counter(size.number for size in sizes if isinstance(size, PartSize))
    return whole, tuple(counts[number] for number in range(kinds))
