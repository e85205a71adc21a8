"""A choice by the policy of a plug-in, for `linkwise pick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from linkwise.cli.render.tables import LabelledLines, print_json, print_refusal
from linkwise.engine.reasons.catalog import devices_text, refusal
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.verdict import Offer, Reject
from linkwise.policies.registry import POLICIES
from linkwise.wire.pick_batch import DevicesAnswer, Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.model.topology import Topology
    from linkwise.policies.policy import Policy

__all__ = ["pick_by_policy"]


def pick_by_policy(  # noqa: PLR0913 - the options of the command
    name: str,
    topology: Topology,
    size: int,
    *,
    available: Collection[int] | None,
    required: Collection[int],
    as_json: bool,
) -> bool:
    """Choose devices of a machine by any registered policy; False if it refuses."""
    policy = POLICIES[name]
    devices = tuple(Device(device, index) for index, device in enumerate(topology.devices))
    free = range(len(devices)) if available is None else available
    used = {device.id: Use(whole=True) for device in devices if device.index not in free}
    node = Node("machine", devices, used, topology)
    ask = Ask("devices", (ContainerAsk("main", size),), required=tuple(topology.devices[index] for index in required))
    offer = _offer(policy, ask, node)
    if isinstance(offer, str):
        return print_json(Refused(offer)) if as_json else print_refusal(Console(highlight=False), offer)
    chosen = tuple(sorted(devices.index(device) for device in devices if device.id in offer.devices))
    if as_json:
        return print_json(DevicesAnswer(chosen))
    lines = LabelledLines()
    lines.add("chosen", devices_text(chosen), "bold green")
    terms = ", ".join(
        f"{term} {value}" for term, value in zip(policy.terms, policy.score(ask, node, offer), strict=True)
    )
    lines.add("", f"{policy.summary or f'by the policy {name}'}; {terms}")
    Console(highlight=False).print(lines.rows)
    return True


def _offer(policy: Policy, ask: Ask, node: Node) -> Offer | str:
    """The offer, or why there is none."""
    if reason := policy.admit(ask):
        return refusal(reason)
    offer = policy.pick(ask, node)
    return refusal(offer.reason) if isinstance(offer, Reject) else offer
