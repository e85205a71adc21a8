"""Devices of one node that can't be allocated: those with a fault, and those that an administrator cordoned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.dialects.dialect import where_node
from linkwise.dialects.linkwise.cordon import CORDONED, cordoned_devices, cordons_of
from linkwise.dialects.linkwise.inventory import inventory_faults
from linkwise.model.verdict import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.views import NodeView

__all__ = ["cordoned_by", "faults_of", "without_cordoned"]


def faults_of(devices: Sequence[Device], document: object) -> dict[str, str]:
    """Return why each unhealthy device is unhealthy, by id, as the DeviceInventory says; empty where it does not."""
    unhealthy = [device.id for device in devices if not device.healthy]
    known = inventory_faults(document) if unhealthy else {}
    return {id_: known.get(id_, "") for id_ in unhealthy}


def cordoned_by(
    view: NodeView, devices: Sequence[Device], problems: list[Problem], *, by_claims: bool
) -> dict[str, str]:
    """Return the reason of each cordoned device, by id; entries of the annotation that name no device are problems."""
    cordons, wrong = cordons_of(view)
    problems += wrong
    if not cordons or by_claims:
        if cordons:
            sentence = "ResourceClaims allocate the devices of this node; use a DeviceTaintRule of Kubernetes instead"
            problems.append(Problem(where_node(view), CORDONED, sentence))
        return {}
    known = {key for device in devices for key in (device.id, f"#{device.index}")}
    for key in cordons if devices else ():
        if key not in known:
            sentence = (
                f"the node has no device {key}; remove it with `linkwise uncordon node/{view.name} --device {key}`"
            )
            problems.append(Problem(where_node(view), CORDONED, sentence))
    return cordoned_devices(devices, cordons)


def without_cordoned(devices: tuple[Device, ...], cordoned: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices with cordoned ones as unhealthy: they are not allocated, and stay with the pods that have them."""
    if not cordoned:
        return devices
    return tuple(replace(device, healthy=False) if device.id in cordoned else device for device in devices)
