"""Link affinity policy: whole devices by their links, the best set of the best partition.

Source: seed 000, "How to pick the best effort GPUs in one node" and "How to pick the most suitable Node".
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import log
from typing import TYPE_CHECKING, Final

from linkwise.model.verdict import Offer, Reject
from linkwise.policies.alignment import locality, locality_terms
from linkwise.policies.policy import ByDevice, first_of, offer_by_container
from linkwise.speed.caches import cached_by_identity
from linkwise.topology.canonical import MACHINES, canonical_of, class_links
from linkwise.topology.fabric import SIZES, least_lost, loss
from linkwise.topology.link_values import NVLINK_SCORE, link_scores
from linkwise.topology.machine import machine_with
from linkwise.topology.numa import with_locality
from linkwise.topology.partition import Partition, partition_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix
    from linkwise.topology.numa import Locality

__all__ = ["LinkAffinity", "link_class"]

STEP: Final = 1.05
"""ratio of two neighbouring classes of set scores"""


class LinkAffinity(ByDevice):
    """Scores by link kinds; a node without link data stays feasible and comes last."""

    name = "link-affinity"
    terms = ("known", "links", *(f"sets of {size}" for size in SIZES), "numa", "nic", "packing", "score")
    leading = 2

    def __init__(self, *, nic: bool = False) -> None:
        self._nic = nic

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The best set of the best partition of the free devices, divided among the containers by the same rule."""
        free = [device.id for device in node.free()]
        near = locality(node, nics=self._nic)
        devices = _chosen(node, ask.devices, free, near, ask.required)
        if devices is None:
            notes: tuple[str, ...] = ("link data is incomplete",)
            devices = first_of(node, free, ask.devices, ask.required)
        else:
            notes = _notes(node)
        offer = offer_by_container(
            ask, node, devices, lambda count, left: _chosen(node, count, left, near) or first_of(node, left, count)
        )
        return Offer(offer.node, offer.parts, notes=notes)

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Whether links are known, the class of the set's score, what others lose, locality, packing, and the exact score."""
        left, lost = len(node.free()) - ask.devices, [-amount for amount in loss(node, offer.devices)]
        scores, places = _scores(node), node.positions()
        near = locality_terms(node, offer.devices, nics=self._nic)
        if scores is None or not all(device in places for device in offer.devices):
            # rule 000.unknown: without a matrix a node comes last; a single device needs no links.
            return (int(ask.devices == 1), 0, *lost, *near, -left, 0)
        # rule 000.score, 000.story: the score of the set that the node would allocate.
        pairs = [int(scores[i][j]) for i, j in combinations([places[device] for device in offer.devices], 2)]
        return (1, link_class(pairs), *lost, *near, -left, sum(pairs))


def link_class(pairs: Iterable[int]) -> int:
    """The class of a set with these pair scores, by which nodes are compared: equal for scores within about 5%.

    The PCIe path behind NVLinks is left out, because traffic between the two devices does not take it; that alone would
    make two thirds of the pairs of a DGX-1 different.
    """
    # rule 000.score: what others lose and packing decide between nodes whose sets are of one class.
    points = sum([score - score % NVLINK_SCORE if score >= NVLINK_SCORE else score for score in pairs])
    return round(STEP ** round(log(points, STEP))) if points else 0


def _chosen(
    node: Node, count: int, available: Sequence[str], near: Locality, required: Sequence[str] = ()
) -> list[str] | None:
    """`count` of the available devices by links, then by locality; None without enough link data."""
    scores, places = _scores(node), node.positions()
    known = {places[device]: device for device in available if device in places}
    if scores is None or not all(device in places for device in required):
        return None
    if count == 1 and known and not required and node.topology is not None:
        return [known[least_lost(node.topology, scores, known, near.nics)]]
    if near:
        scores = _local_scores(scores, near)
    best = partition_on(machine_with(scores), count, known, [places[device] for device in required])
    return [known[position] for position in best.devices] if isinstance(best, Partition) else None


def _scores(node: Node) -> Matrix | None:
    topology = node.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    return _by_links(topology.links) if topology.links else _by_classes(canonical_of(topology))


_by_links: Final = cached_by_identity(link_scores, MACHINES)


@lru_cache(maxsize=MACHINES)
def _by_classes(values: Matrix) -> Matrix:
    return link_scores(class_links(values))


_local_scores: Final = lru_cache(maxsize=MACHINES)(with_locality)


def _notes(node: Node) -> tuple[str, ...]:
    if node.topology is None or node.topology.links:
        return ()
    return ("link kinds are inferred from bandwidth",)
