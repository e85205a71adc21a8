"""Plans shown to a person, as tables and a picture of nodes and devices, or as JSON."""

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
    from linkwise.explain.reports.group import GroupExplanation, ToldMember

__all__ = ["show"]

LETTERS: Final = ascii_uppercase + ascii_lowercase
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "red")
FREE: Final = "."
TAKEN: Final = "x"
BROKEN: Final = "!"
MOST_ROWS: Final = 16
"""nodes in the picture"""
LEAST_NAME: Final = 8
MOST_NAME: Final = 28
"""columns of a node's name in the picture"""


def show(planned: Sequence[Planned], *, explain: bool, as_json: bool) -> None:
    """All groups, in the order in which they were planned."""
    if as_json:
        documents = [_document(found.told, explain=explain) for found in planned]
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        return
    console = Console(highlight=False, markup=False)
    for number, found in enumerate(planned):
        if number:
            console.print()
        _show(console, found, explain=explain)


def _document(told: GroupExplanation, *, explain: bool) -> dict[str, object]:
    counted = {"there": told.there, "missing": told.missing, "whole": told.whole}
    return {**asdict(told), **counted, "why": explanation_lines(told) if explain else []}


def _show(console: Console, found: Planned, *, explain: bool) -> None:
    told = found.told
    heading, *lines = explanation_lines(told)
    console.print(heading, style="bold" if told.whole else "bold yellow")
    marks = _marks(told)
    if told.hosts:
        console.print()
        print_table(console, _members(told, marks))
    if found.nodes:
        console.print()
        console.print(_picture(found.nodes, told, marks, console.width))
    if told.levels:
        console.print()
        print_table(console, _levels(told))
    if explain or not told.whole:
        console.print()
        for line in lines:
            console.print(Padding.indent(Text(line), 2))


def _marks(told: GroupExplanation) -> dict[str, Text]:
    """A sign for every member that has devices, by UID."""
    members = [member for member in told.members if member.devices]
    signs = LETTERS if len(members) <= len(LETTERS) else [str(number) for number in range(len(members))]
    return {
        member.uid: Text(signs[place], f"bold {COLOURS[place % len(COLOURS)]}") for place, member in enumerate(members)
    }


def _members(told: GroupExplanation, marks: Mapping[str, Text]) -> Table:
    table = headed_table("", "member", "node", "devices", "slowest pair", names=("", "member", "node"))
    for member in told.members:
        sign = marks.get(member.uid, Text(""))
        table.add_row(sign, member.name, *_place(member))
    return table


def _place(member: ToldMember) -> tuple[Text, Text, Text]:
    if not member.node:
        return Text(_NOWHERE.get(member.state, "waits"), "yellow"), Text(""), Text("")
    parts = [part for part in member.devices if part.indices]
    several = len(parts) > 1
    devices = ", ".join(
        f"{part.container} {devices_text(part.indices)}" if several else devices_text(part.indices) for part in parts
    )
    bound = " (bound)" if member.state in {"bound", "leaving"} else ""
    return Text(member.node + bound), Text(devices or "none"), Text(speed_text(member.bottleneck) or "-")


_NOWHERE: Final = {"left out": "no room", "extra": "placed alone", "gated": "gated"}


def _picture(nodes: Sequence[NodeInspection], told: GroupExplanation, marks: Mapping[str, Text], columns: int) -> Table:
    """One row a node: those with members first, then those with the most idle devices."""
    homes = {host.name for host in told.hosts}
    order = sorted(
        nodes, key=lambda node: (node.name not in homes, -node.idle if node.name not in homes else 0, node.name)
    )
    shown = order[:MOST_ROWS]
    width = max((len(node.devices) for node in shown), default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    cell = max([len(str(width)), *(len(mark) for mark in marks.values())])
    room = max(LEAST_NAME, columns - width * (cell + 1) - 1)
    table.add_column("node", max_width=min(MOST_NAME, room), no_wrap=True, overflow="ellipsis")
    for place in range(width):
        table.add_column(str(place), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for node in shown:
        cells = [_cell(device, marks) for device in node.devices]
        lost = sum(pod.devices for pod in node.unattributed)
        table.add_row(node.name, *cells, *[""] * (width - len(cells)), f"{lost} of them taken" if lost else "")
    if len(order) > len(shown):
        table.add_row(Text(f"and {len(order) - len(shown)} more", "dim"))
    return table


def _cell(device: InspectedDevice, marks: Mapping[str, Text]) -> Text:
    own = next((marks[pod.uid] for pod in device.pods if pod.uid in marks), None)
    if own is not None:
        return own
    if not device.healthy:
        return Text(BROKEN, "red")
    return Text(TAKEN, "dim") if device.pods or device.whole or device.share else Text(FREE)


def _levels(told: GroupExplanation) -> Table:
    table = headed_table("level", "what the plan is worth", "proven", names=("level",))
    for level in told.levels:
        text = level_text(level, told)
        if text:
            table.add_row(level.name, text.partition(";")[0], "yes" if level.proven else "no")
    return table
