"""Prints plans as tables and a device map, or as JSON or YAML."""

from __future__ import annotations

import sys
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.render.documents import list_document, print_data
from linkwise.cli.render.tables import Table, print_sentences, print_table, terminal
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.text.group import group_lines, level_text, speed_text
from linkwise.views.documents import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

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
"""nodes in the device map, unless output is wide"""


def show(planned: Sequence[Planned], *, explain: bool, form: str | None) -> None:
    """Print all groups in the order in which they were planned."""
    if form == "name":
        sys.stdout.write("".join(f"group/{plan.group.key}\n" for plan in planned))
        return
    if form in {"json", "yaml"}:
        print_data(list_document("Plan", (_document(plan.group, explain=explain) for plan in planned)), form)
        return
    console = terminal()
    for number, plan in enumerate(planned):
        if number:
            console.print()
        _show(console, plan, explain=explain, wide=form == "wide")


def _document(group: GroupExplanation, *, explain: bool) -> dict[str, object]:
    counted = {"there": group.there, "missing": group.missing, "whole": group.whole}
    return {**plain(group), **counted, "why": group_lines(group, in_file=True) if explain else []}


def _show(console: Console, plan: Planned, *, explain: bool, wide: bool) -> None:
    group = plan.group
    heading, *lines = group_lines(group, in_file=True, tables=True)
    print_sentences(console, [heading], 0, "bold" if group.whole else "bold yellow")
    marks = _marks(group)
    if group.hosts:
        console.print()
        print_table(console, _members(group, marks))
    if plan.nodes:
        console.print()
        print_table(console, _device_map(plan.nodes, group, marks, None if wide else MAX_NODES))
    if group.levels:
        console.print()
        print_table(console, _levels(group))
    if explain or not group.whole:
        console.print()
        print_sentences(console, lines)


def _marks(group: GroupExplanation) -> dict[str, Text]:
    """Return the mark of every member with devices, by UID."""
    members = [member for member in group.members if member.devices]
    letters = LETTERS if len(members) <= len(LETTERS) else [str(number) for number in range(len(members))]
    return {
        member.uid: Text(letters[place], f"bold {COLOURS[place % len(COLOURS)]}")
        for place, member in enumerate(members)
    }


def _members(group: GroupExplanation, marks: Mapping[str, Text]) -> Table:
    table = Table(("map", "member", "node", "devices", "slowest pair"))
    for member in group.members:
        mark = marks.get(member.uid, Text(""))
        table.add(mark, member.name, *_place(member))
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
    nodes: Sequence[NodeInspection], group: GroupExplanation, marks: Mapping[str, Text], most: int | None
) -> Table:
    """Return one row per node: nodes with members first, then those with the most idle devices."""
    homes = {host.name for host in group.hosts}
    order = sorted(
        nodes, key=lambda node: (node.name not in homes, -node.idle if node.name not in homes else 0, node.name)
    )
    shown = order[:most]
    width = max((len(node.devices) for node in shown), default=0)
    cell = max([len(str(width)), *map(len, marks.values())])
    unrecorded = {node.name: sum(pod.devices for pod in node.unattributed) for node in shown}
    more = ("unrecorded",) if any(unrecorded.values()) else ()
    table = Table(("node", " ".join(f"{place:>{cell}}" for place in range(width)), *more))
    for node in shown:
        cells = [_cell(device, marks) for device in node.devices]
        row = Text(" ").join(Text(" " * (cell - len(mark))) + mark for mark in cells)
        table.add(node.name, row, *(str(unrecorded[node.name] or "-") for _ in more))
    if len(order) > len(shown):
        table.add(f"and {len(order) - len(shown)} more", "", *("" for _ in more))
    return table


def _cell(device: InspectedDevice, marks: Mapping[str, Text]) -> Text:
    own = next((marks[pod.uid] for pod in device.pods if pod.uid in marks), None)
    if own is not None:
        return own
    if not device.usable:
        return Text(UNHEALTHY, "red")
    return Text(IN_USE, "dim") if device.pods or device.whole or device.share else Text(FREE)


def _levels(group: GroupExplanation) -> Table:
    table = Table(("level", "proven", "result of the plan"))
    for level in group.levels:
        text = level_text(level, group)
        if text:
            table.add(level.name, "yes" if level.proven else "no", text.partition(";")[0])
    return table
