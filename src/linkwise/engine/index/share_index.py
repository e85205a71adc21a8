"""Share index: the nodes with enough free share on one device, in the order of their scores.

Its answers are exactly those of the `MemoryShare` policy. Bound: one pass over the names of the request. Hashing each
name costs more than parsing it, so the best node of all is searched among the names first, and the names are hashed
only if it is not one of them.

Nodes are sorted in buckets, one per kind of device. A level is the free share of a device, what other pods lose with it and
the number of unused devices of its node in one number, so that the order of levels is the order of the terms of the score.
Bound: a change moves at most LONGEST entries, and the best nodes are read from the front of a bucket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.index.score_table import GUESSES, first_guess, named, pool_size
from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.node import FREE
from linkwise.policies.memory_share import WHOLE_CORE, losses_of_unused, shares_on
from linkwise.topology.fabric import LARGEST_LOSS, NO_LOSS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import Code
    from linkwise.model.ask import Ask
    from linkwise.model.node import Mode, Node
    from linkwise.model.settings import ShareSettings

__all__ = [
    "LONGEST",
    "Bucket",
    "DeviceKind",
    "Reach",
    "ShareIndex",
    "SortedNames",
    "best_ranked",
    "best_ranks",
    "level",
    "rank_of",
    "score",
    "with_free_share",
]

LONGEST: Final = 512
"""entries per list; a longer one is split in halves"""
_UNUSED: Final = 16
"""bits of the number of unused devices of a node"""
_LOSS: Final = LARGEST_LOSS.bit_length()
"""bits of a loss"""
_BELOW: Final = _UNUSED + _LOSS * len(NO_LOSS)
"""bits of a level below the free share"""
STEPS: Final = 256
"""steps of a device's memory by which nodes are grouped by their largest free share"""
FEW: Final = 192
"""requests of at most this number of names look up each name"""
LOOKED_UP: Final = 1024
"""so do requests of at most this number of lookups, one per name and bucket"""
CHEAPER: Final = 8
"""nodes that are collected in the time of one lookup"""
CACHED_ASKS: Final = 8
"""asks for which all nodes that fit are cached; the one not used for the longest is dropped first"""
SERVED: Final[Mapping[Mode, tuple[Mode, ...]]] = {
    "any": ("share", "percent"),
    "share": ("share",),
    "percent": ("percent",),
    "whole": (),
}
"""the modes of asks that a node serves, by the node's mode"""
_Place = tuple["Mode", str | None]
"""the mode of an ask, and the sharing domain of the pods on the devices; None if there are none"""


def level(share: int, lost: tuple[int, ...] = NO_LOSS, unused: int = 0) -> int:
    """The level of a device with this free share and these losses, on a node with this number of unused devices."""
    if lost is NO_LOSS:
        return share << _BELOW | unused
    number = share
    for amount in lost:
        number = number << _LOSS | amount
    return number << _UNUSED | unused


def score(rank: int, sign: int) -> tuple[int, ...]:
    """The score of a rank, equal to `MemoryShare.score`."""
    number = sign * rank
    lost = [number >> place & LARGEST_LOSS for place in range(_BELOW - _LOSS, _UNUSED - 1, -_LOSS)]
    terms = [-amount if sign > 0 else amount - LARGEST_LOSS for amount in lost]
    return (-sign * (number >> _BELOW), *terms, -sign * (number & (1 << _UNUSED) - 1))


def rank_of(code: tuple[int, ...], sign: int) -> int:
    """The rank of a score."""
    share, *terms, unused = code
    lost = tuple([-term if sign > 0 else term + LARGEST_LOSS for term in terms])
    return sign * level(-sign * share, lost, -sign * unused)


class SortedNames:
    """Sorted pairs of a number and a name, in short lists so that an insertion is cheap."""

    __slots__ = ("_names", "_numbers", "_tops")

    def __init__(self) -> None:
        # Two parallel lists instead of pairs: slices of either are taken without creating or touching tuples.
        self._numbers: list[list[int]] = [[]]
        self._names: list[list[str]] = [[]]
        self._tops: list[tuple[int, str]] = []
        """upper bound of every list but the last"""

    def add(self, number: int, name: str) -> None:
        """Insert a pair that is not in it."""
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
        """Remove a pair that is in it."""
        place, position = self._find(number, name)
        del self._numbers[place][position], self._names[place][position]
        if self._tops and not self._numbers[place]:
            del self._numbers[place], self._names[place], self._tops[min(place, len(self._tops) - 1)]

    def between(self, least: float, most: float, piece: int = LONGEST) -> Iterator[tuple[list[int], list[str]]]:
        """The pairs with numbers from `least` to `most`, as lists of numbers and names of at most `piece` entries."""
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


