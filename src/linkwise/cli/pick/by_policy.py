"""Prints a choice by rings, by free memory, by count or by the policy of a plug-in, with its reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkwise.cli.pick.batch import answer, ring_node
from linkwise.cli.render.tables import LabelledLines, print_json, print_refusal
from linkwise.engine.reasons.catalog import devices_text, refusal
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Offer, Reject
from linkwise.policies.registry import POLICIES
from linkwise.policies.ring_profiles import ring_profile
from linkwise.topology.device_sets import named_mask
from linkwise.wire.pick_batch import (
    DevicesAnswer,
    GroupAnswer,
    MemoryShareLine,
    Refused,
    RingAffinityLine,
    WholeDeviceLine,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from linkwise.model.topology import Topology
    from linkwise.policies.policy import Policy

__all__ = ["pick_by_count", "pick_by_free_memory", "pick_by_policy", "pick_in_rings", "ring_line"]


def ring_line(profile_name: str, size: int, idle: list[int] | None, faulty: list[int]) -> RingAffinityLine:
    """Build the request for a machine of this profile; by default all healthy devices are idle."""
    profile = ring_profile(profile_name)
    named_mask(idle or (), profile.devices or MAX_DEVICES, "--available")
    named_mask(faulty, profile.devices or MAX_DEVICES, "--faulty")
    all_devices = range(profile.devices or profile.group * 4)
    free = [device for device in (all_devices if idle is None else idle) if device not in faulty]
    healthy = [device for device in range(max([*all_devices, *free, *faulty]) + 1) if device not in faulty]
    return RingAffinityLine(size, free, profile.name, healthy)


def pick_in_rings(request: RingAffinityLine, *, as_json: bool = False, console: Console | None = None) -> bool:
    """Choose devices in a layout that the hardware supports; False if there is none."""
    profile, reply = ring_profile(request.profile), answer(request)
    if as_json:
        return print_json(reply)
    terminal = console or Console(highlight=False)
    terminal.print(_rings(request, reply), "")
    if not isinstance(reply, GroupAnswer):
        return print_refusal(terminal, reply.reject if isinstance(reply, Refused) else str(reply))
    lines = LabelledLines()
    lines.add("chosen", f"{devices_text(reply.devices)}  group {reply.group}, score {reply.score}", "bold green")
    devices = len(ring_node(request.profile, request.idle, request.healthy).devices)
    groups = [len(set(request.idle) & set(group)) for group in profile.groups(devices)]
    idle_text = ", ".join(f"{profile.noun} {number} has {count} idle" for number, count in enumerate(groups))
    lines.add("", f"{idle_text}; group A is the best for {request.size} devices, and a higher score is a better node")
    terminal.print(lines.rows)
    return True


def pick_by_count(
    size: int, free: list[int], required: list[int], *, as_json: bool = False, console: Console | None = None
) -> bool:
    """Choose the lowest free devices; False if there are too few."""
    reply = answer(WholeDeviceLine(size=size, available=free, required=required))
    if as_json:
        return print_json(reply)
    terminal = console or Console(highlight=False)
    if not isinstance(reply, DevicesAnswer):
        return print_refusal(terminal, reply.reject if isinstance(reply, Refused) else str(reply))
    lines = LabelledLines()
    lines.add("chosen", devices_text(reply.devices), "bold green")
    lines.add("", "the lowest free devices: only counts are known")
    terminal.print(lines.rows)
    return True


def pick_by_free_memory(
    room: dict[int, int], share: int, *, as_json: bool = False, console: Console | None = None
) -> bool:
    """Choose the device with the least free memory that fits; False if there is none."""
    reply = answer(MemoryShareLine(room, share))
    if as_json:
        return print_json(reply)
    terminal = console or Console(highlight=False)
    chosen = reply.devices if isinstance(reply, DevicesAnswer) else ()
    terminal.print(_memory_bars(room, share, chosen), "")
    if not isinstance(reply, DevicesAnswer):
        return print_refusal(terminal, reply.reject if isinstance(reply, Refused) else str(reply))
    (device,) = chosen
    lines = LabelledLines()
    lines.add(
        "chosen",
        f"{devices_text(chosen)}  {room[device]} free, {room[device] - share} left after allocation",
        "bold green",
    )
    lines.add("", "of the devices that fit, the one with the least free memory")
    others = sorted((left, other) for other, left in room.items() if left >= share and other != device)
    if others:
        left, other = others[0]
        lines.add("runner-up", f"{devices_text([other])}  {left} free", "bold")
        lines.add("", "tied; the lower device index is taken" if left == room[device] else "it has more free memory")
    terminal.print(lines.rows)
    return True


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


def _rings(request: RingAffinityLine, reply: object) -> Table:
    """Return one row per ring; a star marks chosen devices, a minus devices in use, a question mark unhealthy ones."""
    profile, node = ring_profile(request.profile), ring_node(request.profile, request.idle, request.healthy)
    chosen = reply.devices if isinstance(reply, GroupAnswer) else ()
    table = Table.grid(padding=(0, 1))
    for number, group in enumerate(profile.groups(len(node.devices))):
        cells = [_cell(node.devices[index], node, chosen) for index in group]
        table.add_row(Text(f"{profile.noun} {number}", "bold"), *cells)
    return table


def _cell(device: Device, node: Node, chosen: tuple[int, ...]) -> Text:
    if device.index in chosen:
        return Text(f"*{device.index}", "bold green")
    if not device.healthy:
        return Text(f"?{device.index}", "red")
    return Text(f"-{device.index}", "dim") if device.id in node.used else Text(f" {device.index}")


def _memory_bars(room: dict[int, int], share: int, chosen: tuple[int, ...]) -> Table:
    largest = max(room.values(), default=0) or 1
    table = Table.grid(padding=(0, 1))
    for device in sorted(room):
        star = "*" if device in chosen else " "
        colour = "bold green" if device in chosen else "" if room[device] >= share else "dim"
        bar = "#" * round(40 * room[device] / largest)
        table.add_row(
            Text(f"{star}{device}", colour), Text(str(room[device]), colour, justify="right"), Text(bar, colour)
        )
    return table


def _offer(policy: Policy, ask: Ask, node: Node) -> Offer | str:
    """The offer, or why there is none."""
    if reason := policy.admit(ask):
        return refusal(reason)
    offer = policy.pick(ask, node)
    return refusal(offer.reason) if isinstance(offer, Reject) else offer
