"""Reasons for a choice of linked devices, by link kinds and by bandwidth, and why the second-best set lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, isfinite
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.reports import Choice, indices_of
from linkwise.model.topology import NO_LINK_DATA
from linkwise.model.verdict import Reason
from linkwise.topology.bottleneck import Bottleneck, best_bottleneck
from linkwise.topology.canonical import inferred_links
from linkwise.topology.device_sets import Question, mask_of
from linkwise.topology.fabric import NEAR, SIZES, by_least_loss, fabric_of, position_losses
from linkwise.topology.link_values import link_scores
from linkwise.topology.machine import machine_of
from linkwise.topology.partition import Partition, best_partition, next_bottleneck, next_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.link import Link
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix, Topology
    from linkwise.topology.fabric import Fabric

__all__ = [
    "best_share_text",
    "bottleneck_lost",
    "by_bandwidth",
    "by_links",
    "left_text",
    "partition_lost",
    "set_lost",
    "single_lost",
]

MOST_SETS: Final = 500
"""that are compared to name the second best: all of a machine of eight devices, few of one of sixteen"""
_TOO_MANY: Final = "too many other sets to determine the second best"
_SET_NAMES: Final = {size: "pair" if size == 2 else f"set of {size}" for size in SIZES}
_UNKNOWN: Final = f"{NO_LINK_DATA} for these devices; the lowest free devices are taken"
_ALONE: Final = "the only device of its node"


@dataclass(frozen=True, slots=True)
class _Places:
    """A node whose links are known, with devices as positions in its topology."""

    node: Node
    topology: Topology
    links: tuple[tuple[Link, ...], ...]
    at: dict[str, int]

    @classmethod
    def of(cls, node: Node, devices: Iterable[str]) -> _Places | None:
        """None if one of the devices has no link data."""
        topology, at = node.topology, node.positions()
        if topology is None or not (topology.links or topology.bandwidth) or not all(name in at for name in devices):
            return None
        return cls(node, topology, topology.links or inferred_links(topology.bandwidth), at)

    def free(self) -> list[int]:
        return sorted(self.at[device.id] for device in self.node.free() if device.id in self.at)

    def indices(self, places: Iterable[int]) -> tuple[int, ...]:
        index = {self.at[device.id]: device.index for device in self.node.devices if device.id in self.at}
        return tuple(index[place] for place in places)

    def kinds(self, places: Sequence[int]) -> str:
        """How the devices of a set reach each other, the fastest first."""
        kinds = Counter(min(self.links[i][j], self.links[j][i]) for i, j in combinations(places, 2))
        if len(kinds) == 1:
            return f"{next(iter(kinds))} between {'them' if len(places) == 2 else 'all of them'}"
        order = sorted(kinds, reverse=True)
        return ", ".join(f"{kinds[kind]} pair{'s' if kinds[kind] > 1 else ''} {kind}" for kind in order)


def by_links(node: Node, devices: Sequence[str]) -> Choice:
    """Explain a set by link kinds: the partition it belongs to, and the runner-up."""
    known = _Places.of(node, devices)
    if known is None:
        return _unknown(node, devices)
    scores = link_scores(known.links)
    places = sorted(known.at[device] for device in devices)
    return _single(known, scores, places[0]) if len(places) == 1 else _set(known, scores, places)


def by_bandwidth(node: Node, devices: Sequence[str]) -> Choice:
    """Explain a set by its slowest pair: what it leaves for other pods, and the runner-up."""
    known = _Places.of(node, devices)
    if known is None:
        return _unknown(node, devices)
    fabric = fabric_of(known.topology.bandwidth, known.topology.links)
    places, free = sorted(known.at[device] for device in devices), known.free()
    best = best_bottleneck(fabric.values, len(places), free)
    own = Bottleneck(tuple(places), fabric.bottleneck(mask_of(places)))
    chosen = Choice(known.indices(places), _slowest(known, own))
    if not isinstance(best, Bottleneck):
        return chosen
    if set(best.devices) != set(places):
        lost = bottleneck_lost(fabric, mask_of({*free, *places}), best, own)
        return replace(chosen, now=known.indices(best.devices), lost=lost)
    query = Question(mask_of(free), 0, len(places))
    chosen = replace(chosen, because=_leaves(fabric, query, best))
    if comb(len(free), len(places)) > MOST_SETS:
        return replace(chosen, lost=_TOO_MANY)
    other = next_bottleneck(fabric, query, best)
    if other is None:
        return chosen
    return replace(chosen, other=known.indices(other.devices), lost=bottleneck_lost(fabric, query.free, best, other))


def _unknown(node: Node, devices: Sequence[str]) -> Choice:
    return Choice(indices_of(node, devices), because=_UNKNOWN if len(node.devices) > 1 else _ALONE)


def _single(known: _Places, scores: Matrix, place: int) -> Choice:
    free = sorted({*known.free(), place})
    order = by_least_loss(known.topology, scores, free)
    links = {one: sum(scores[one][other] for other in free if other != one) for one in free}
    chosen = Choice(known.indices([place]), f"link score to the other free devices {links[place]:g}{_inferred(known)}")
    if order[0] != place:
        return replace(chosen, now=known.indices(order[:1]))
    chosen = replace(chosen, because="the device that other pods need least")
    if len(order) == 1:
        return chosen
    return replace(chosen, other=known.indices(order[1:2]), lost=single_lost(known.topology, scores, free, order[:2]))


def _set(known: _Places, scores: Matrix, places: list[int]) -> Choice:
    free, size = known.free(), len(places)
    best = best_partition(scores, size, free)
    own = best
    if not isinstance(best, Partition) or set(best.devices) != set(places):
        own = best_partition(scores, size, sorted({*free, *places}), places)
    chosen = Choice(known.indices(places), f"{known.kinds(places)}, {_points(scores, own)}{_inferred(known)}")
    if not isinstance(best, Partition) or not isinstance(own, Partition):
        return chosen
    if set(best.devices) != set(places):
        return replace(chosen, now=known.indices(best.devices), lost=partition_lost(best, own))
    sets = " ".join(devices_text(known.indices(found)) for found in best.sets)
    chosen = replace(chosen, because=f"the best set of the best partition (total {best.total:g}): {sets}")
    if comb(len(free), size) > MOST_SETS:
        return replace(chosen, lost=_TOO_MANY)
    other = next_partition(machine_of(scores), Question(mask_of(free), 0, size), best, "partition")
    if other is None:
        return chosen
    return replace(chosen, other=known.indices(other.devices), lost=partition_lost(best, other))


def _points(scores: Matrix, choice: Partition | Reason) -> str:
    if isinstance(choice, Reason):
        return "not available"
    return f"link score {choice.score:g}{best_share_text(scores, choice)}"


def _inferred(known: _Places) -> str:
    return "" if known.topology.links else "; link kinds are inferred from bandwidth"


def _slowest(known: _Places, bottleneck: Bottleneck) -> str:
    if not isfinite(bottleneck.value):
        return ""
    source = "" if known.topology.bandwidth else " (typical for its link kind)"
    return f"slowest pair {bottleneck.value:g} GB/s{source}"


def _leaves(fabric: Fabric, query: Question, best: Bottleneck) -> str:
    if not best.proven:
        return "the fastest set found; too many devices for an exact search"
    counts = fabric.left(query.free & ~mask_of(best.devices))
    best_of = "the device" if query.size == 1 else "of the fastest sets (within 5%), the one"
    return f"{best_of} that leaves most for other pods: {left_text(counts)}"


def left_text(counts: Sequence[int]) -> str:
    """Return the number of good sets that a choice leaves, by size."""
    parts = [f"{n} good {_SET_NAMES[size]}{'' if n == 1 else 's'}" for size, n in zip(SIZES, counts, strict=True) if n]
    return " and ".join(parts) or "no good sets"


def best_share_text(scores: Matrix, partition: Partition) -> str:
    """Return how the score compares with the best set of that size on the whole machine, in parentheses."""
    size = len(partition.devices)
    best = best_partition(scores, size, objective="best-set")
    if size == len(scores) or isinstance(best, Reason) or not best.score:
        return ""
    name = "pair" if size == 2 else f"set of {size}"
    if partition.score >= best.score:
        return f" (the best {name} on this machine)"
    return f" ({int(100 * partition.score / best.score)}% of the best {name} on this machine)"


def partition_lost(winner: Partition, loser: Partition) -> str:
    """Why the loser was not chosen, by link kinds."""
    if loser.total < winner.total:
        return f"its best partition has a total of {loser.total:g}, {winner.total - loser.total:g} less"
    same = f"its partition has the same total of {loser.total:g}"
    if winner.devices in loser.sets and loser.score < winner.score:
        return f"{same}, but the set scores {winner.score - loser.score:g} less"
    alone = "the set alone scores higher, but " if loser.score > winner.score else ""
    return f"{alone}{same}; tie broken by lowest device index"


def single_lost(topology: Topology, scores: Matrix, free: Sequence[int], order: Sequence[int]) -> str:
    """Why the second of two devices was not chosen, by what other pods lose with each of them."""
    first, second = order
    lost = position_losses(topology, free)
    for size, least, more in zip(SIZES, lost[first], lost[second], strict=True):
        if more > least:
            return f"other pods would lose a good {_SET_NAMES[size]}"
    if sum(scores[second][other] for other in free) > sum(scores[first][other] for other in free):
        return "the other free devices would lose more links"
    return "the other free devices would lose as much; tie broken by lowest device index"


def set_lost(winner: Partition, loser: Partition) -> str:
    """Why the loser was not chosen, where only the set counts."""
    if loser.score < winner.score:
        return f"the set scores {winner.score - loser.score:g} less"
    return "the set scores the same; tie broken by lowest device index"


def bottleneck_lost(fabric: Fabric, free: int, winner: Bottleneck, loser: Bottleneck) -> str:
    """Why the loser was not chosen, by bandwidth and by what both would leave of the free devices."""
    if isfinite(loser.value) and loser.value < NEAR * winner.value:
        return f"its slowest pair has {loser.value:g} GB/s instead of {winner.value:g} GB/s"
    left = [fabric.left(free & ~mask_of(choice.devices)) for choice in (winner, loser)]
    for size, kept, lost in zip(SIZES, *left, strict=True):
        if kept != lost:
            fewer = f"it would leave {lost} good set{'' if lost == 1 else 's'} of {size} instead of {kept}"
            tie = f"{loser.value:g} and {winner.value:g} GB/s are equal (within 5%)"
            return f"{tie}, but {fewer}" if isfinite(winner.value) else fewer
    return "equal within 5% and in what it leaves for other pods; tie broken by lowest device index"