class DeviceKind(NamedTuple):
    """The properties in which devices of one bucket agree, so that only their free share matters to an ask."""

    core: int  # percent free
    memory: int  # in the unit of shares
    bytes: int


class Bucket:
    """Devices of one kind that are used by one namespace, or by none.

    The rank of a device is the level that an ask leaves on it, negated if the largest free share is best: the lowest
    rank is best.

    Args:
        kind: of the devices.
        sign: 1 if the smallest free share is best (binpack), -1 if the largest is (spread).
    """

    def __init__(self, kind: DeviceKind, sign: int) -> None:
        self.kind: Final = kind
        self.of: Final[dict[str, tuple[int, ...]]] = {}
        """the distinct levels of each node, ascending"""
        self._sign: Final = sign
        self._levels: Final = SortedNames()
        self._largest: Final[dict[int, dict[str, None]]] = {}
        self._step: Final = level(max(1, kind.memory // STEPS))

    def put(self, name: str, levels: tuple[int, ...]) -> None:
        """Set the distinct levels of a node."""
        old = self.of.pop(name, ())
        for number in old:
            if number not in levels:
                self._levels.remove(self._sign * number, name)
        for number in levels:
            if number not in old:
                self._levels.add(self._sign * number, name)
        if old:
            del self._largest[old[-1] // self._step][name]
        if levels:
            self._largest.setdefault(levels[-1] // self._step, {})[name] = None
            self.of[name] = levels

    def first(self, need: int, count: int, wanted: Callable[[str], bool], limit: float) -> dict[str, int]:
        """The first `count` wanted nodes and their ranks, none above `limit`; the best first, and equal ones by name."""
        offset = self._sign * need
        least, most = (offset, limit + offset) if self._sign > 0 else (-inf, min(offset, limit + offset))
        hits: dict[str, int] = {}
        for numbers, names in self._levels.between(least, most):
            for number, name in zip(numbers, names, strict=True):
                if wanted(name) and name not in hits:
                    hits[name] = number - offset
                    if len(hits) == count:
                        return hits
        return hits

    def behind(self, need: int, rank: int, name: str, count: int) -> list[str]:
        """The first `count` nodes with a device behind this rank and name; one may have a better device elsewhere."""
        offset = self._sign * need
        most = inf if self._sign > 0 else offset
        least, nodes = rank + offset, list[str]()
        for numbers, names in self._levels.between(least, most, count + 1):
            nodes += [other for number, other in zip(numbers, names, strict=True) if number > least or other > name]
            if len(nodes) >= count:
                break
        return nodes[:count]

    def ranks(self, names: Iterable[str], need: int) -> dict[str, int]:
        """The best rank of each of the names that fits."""
        of = self.of
        known = filter(of.__contains__, names)
        if self._sign < 0:
            return {name: need - of[name][-1] for name in known if of[name][-1] >= need}
        return {name: levels[bisect_left(levels, need)] - need for name in known if (levels := of[name])[-1] >= need}

    def with_free_share(self, need: int) -> list[Collection[str]]:
        """All nodes with a level of at least `need`, in several collections."""
        step, rest = divmod(need, self._step)
        edge: Collection[str] = self._largest.get(step, {})
        if rest:
            edge = {name for name in edge if self.of[name][-1] >= need}
        return [edge, *(names for at, names in self._largest.items() if at > step)]


Reach = list[tuple[Bucket, int]]
"""buckets whose devices may serve an ask, and the level that it needs there"""


def best_ranked(reach: Reach, count: int, wanted: Callable[[str], bool]) -> list[str]:
    """The first `count` wanted nodes of all buckets; the best first, and equal ones by name."""
    best: dict[str, int] = {}
    limit = inf
    for bucket, need in reach:
        hits = bucket.first(need, count, wanted, limit)
        if not hits:
            continue
        for name, rank in best.items():
            hits[name] = min(rank, hits.get(name, rank))
        order = sorted(hits, key=lambda name: (hits[name], name))[:count]
        best = {name: hits[name] for name in order}
        limit = best[order[-1]] if len(best) == count else inf
    return list(best)


def with_free_share(reach: Reach) -> set[str]:
    """All nodes that fit."""
    return set[str]().union(*(part for bucket, need in reach for part in bucket.with_free_share(need)))


def best_ranks(names: Collection[str], reach: Reach) -> dict[str, int]:
    """The best rank of each of the names that fits."""
    best: dict[str, int] = {}
    for bucket, need in reach:
        more, fewer = bucket.ranks(names, need), best
        best, fewer = (more, fewer) if len(more) > len(fewer) else (fewer, more)
        for name, rank in fewer.items():
            if rank < best.get(name, inf):
                best[name] = rank
    return best


_Content = dict[tuple[_Place, DeviceKind], tuple[int, ...]]
"""the distinct levels of one node, ascending"""


class ShareIndex:
    """Nodes by the free shares of their devices, updated by `put` and `drop`."""

    def __init__(self, settings: ShareSettings) -> None:
        self._settings = settings
        self._sign = 1 if settings.order == "binpack" else -1
        self._open = settings.within == "any"
        self._buckets: dict[_Place, dict[DeviceKind, Bucket]] = {}
        self._known: dict[str, _Content] = {}
        self._fit_caches: dict[tuple[object, ...], _FitCache] = {}
        self._reached: tuple[Ask, Reach] | None = None

    def put(self, node: Node) -> None:
        """Add or update a node."""
        self._replace(node.name, self._levels_of(node))

    def drop(self, name: str) -> None:
        """Remove a node."""
        self._replace(name, {})

    def fitting(
        self, names: Sequence[str], ask: Ask, breadth: int, without: AbstractSet[str] = frozenset()
    ) -> list[str]:
        """At most `breadth` of the names that fit, the best first and equal ones by name; none of those in `without`."""
        reach = self._reach(ask)
        if not reach or not names or breadth < 1:
            return []
        if breadth == 1:
            guesses = best_ranked(reach, GUESSES, lambda name: name not in without)
            if best := first_guess(guesses, names):
                return best
        if len(names) <= max(FEW, LOOKED_UP // len(reach)):
            ranks = best_ranks(names, reach)
            return nsmallest(breadth, ranks.keys() - without, key=lambda name: (ranks[name], name))
        enough = pool_size(breadth, len(names), len(self._known))
        pool = best_ranked(reach, enough, lambda name: name not in without)
        best = named(pool, names, breadth)
        if len(best) == breadth or len(pool) < enough:
            return best
        wanted = set(names)
        wanted -= without
        return best_ranked(reach, breadth, wanted.__contains__)

    def all_fitting(self, names: Sequence[str], ask: Ask) -> list[str]:
        """All names that fit, in their order."""
        reach = self._reach(ask)
        if len(names) * CHEAPER > len(self._known):
            return list(filter(self._fits(ask, reach).__contains__, names))
        return list(filter(best_ranks(names, reach).__contains__, names))

    def scores(self, names: Iterable[str], ask: Ask) -> dict[str, tuple[int, ...]]:
        """The score of each of the names that fits, equal to `MemoryShare.score`."""
        return {name: score(rank, self._sign) for name, rank in best_ranks(tuple(names), self._reach(ask)).items()}

    def after(self, name: str, code: Code, ask: Ask, count: int) -> list[tuple[str, Code]]:
        """The next `count` nodes behind one with this score: by score, equal ones by name."""
        reach, place = self._reach(ask), (rank_of(code, self._sign), name)
        near = [other for bucket, need in reach for other in bucket.behind(need, *place, count)]
        behind = sorted((rank, other) for other, rank in best_ranks(near, reach).items() if (rank, other) > place)
        return [(other, score(rank, self._sign)) for rank, other in behind[:count]]

    def _levels_of(self, node: Node) -> _Content:
        rooms, unused, losses = node.room(), len(node.free()), losses_of_unused(node)
        whole_core = max(0, WHOLE_CORE - node.unattributed_core)
        distinct: dict[tuple[str | None, int, int, int], dict[int, tuple[int, ...]]] = {}
        """the least loss with each free share, by owner and kind of device"""
        for device in node.devices:
            if not device.healthy:
                continue
            use = node.used.get(device.id, FREE)
            owner, core = None, whole_core
            if use is not FREE:
                core = 0 if use.whole else max(0, whole_core - use.core)
                if len(use.domains) == 1:
                    (owner,) = use.domains
                elif self._open and not use.domains:
                    owner = COMMON
                # rule 002.segregate: a device used by several domains, or by an unknown one, can't be shared.
                elif use != FREE:
                    continue
            lost, share = losses.get(device.id, NO_LOSS), rooms[device.id]
            of_kind = distinct.setdefault((owner, core, device.memory, device.bytes), {})
            of_kind[share] = min(lost, of_kind.get(share, lost))
        # rule 004.mode
        modes = SERVED[node.mode]
        return {
            ((mode, owner), DeviceKind(*kind)): levels
            for (owner, *kind), of_kind in distinct.items()
            for levels in (tuple(sorted([self._level(share, lost, unused) for share, lost in of_kind.items()])),)
            for mode in modes
        }

    def _level(self, share: int, lost: tuple[int, ...], unused: int) -> int:
        # The smallest loss is best; if the largest level is, the loss counts from the other end.
        return level(share, lost if self._sign > 0 else tuple([LARGEST_LOSS - amount for amount in lost]), unused)

    def _replace(self, name: str, new: _Content) -> None:
        old, self._reached = self._known.pop(name, {}), None
        if new != old:
            for cache in self._fit_caches.values():
                cache.changed[name] = None
        if old and not new:  # bounds the caches if nodes come and go with ever new names
            self._fit_caches = {key: cache for key, cache in self._fit_caches.items() if self._worth(cache)}
        for key in old.keys() | new.keys():
            levels = new.get(key, ())
            if levels != old.get(key, ()):
                self._fill_bucket(name, *key, levels)
        if new:
            self._known[name] = new

    def _fill_bucket(self, name: str, place: _Place, kind: DeviceKind, levels: tuple[int, ...]) -> None:
        buckets = self._buckets.setdefault(place, {})
        if kind not in buckets:
            buckets[kind] = Bucket(kind, self._sign)
        buckets[kind].put(name, levels)
        if not buckets[kind].of:
            del buckets[kind]
        if not buckets:
            del self._buckets[place]

    def _reach(self, ask: Ask) -> Reach:
        """The buckets that may serve an ask; cached, because one filter call needs them several times."""
        if not self._buckets:
            return []
        if self._reached is None or self._reached[0] is not ask:
            self._reached = ask, self._reachable(ask)
        return self._reached[1]

    def _reachable(self, ask: Ask) -> Reach:
        core, reach = ask.core, []
        # Usually the best first: devices in use have the smallest free share.
        owners = (None,) if ask.domain == ALONE else (ask.domain, None)[:: self._sign]
        for owner in owners:
            for kind, bucket in self._buckets.get((ask.mode, owner), {}).items():
                shares = shares_on(ask, kind.memory, kind.bytes) if kind.core >= core else None
                if shares is not None and (share := sum(shares)) <= kind.memory:
                    reach.append((bucket, level(share)))
        return reach

    def _fits(self, ask: Ask, reach: Reach) -> set[str]:
        """All nodes that fit, from the cache of the ask with the changed nodes evaluated again."""
        key = ask.mode, ask.domain, ask.core, ask.in_bytes, tuple(container.share for container in ask.containers)
        cache = self._fit_caches.pop(key, None)
        if cache is None or not self._worth(cache):
            cache = _FitCache(with_free_share(reach), {})
        elif cache.changed:
            cache.names.difference_update(cache.changed)
            cache.names.update(best_ranks(cache.changed, reach))
            cache.changed.clear()
        self._fit_caches[key] = cache  # moved to the end: dictionaries keep insertion order
        if len(self._fit_caches) > CACHED_ASKS:
            del self._fit_caches[next(iter(self._fit_caches))]
        return cache.names

    def _worth(self, cache: _FitCache) -> bool:
        """Whether evaluating the changed nodes is cheaper than collecting all."""
        return len(cache.changed) * CHEAPER <= len(self._known)


class _FitCache(NamedTuple):
    """The nodes that fitted an ask, and the nodes that changed since."""

    names: set[str]
    changed: dict[str, None]
