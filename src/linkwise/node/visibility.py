"""Visibility: the devices that a container sees, its own and those of its group on the node.

NCCL copies between two containers of a node without a detour through the host only if each sees the devices of the
other. The record of a member lists them by index (`visibleGPUs`); the administrator's setting decides whether its
containers see them.

Source: seed 001, "Container environment variable assignment".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.dialects.koordinator.allocation import visible
from linkwise.dialects.koordinator.dialect import wants_siblings
from linkwise.dialects.linkwise.dialect import Linkwise
from linkwise.engine.ledger import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.model.device import Device
    from linkwise.model.settings import Visibility
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocated

__all__ = ["siblings_of", "visible_devices"]


def visible_devices(
    pod: PodView, own: Sequence[str], devices: Iterable[Device], visibility: Visibility
) -> tuple[str, ...]:
    """Return the ids of the devices that a container sees, in index order; only its own where it may not see others.

    Args:
        pod: as bound, with its record in the annotations.
        own: ids of the container's devices.
        devices: all devices of the node.
        visibility: the administrator's setting.
    """
    # rule 001.environment: members see their group's devices on the node, unless the administrator or the pod says no.
    if visibility == "never" or not wants_siblings(pod, by_default=visibility == "group"):
        return tuple(own)
    by_index = {device.index: device for device in devices}
    if not _lists_whole_devices(pod, by_index):
        return tuple(own)
    seen = [by_index[index] for index in sorted(visible(pod)) if index in by_index]
    # A container does not start if a device that it should see has failed, so those of others must be healthy.
    ids = tuple(device.id for device in seen if device.healthy or device.id in own)
    return ids if set(own) <= set(ids) else tuple(own)  # kubelet allocated others than recorded


def siblings_of(answer: Allocated, devices: Mapping[str, Device], visibility: Visibility) -> list[Device]:
    """Return the devices that the container of a call sees beside its own; `devices` are all of the node, by id."""
    if answer.claim is None:
        return []
    seen = visible_devices(answer.claim.pod, answer.devices, devices.values(), visibility)
    return [devices[device] for device in seen if device not in answer.devices]


def _lists_whole_devices(pod: PodView, by_index: Mapping[int, Device]) -> bool:
    """Return whether the pod was granted whole devices, and their indices are still those of the grant.

    Devices of which a member has a part are used by pods of other groups too. Indices change if a device is lost.
    """
    grant = Linkwise().held(pod).grant
    parts = grant.offer.parts if grant else ()
    recorded = [(index, device) for part in parts for index, device in zip(part.indices, part.devices, strict=False)]
    same = all(index in by_index and by_index[index].id == device for index, device in recorded)
    return bool(parts) and same and all(map(is_whole, parts))
