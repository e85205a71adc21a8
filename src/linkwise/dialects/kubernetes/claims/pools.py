"""The devices of a class that count on a node, by the slices of its pools.

Counts are never too high: only the newest generation of a complete pool counts, as for kube-scheduler, and devices that
share counters count only as far as all of them can be allocated together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from linkwise.dialects.kubernetes.claims.selectors import selects
from linkwise.dialects.pod_resources import quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from linkwise.dialects.kubernetes.claims.objects import DeviceClass, Slice, SliceDevice
    from linkwise.dialects.kubernetes.claims.taints import TaintRule

__all__ = ["current_slices", "devices_on", "pool_problem", "selected_on", "with_rules"]

Counters = dict[tuple[str, str], Decimal]
"""amounts by counter set and counter"""


def current_slices(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of the newest generation of a pool, by name."""
    ordered = sorted(slices, key=lambda each: each.name)
    newest = max((each.generation for each in ordered), default=0)
    return [each for each in ordered if each.generation == newest]


def with_rules(slices: Sequence[Slice], rules: Iterable[TaintRule]) -> Sequence[Slice]:
    """The slices of a pool with the taints that rules add to their devices."""
    covering = [rule for rule in rules if any(rule.covers(each.driver, each.pool) for each in slices)]
    if not covering:
        return slices
    return [replace(each, devices=tuple(_tainted(device, covering) for device in each.devices)) for each in slices]


def pool_problem(slices: Sequence[Slice]) -> str:
    """Why the current slices of a pool can't be used; empty if they can."""
    if any(each.total != len(slices) for each in slices):
        return f"{len(slices)} of {max(each.total for each in slices)} slices are published"
    names = Counter(device.name for each in slices for device in each.devices)
    if twice := next((name for name, count in names.items() if count > 1), ""):
        return f"the device name {twice!r} appears twice"
    counters = Counter((name, counter) for each in slices for name, counter, _ in each.counters)
    if any(count > 1 for count in counters.values()):
        return "a counter is defined twice"
    consumed = {(name, counter) for each in slices for device in each.devices for name, counter, _ in device.consumes}
    return "" if consumed <= counters.keys() else "a device consumes a counter that is not defined"


def selected_on(node: str, slices: Sequence[Slice], wanted: DeviceClass) -> list[SliceDevice]:
    """The devices of a class on a node."""
    return [
        device
        for each in slices
        for device in each.devices
        if node in {each.node, device.node} and _is_selected(wanted, each.driver, device)
    ]


def devices_on(
    node: str, slices: Sequence[Slice], wanted: DeviceClass, allocated: Collection[str]
) -> list[SliceDevice]:
    """The devices of a class on a node: those that are allocated, and those that can be allocated besides.

    `slices` are the current ones of a pool without a problem; `allocated` are names of its devices.
    """
    here = selected_on(node, slices, wanted)
    left: Counters = {(name, counter): quantity(amount) for each in slices for name, counter, amount in each.counters}
    if not left:
        return here
    total = dict(left)
    for device in (device for each in slices for device in each.devices if device.name in allocated):
        _take(left, device)
    fitting = {device.name for device in here if device.name in allocated}
    # Those that consume the least first: of devices and sets of the same devices, the single ones count.
    for device in sorted(here, key=lambda device: _weight(total, device)):
        if device.name not in fitting and all(left[key] >= amount for key, amount in _consumed(device)):
            _take(left, device)
            fitting.add(device.name)
    return [device for device in here if device.name in fitting]


def _tainted(device: SliceDevice, rules: Iterable[TaintRule]) -> SliceDevice:
    added = tuple(rule.taint for rule in rules if rule.device in {"", device.name})
    return replace(device, taints=(*device.taints, *added)) if added else device


def _is_selected(wanted: DeviceClass, driver: str, device: SliceDevice) -> bool:
    return all(selects(expression, driver, device) is not False for expression in wanted.selectors)


def _consumed(device: SliceDevice) -> list[tuple[tuple[str, str], Decimal]]:
    return [((name, counter), quantity(amount)) for name, counter, amount in device.consumes]


def _take(left: Counters, device: SliceDevice) -> None:
    for key, amount in _consumed(device):
        left[key] -= amount


def _weight(total: Counters, device: SliceDevice) -> Decimal:
    return sum((amount / total[key] for key, amount in _consumed(device) if total[key]), Decimal(0))
