"""Corrected records: the annotations of a pod whose containers have other devices than recorded, or all that they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.dialects.aliyun import ASSIGNED
from linkwise.dialects.ascend.dialect import served_annotations
from linkwise.dialects.dialect import Writing
from linkwise.dialects.koordinator.allocation import visible
from linkwise.dialects.linkwise.dialect import GRANT, recorded_decision
from linkwise.dialects.registry import held_by, understand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.grant_writer import GrantWriter
    from linkwise.model.device import Device
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Correction

__all__ = ["Addresses", "assigned_annotations", "corrected_annotations", "correction_event"]


def corrected_annotations(
    correction: Correction, devices: Mapping[str, Device], writer: GrantWriter, now: float
) -> dict[str, str]:
    """The record in all of its forms, with the devices that the containers have.

    Args:
        correction: the pod and its devices.
        devices: all devices of the node, by id.
        writer: writes grants with increasing times.
        now: seconds since the epoch.
    """
    pod = correction.pod
    by_index = {device.index: device.id for device in devices.values()}
    before = held_by(pod).grant
    old = set(before.offer.devices) if before else set()
    others = [by_index[index] for index in sorted(visible(pod)) if by_index.get(index, "") not in {"", *old}]
    writing = Writing(
        pod,
        correction.grant,
        devices,
        0,
        siblings=(*correction.grant.offer.devices, *others),
        decision=recorded_decision(pod, GRANT),
    )
    keys = writer.annotations(writing, understand(pod).dialect, now)
    return {**keys, **({ASSIGNED: "true"} if ASSIGNED in keys else {})}


@dataclass(frozen=True, slots=True)
class Addresses:
    """IP addresses for rank tables; empty while they are not known."""

    node: str = ""
    chips: Mapping[str, str] = field(default_factory=dict)
    """by device id, of devices with a network port of their own"""


def assigned_annotations(pod: PodView, devices: Iterable[Device], addresses: Addresses) -> dict[str, str]:
    """What marks a pod whose containers all have their devices; empty if it is marked, or its record has no such mark.

    Args:
        pod: as the API server has it.
        devices: those that its containers have.
        addresses: of the node and its devices.
    """
    # rule 004.allocate: true once every container was served, not after the first.
    marks = {ASSIGNED: "true"} if pod.annotations.get(ASSIGNED) == "false" else {}
    numbers = {device.id: device.index for device in devices}
    own = {number: addresses.chips.get(name, "") for name, number in numbers.items()}
    return {**marks, **served_annotations(pod, numbers.values(), own, addresses.node)}


def correction_event(correction: Correction, node: str) -> Event:
    """The event on the pod whose record was corrected."""
    pod, devices = correction.pod, ", ".join(correction.grant.offer.devices)
    why = (
        "the kubelet served it in place of another pod that requests the same"
        if correction.swapped
        else "the kubelet allocated other devices than those chosen"
    )
    sentence = f"The record was corrected to {devices}: {why}"
    return Event("Normal", "RecordCorrected", sentence, pod.namespace, pod.name, pod.uid, node)
