"""Simulated usage: what the pods on simulated devices would use, for demonstrations and the embedded cluster.

A pod uses the same amounts as long as it runs: they are derived from its UID.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.model.usage import NodeUsage, PodUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.usage import DeviceUsage, Holding

__all__ = ["simulated_usage"]

_LEAST_MEMORY: Final = 55  # percent of what the pod has
_MOST_MEMORY: Final = 95
_LEAST_BUSY: Final = 30  # percent
_MOST_BUSY: Final = 98
_MIB: Final = 1 << 20


def simulated_usage(devices: Iterable[DeviceUsage], holdings: Sequence[Holding]) -> NodeUsage:
    """The usage of these devices, of which only the memory is known, by the pods that have them."""
    pods: list[PodUsage] = []
    used: list[DeviceUsage] = []
    for device in devices:
        own = [_used_by(device.total or 0, one) for one in holdings if one.device == device.id]
        pods += own
        memory = min(device.total or 0, sum(one.used or 0 for one in own))
        busy = min(100, sum(one.utilization or 0 for one in own))
        used.append(replace(device, used=memory, utilization=busy, processes=()))
    return NodeUsage(tuple(used), tuple(sorted(pods, key=lambda one: (one.namespace, one.name, one.device))))


def _used_by(total: int, one: Holding) -> PodUsage:
    number, share = crc32(f"{one.uid}/{one.device}".encode()), total if one.share is None else min(one.share, total)
    memory = share // 100 * _between(_LEAST_MEMORY, _MOST_MEMORY, number) // _MIB * _MIB
    busy = _between(_LEAST_BUSY, _MOST_BUSY, number >> 16) * share // total if total else 0
    return PodUsage(one.uid, one.namespace, one.name, one.device, memory, busy, one.share)


def _between(least: int, most: int, number: int) -> int:
    return least + number % (most - least + 1)
