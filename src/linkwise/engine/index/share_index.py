"""Which nodes have room for a part of one device, the tightest first, without looking at each of them.

Of every node it says what `MemoryShare` would. Hashing the names of a request costs more than reading them, so the
request is walked once against a small pool of the tightest nodes, and looked up name by name only where that fails.
"""

from __future__ import annotations

from itertools import filterfalse, islice
from math import isqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.index.share_buckets import Kind, Shelf, all_ranked, left_over, pooled, with_room
from linkwise.model.node import FREE
from linkwise.policies.memory_share import WHOLE_CORE, shares_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.engine.index.share_buckets import Reach
    from linkwise.model.ask import Ask
    from linkwise.model.node import Mode, Node
    from linkwise.model.settings import ShareSettings

__all__ = ["Rooms"]

FEW: Final = 192
"""so many names are looked up one by one"""
LOOKED_UP: Final = 1024
"""so many as well, counted once for each shelf they are looked up on"""
CHEAPER: Final = 8
"""nodes that are gathered in the time in which one is looked up"""
KEPT: Final = 8
"""asks for which all nodes that fit are kept; the one not used for the longest goes first"""
MANY: Final = 4
"""times fewer names than nodes are looked up one by one as well, where a pool held too few of them"""

SERVED: Final[Mapping[Mode, tuple[Mode, ...]]] = {
    "any": ("share", "percent"),
    "share": ("share",),
    "percent": ("percent",),
    "whole": (),
}
"""the modes of asks that a node serves, by its own"""

_Place = tuple["Mode", str | None]
"""the mode of an ask, and the namespace that has the devices; None where all may have them"""
_Content = dict[tuple[_Place, Kind], tuple[int, ...]]
"""the different rooms of one node, ascending"""


