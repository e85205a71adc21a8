"""Prints plans as tables and a device map, or as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from linkwise.cli.render.tables import headed_table, print_table
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.text.group import level_text, speed_text
from linkwise.explain.text.pod import explanation_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.cli.plan.planning import Planned
    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports.group import GroupExplanation, MemberReport

__all__ = ["show"]

LETTERS: Final = ascii_uppercase + ascii_lowercase
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "red")
FREE: Final = "."
IN_USE: Final = "x"
UNHEALTHY: Final = "!"
MAX_NODES: Final = 16
"""nodes in the device map"""
MIN_NAME: Final = 8
MAX_NAME: Final = 28
"""width of a node name in the device map"""


def show(planned: Sequence[Planned], *, explain: bool, as_json: bool) -> None:
    """Print all groups in the order in which they were planned."""
    if as_json:
        documents = [_document(plan.group, explain=explain) for plan in planned]
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        return
    console = Console(highlight=False, markup=False)
    for number, plan in enumerate(planned):
        if number:
            console.print()
        _show(console, plan, explain=explain)


def _document(group: GroupExplanation, *, explain: bool) -> dict[str, object]:
    counted = {"there": group.there, "missing": group.missing, "whole": group.whole}
    return {**asdict(group), **counted, "why": explanation_lines(group) if explain else []}


def _show(console: Console, plan: Planned, *, explain: bool) -> None:
    group = plan.group
    heading, *lines = explanation_lines(group)
    console.print(heading, style="bold" if group.whole else "bold yellow")
    marks = _marks(group)
    if group.hosts:
        console.print()
        print_table(console, _members(group, marks))
    if plan.nodes:
        console.print()
        console.print(_device_map(plan.nodes, group, marks, console.width))
    if group.levels:
        console.print()
        print_table(console, _levels(group))
    if explain or not group.whole:
        console.print()
        for line in lines:
            console.print(Padding.indent(Text(line), 2))


def _marks(group: GroupExplanation) -> dict[str, Text]:
    """Return the mark of every member with devices, by UID."""
    members = [member for member in group.members if member.devices]
    letters = LETTERS if len(members) <= len(LETTERS) else [str(number) for number in range(len(members))]
    return {
        member.uid: Text(letters[place], f"bold {COLOURS[place % len(COLOURS)]}")
        for place, member in enumerate(members)
    }


def _members(group: GroupExplanation, marks: Mapping[str, Text]) -> Table:
    table = headed_table("", "member", "node", "devices", "slowest pair", names=("", "member", "node"))
    for member in group.members:
        mark = marks.get(member.uid, Text(""))
        table.add_row(mark, member.name, *_place(member))
    return table


def _place(member: MemberReport) -> tuple[Text, Text, Text]:
    if not member.node:
        return Text(_UNPLACED.get(member.state, "Pending"), "yellow"), Text(""), Text("")
    parts = [part for part in member.devices if part.indices]
    several = len(parts) > 1
    devices = ", ".join(
        f"{part.container} {devices_text(part.indices)}" if several else devices_text(part.indices) for part in parts
    )
    bound = " (bound)" if member.state in {"bound", "terminating"} else ""
    return Text(member.node + bound), Text(devices or "none"), Text(speed_text(member.bottleneck) or "-")


_UNPLACED: Final = {"left out": "does not fit", "extra": "scheduled alone", "gated": "gated"}


def _device_map(
    nodes: Sequence[NodeInspection], group: GroupExplanation, marks: Mapping[str, Text], columns: int
) -> Table:
    """Return one row per node: nodes with members first, then those with the most idle devices."""
    homes = {host.name for host in group.hosts}
    order = sorted(
        nodes, key=lambda node: (node.name not in homes, -node.idle if node.name not in homes else 0, node.name)
    )
    shown = order[:MAX_NODES]
    width = max((len(node.devices) for node in shown), default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    cell = max([len(str(width)), *(len(mark) for mark in marks.values())])
    name_width = max(MIN_NAME, columns - width * (cell + 1) - 1)
    table.add_column("node", max_width=min(MAX_NAME, name_width), no_wrap=True, overflow="ellipsis")
    for place in range(width):
        table.add_column(str(place), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for node in shown:
        cells = [_cell(device, marks) for device in node.devices]
        unrecorded = sum(pod.devices for pod in node.unattributed)
        table.add_row(
            node.name, *cells, *[""] * (width - len(cells)), f"{unrecorded} of them in use" if unrecorded else ""
        )
    if len(order) > len(shown):
        table.add_row(Text(f"and {len(order) - len(shown)} more", "dim"))
    return table


def _cell(device: InspectedDevice, marks: Mapping[str, Text]) -> Text:
    own = next((marks[pod.uid] for pod in device.pods if pod.uid in marks), None)
    if own is not None:
        return own
    if not device.usable:
        return Text(UNHEALTHY, "red")
    return Text(IN_USE, "dim") if device.pods or device.whole or device.share else Text(FREE)


def _levels(group: GroupExplanation) -> Table:
    table = headed_table("level", "result of the plan", "proven", names=("level",))
    for level in group.levels:
        text = level_text(level, group)
        if text:
            table.add_row(level.name, text.partition(";")[0], "yes" if level.proven else "no")
    return table
