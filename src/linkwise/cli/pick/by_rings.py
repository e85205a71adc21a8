"""A choice by rings or by room, shown to a person: every group and device, and why these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkwise.cli.pick.batch import answer, ring_node
from linkwise.cli.render.tables import LabelledLines, print_json, tell_refusal
from linkwise.engine.reasons.catalog import devices_text
from linkwise.model.topology import MAX_DEVICES
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
    from linkwise.model.device import Device
    from linkwise.model.node import Node

__all__ = ["pick_by_count", "pick_by_room", "pick_in_rings", "ring_line"]


def ring_line(profile_name: str, size: int, idle: list[int] | None, faulty: list[int]) -> RingAffinityLine:
    """The question about a machine of this profile; all devices that work are idle unless said otherwise."""
    profile = ring_profile(profile_name)
    named_mask(idle or (), profile.devices or MAX_DEVICES, "--available")
    named_mask(faulty, profile.devices or MAX_DEVICES, "--faulty")
    whole = range(profile.devices or profile.group * 4)
    free = [device for device in (whole if idle is None else idle) if device not in faulty]
    sound = [device for device in range(max([*whole, *free, *faulty]) + 1) if device not in faulty]
    return RingAffinityLine(size, free, profile.name, sound)


def pick_in_rings(asked: RingAffinityLine, *, as_json: bool = False, console: Console | None = None) -> bool:
    """Choose devices that lie as they must; False if there are none."""
    profile, found = ring_profile(asked.profile), answer(asked)
    if as_json:
        return print_json(found)
    shown = console or Console(highlight=False)
    shown.print(_rings(asked, found), "")
    if not isinstance(found, GroupAnswer):
        return tell_refusal(shown, found.reject if isinstance(found, Refused) else str(found))
    told = LabelledLines()
    told.add("chosen", f"{devices_text(found.devices)}  group {found.group}, score {found.score}", "bold green")
    devices = len(ring_node(asked.profile, asked.idle, asked.healthy).devices)
    groups = [len(set(asked.idle) & set(group)) for group in profile.groups(devices)]
    idle_text = ", ".join(f"{profile.noun} {number} has {count} idle" for number, count in enumerate(groups))
    told.add("", f"{idle_text}; group A is the best for {asked.size}, and a larger score is a better node")
    shown.print(told.rows)
    return True


def pick_by_count(
    size: int, free: list[int], required: list[int], *, as_json: bool = False, console: Console | None = None
) -> bool:
    """Choose by count alone, the lowest free devices; False if there are too few."""
    found = answer(WholeDeviceLine(size=size, available=free, required=required))
    if as_json:
        return print_json(found)
    shown = console or Console(highlight=False)
    if not isinstance(found, DevicesAnswer):
        return tell_refusal(shown, found.reject if isinstance(found, Refused) else str(found))
    told = LabelledLines()
    told.add("chosen", devices_text(found.devices), "bold green")
    told.add("", "the lowest free devices: only counts are known")
    shown.print(told.rows)
    return True


def pick_by_room(room: dict[int, int], share: int, *, as_json: bool = False, console: Console | None = None) -> bool:
    """Choose the device with the least room that fits; False if there is none."""
    found = answer(MemoryShareLine(room, share))
    if as_json:
        return print_json(found)
    shown = console or Console(highlight=False)
    chosen = found.devices if isinstance(found, DevicesAnswer) else ()
    shown.print(_rooms(room, share, chosen), "")
    if not isinstance(found, DevicesAnswer):
        return tell_refusal(shown, found.reject if isinstance(found, Refused) else str(found))
    (device,) = chosen
    told = LabelledLines()
    told.add("chosen", f"{devices_text(chosen)}  {room[device]} left, {room[device] - share} after it", "bold green")
    told.add("", "of the devices that fit, the one with the least room")
    others = sorted((left, other) for other, left in room.items() if left >= share and other != device)
    if others:
        left, other = others[0]
        told.add("runner-up", f"{devices_text([other])}  {left} left", "bold")
        told.add("", "it has as much room; the lower position is taken" if left == room[device] else "it has more room")
    shown.print(told.rows)
    return True


def _rings(asked: RingAffinityLine, found: object) -> Table:
    """A row a group: a star is chosen, a minus taken, a question mark faulty."""
    profile, node = ring_profile(asked.profile), ring_node(asked.profile, asked.idle, asked.healthy)
    chosen = found.devices if isinstance(found, GroupAnswer) else ()
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


def _rooms(room: dict[int, int], share: int, chosen: tuple[int, ...]) -> Table:
    most = max(room.values(), default=0) or 1
    table = Table.grid(padding=(0, 1))
    for device in sorted(room):
        star = "*" if device in chosen else " "
        colour = "bold green" if device in chosen else "" if room[device] >= share else "dim"
        bar = "#" * round(40 * room[device] / most)
        table.add_row(
            Text(f"{star}{device}", colour), Text(str(room[device]), colour, justify="right"), Text(bar, colour)
        )
    return table
