"""Link affinity policy: whole devices by their links, the best set of the best partition.

Source: seed 000, "How to pick the best effort GPUs in one node" and "How to pick the most suitable Node".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.model.verdict import Offer, Reject
from linkwise.policies.policy import ByDevice, first_of, offer_by_container
from linkwise.speed.caches import cached_by_identity
from linkwise.topology.canonical import inferred_links
from linkwise.topology.link_score import link_scores
from linkwise.topology.partition import Partition, best_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.model.topology import Matrix

__all__ = ["LinkAffinity"]

MACHINES: Final = 2_048
"""machines whose scores are cached; most nodes of one type share one topology object"""


class LinkAffinity(ByDevice):
    """Scores by link kinds; a node without link data stays feasible and comes last."""

    name = "link-affinity"
    terms = ("known", "links", "packing")
    leading = 2

    def choose(self, ask: Ask, node: Node) -> Offer | Reject:
        """The best set of the best partition of the free devices, divided among the containers by the same rule."""
        free = [device.id for device in node.free()]
        devices = _chosen(node, ask.devices, free, ask.required)
        if devices is None:
            notes: tuple[str, ...] = ("link data is incomplete",)
            devices = first_of(free, ask)
        else:
            notes = _notes(node)
        offer = offer_by_container(ask, node, devices, lambda count, left: _chosen(node, count, left) or left[:count])
        return Offer(offer.node, offer.parts, notes=notes)

    def score(self, ask: Ask, node: Node, offer: Offer) -> tuple[int, ...]:
        """Whether links are known, the score of the set, and packing."""
        left = len(node.free()) - ask.devices
        if ask.devices == 1:
            return (1, 0, -left)  # a single device has no links to score: only packing counts
        # rule 000.unknown: without a matrix a node comes last.
        scores = _scores(node)
        places = node.positions()
        if scores is None or not all(device in places for device in offer.devices):
            return (0, 0, -left)
        # rule 000.score, 000.story: the score of the set that the node would allocate.
        chosen = [places[device] for device in offer.devices]
        return (1, int(sum(scores[i][j] for k, i in enumerate(chosen) for j in chosen[k + 1 :])), -left)


def _chosen(node: Node, count: int, available: Sequence[str], required: Sequence[str] = ()) -> list[str] | None:
    """`count` of the available devices by links; None without enough link data."""
    scores, places = _scores(node), node.positions()
    known = {places[device]: device for device in available if device in places}
    if scores is None or not all(device in places for device in required):
        return None
    best = best_partition(scores, count, known, [places[device] for device in required])
    return [known[position] for position in best.devices] if isinstance(best, Partition) else None


def _scores(node: Node) -> Matrix | None:
    topology = node.topology
    if topology is None or not (topology.links or topology.bandwidth):
        return None
    return _by_links(topology.links) if topology.links else _by_bandwidth(topology.bandwidth)


def _inferred_scores(samples: Matrix) -> Matrix:
    return link_scores(inferred_links(samples))


_by_links: Final = cached_by_identity(link_scores, MACHINES)
_by_bandwidth: Final = cached_by_identity(_inferred_scores, MACHINES)


def _notes(node: Node) -> tuple[str, ...]:
    if node.topology is None or node.topology.links:
        return ()
    return ("link kinds are inferred from bandwidth",)
