"""Which of the devices that kubelet still has it should hand out: what the scheduler picked, or would pick."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request__policy_table import policy_for_devices
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.node import Use
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State

__all__ = ["preferred"]


def preferred(state: State, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    """So many of the available devices, the required ones among them; empty if that is not possible.

    A pod whose promise was made for exactly so many of them goes first, the oldest promise before the others.
    """
    # rule 000.agree: scheduler and device plugin ask the same policy.
    node = state.cluster.index.nodes.get(name)
    ids = {f"#{device.index}": device.id for device in node.devices} if node else {}
    for entry in sorted(state.cluster.ledger.on(name), key=lambda entry: entry.serial):
        if entry.state not in {"ASSUMED", "ASSIGNED"}:
            continue
        for part in entry.grant.offer.parts:
            picked = tuple(ids.get(device, device) for device in part.devices)  # a record may hold only indices
            if len(picked) == size and set(required) <= set(picked) <= set(available):
                return picked
    return _chosen(state, name, available, required, size)


def _chosen(state: State, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    node = state.cluster.index.nodes.get(name)
    if node is None or size < 1:
        return ()
    held = {device.id: Use(whole=True) for device in node.devices if device.id not in available}
    free = replace(node, used=held, mode="any", unattributed=0, unattributed_share=0, unattributed_core=0)
    policy = state.policies[policy_for_devices(state.cluster.stocks[name].words, node.mode, state.settings.policies)]
    ask = Ask("", (ContainerAsk("", devices=size),), profile=node.profile, required=tuple(required))
    offer = policy.pick(ask, free)
    return offer.devices if isinstance(offer, Offer) else ()