class Rooms:
    """Devices by the room they have left; `put` is told of every change of a node."""

    def __init__(self, settings: ShareSettings) -> None:
        self._settings = settings
        self._sign = 1 if settings.order == "binpack" else -1
        self._open = settings.within == "any"
        self._shelves: dict[_Place, dict[Kind, Shelf]] = {}
        self._known: dict[str, _Content] = {}
        self._unused: dict[str, int] = {}
        self._kept: dict[tuple[object, ...], _Kept] = {}
        self._reached: tuple[Ask, Reach] | None = None

    def put(self, node: Node) -> None:
        """The node as it is now."""
        self._replace(node.name, self._rooms_of(node))
        self._unused[node.name] = len(node.free())

    def drop(self, name: str) -> None:
        """The node is gone."""
        self._replace(name, {})
        self._unused.pop(name, None)

    def fitting(
        self, names: Sequence[str], ask: Ask, breadth: int, without: AbstractSet[str] = frozenset()
    ) -> list[str]:
        """At most `breadth` of the names that fit, the best first; empty only if none fits but those in `without`.

        Where many have left-overs within the width of the best one, they count as equal: the first of them will do.
        """
        reach = self._reach(ask)
        if not reach or not names or breadth < 1:
            return []
        width = int(self._settings.width * min(shelf.kind.memory for shelf, _ in reach))
        choice = _Choice(breadth, width, without)
        if len(names) > max(FEW, LOOKED_UP // len(reach)):
            found = self._by_pool(names, reach, choice)
            if found is not None:
                return found
            if len(names) * MANY > len(self._known):
                return choice.of(all_ranked(reach, set(names)))
        ranks = left_over(names, reach)
        return choice.of(sorted(filter(ranks.__contains__, names), key=ranks.__getitem__))

    def all_fitting(self, names: Sequence[str], ask: Ask) -> list[str]:
        """Every node of the names that fits, in their order."""
        reach = self._reach(ask)
        if len(names) * CHEAPER > len(self._known):
            return list(filter(self._fits(ask, reach).__contains__, names))
        return list(filter(left_over(names, reach).__contains__, names))

    def scores(self, names: Iterable[str], ask: Ask) -> dict[str, tuple[int, int]]:
        """How good each of the names that fit is, as `MemoryShare.score` says it: what is left, and devices nobody uses."""
        ranks = left_over(tuple(names), self._reach(ask))
        return {name: (-rank, -self._sign * self._unused[name]) for name, rank in ranks.items()}

    def _rooms_of(self, node: Node) -> _Content:
        rooms = node.room()
        whole_core = max(0, WHOLE_CORE - node.unattributed_core)
        found: dict[tuple[str | None, int, int, int], set[int]] = {}
        for device in node.devices:
            if not device.healthy:
                continue
            use = node.used.get(device.id, FREE)
            owner, core = None, whole_core
            if use is not FREE:
                core = 0 if use.whole else max(0, whole_core - use.core)
                if not self._open and len(use.namespaces) == 1:
                    (owner,) = use.namespaces
                # rule 002.segregate: a device of several namespaces, or of an unknown one, is not to be had.
                elif not self._open and use != FREE:
                    continue
            found.setdefault((owner, core, device.memory, device.bytes), set()).add(rooms[device.id])
        # rule 004.mode
        modes = SERVED[node.mode]
        return {
            ((mode, owner), Kind(*kind)): tuple(sorted(different))
            for (owner, *kind), different in found.items()
            for mode in modes
        }

    def _replace(self, name: str, new: _Content) -> None:
        old, self._reached = self._known.pop(name, {}), None
        if new != old:
            for kept in self._kept.values():
                kept.late[name] = None
        if old and not new:  # nodes may come and go under ever new names
            self._kept = {key: kept for key, kept in self._kept.items() if self._worth(kept)}
        for key in old.keys() | new.keys():
            rooms = new.get(key, ())
            if rooms != old.get(key, ()):
                self._shelve(name, *key, rooms)
        if new:
            self._known[name] = new

    def _shelve(self, name: str, place: _Place, kind: Kind, rooms: tuple[int, ...]) -> None:
        shelves = self._shelves.setdefault(place, {})
        if kind not in shelves:
            shelves[kind] = Shelf(kind, self._sign)
        shelves[kind].put(name, rooms)
        if not shelves[kind].of:
            del shelves[kind]
        if not shelves:
            del self._shelves[place]

    def _reach(self, ask: Ask) -> Reach:
        """Worked out once for the questions that one filter asks."""
        if not self._shelves:
            return []
        if self._reached is None or self._reached[0] is not ask:
            self._reached = ask, self._reachable(ask)
        return self._reached[1]

    def _reachable(self, ask: Ask) -> Reach:
        core, reach = ask.core, []
        # The best first, as a rule: devices in use have the least room.
        owners = (None,) if self._open else (ask.namespace, None)[:: self._sign]
        for owner in owners:
            for kind, shelf in self._shelves.get((ask.mode, owner), {}).items():
                shares = shares_on(ask, kind.memory, kind.bytes) if kind.core >= core else None
                if shares is not None and (share := sum(shares)) <= kind.memory:
                    reach.append((shelf, share))
        return reach

    def _fits(self, ask: Ask, reach: Reach) -> set[str]:
        """All nodes that fit: those of the last time but for what changed since."""
        key = ask.mode, ask.namespace, ask.core, ask.in_bytes, tuple(container.share for container in ask.containers)
        kept = self._kept.pop(key, None)
        if kept is None or not self._worth(kept):
            kept = _Kept(with_room(reach), {})
        elif kept.late:
            kept.names.difference_update(kept.late)
            kept.names.update(left_over(kept.late, reach))
            kept.late.clear()
        self._kept[key] = kept  # now the last: dictionaries keep the order of entry
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return kept.names

    def _worth(self, kept: _Kept) -> bool:
        """Whether it is quicker to look at what changed than at all."""
        return len(kept.late) * CHEAPER <= len(self._known)

    def _by_pool(self, names: Sequence[str], reach: Reach, choice: _Choice) -> list[str] | None:
        """By walking over the names once; None if that does not settle it."""
        wanted = choice.breadth + min(len(choice.without), MANY * choice.breadth)
        known = len(self._known)
        each = max(1.0, known / len(names))  # so many nodes for one that is asked about
        enough = int(1.5 * wanted * each) + 8
        pool = pooled(reach, choice.width, enough, max(enough, isqrt(wanted * known // 2)))
        best = pool.names()
        if pool.high - pool.low <= choice.width and len(best) >= enough:
            found = choice.first(filter(best.__contains__, names))
            return found if len(found) == choice.breadth else None
        found = choice.of(pool.ranked(best.intersection(names)))
        return found if pool.whole or len(found) == choice.breadth else None


class _Kept(NamedTuple):
    """The nodes that fit an ask, as they were before some changed."""

    names: set[str]
    late: dict[str, None]


class _Choice(NamedTuple):
    """How those that are returned are chosen from those that fit."""

    breadth: int
    width: int
    without: AbstractSet[str]

    def of(self, ranked: Iterable[str]) -> list[str]:
        """The first of these, which come best first and may come again."""
        chosen: dict[str, None] = {}
        for name in filterfalse(self.without.__contains__, ranked):
            chosen[name] = None
            if len(chosen) == self.breadth:
                break
        return list(chosen)

    def first(self, names: Iterable[str]) -> list[str]:
        """The first of these, which are equals and come once."""
        return list(islice(filterfalse(self.without.__contains__, names), self.breadth))
