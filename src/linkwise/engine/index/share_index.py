"""Share index: the nodes with enough free share on one device, in the order of their scores.

Its answers are exactly those of the `MemoryShare` policy. Bound: one pass over the names of the request. Hashing each
name costs more than parsing it, so the best node of all is searched among the names first, and the names are hashed
only if it is not one of them.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.index.score_table import GUESSES, first_guess, named, pool_size
from linkwise.engine.index.share_buckets import (
    Bucket,
    DeviceKind,
    best_ranked,
    best_ranks,
    level,
    rank_of,
    score,
    with_free_share,
)
from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.node import FREE
from linkwise.policies.memory_share import WHOLE_CORE, losses_of_unused, shares_on
from linkwise.topology.fabric import LARGEST_LOSS, NO_LOSS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import Code
    from linkwise.engine.index.share_buckets import Reach
    from linkwise.model.ask import Ask
    from linkwise.model.node import Mode, Node
    from linkwise.model.settings import ShareSettings

__all__ = ["ShareIndex"]

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
