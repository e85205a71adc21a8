"""How the devices of one node compare with what other nodes would give, term by term."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.explain.reports.pod import Given, OtherNode, Term
from linkwise.model.verdict import Offer
from linkwise.policies.memory_share import shares_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.engine.index.node_index import Wanted
    from linkwise.engine.index.score_table import Code
    from linkwise.model.device import Device
    from linkwise.model.node import Node
    from linkwise.model.verdict import Part

__all__ = ["given", "other_node", "rank_of", "scored", "terms_of"]


def given(parts: Iterable[Part], devices: Iterable[Device]) -> tuple[Given, ...]:
    """The parts with the indices of their devices; a device that the node does not have has none."""
    index = {device.id: device.index for device in devices}
    return tuple(
        Given(
            part.container,
            part.devices,
            tuple(index[name] for name in part.devices if name in index),
            part.share,
            part.core,
        )
        for part in parts
    )


def scored(wanted: Wanted, node: Node, parts: Sequence[Part]) -> Code | None:
    """The score of devices that a pod has, on its node as it is without it; None if they could not be given now."""
    offer = Offer(node.name, tuple(parts))
    ask = wanted.ask
    sound = {device.id for device in node.healthy() if shares_on(ask, device.memory, device.bytes) is not None}
    if not isinstance(wanted.policy.pick(ask, node), Offer) or not sound.issuperset(offer.devices):
        return None
    return wanted.policy.score(ask, node, offer) if len(offer.devices) == (ask.devices or 1) else None


def terms_of(wanted: Wanted, code: Code) -> tuple[Term, ...]:
    """The numbers of a score with their names."""
    policy = wanted.policy
    return tuple(
        Term(name, value, place < policy.leading)
        for place, (name, value) in enumerate(zip(policy.terms, code, strict=True))
    )


def rank_of(own: Code, others: Iterable[tuple[str, Code]]) -> int:
    """The place of a score among others, from 1; equal scores share a place."""
    return 1 + sum(code > own for _, code in others)


def other_node(wanted: Wanted, own: Code, others: Sequence[tuple[str, Code]]) -> OtherNode | None:
    """The best of the others, with the first term in which it differs; None if there is none."""
    if not others:
        return None
    name, code = others[0]
    for here, there in zip(terms_of(wanted, own), code, strict=True):
        if here.value != there:
            better = there > here.value
            return OtherNode(name, "better" if better else "worse", here.name, here.leading, there, here.value)
    return OtherNode(name, "equal")
