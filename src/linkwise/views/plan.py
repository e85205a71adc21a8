"""Pages of groups: their members, a map of devices, and the levels of the plan."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.text.group import group_lines, level_text, speed_text
from linkwise.views.blocks import Grid, Sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkwise.explain.inspect import InspectedDevice, NodeInspection
    from linkwise.explain.reports.group import GroupExplanation, MemberReport
    from linkwise.views.blocks import Page, Paragraph, Spans

    Span = tuple[str, str]

__all__ = ["group_page"]

LETTERS: Final = ascii_uppercase + ascii_lowercase
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "red")
FREE: Final = "."
IN_USE: Final = "x"
UNHEALTHY: Final = "!"
MAX_NODES: Final = 16
"""nodes in the device map, unless output is wide"""
_UNPLACED: Final = {"left out": "does not fit", "extra": "scheduled alone", "gated": "gated"}


def group_page(
    group: GroupExplanation,
    nodes: Sequence[NodeInspection],
    *,
    explain: bool,
    wide: bool = False,
    in_file: bool = False,
) -> Page:
    """Return the page of a group, whose members exist or are those of a file; `nodes` are those of the map, with the plan applied."""
    heading, *lines = group_lines(group, in_file=in_file, tables=True)
    return tuple(_paragraphs(group, nodes, heading, lines if explain or not group.whole else (), wide=wide))


def _paragraphs(
    group: GroupExplanation, nodes: Sequence[NodeInspection], heading: str, lines: Sequence[str], *, wide: bool
) -> Iterator[Paragraph]:
    yield (Sentences((heading,), 0, "bold" if group.whole else "bold yellow"),)
    marks = _marks(group)
    if group.hosts:
        yield (_members(group, marks),)
    if nodes:
        yield (_device_map(nodes, group, marks, None if wide else MAX_NODES),)
    if group.levels:
        yield (_levels(group),)
    if lines:
        yield (Sentences(tuple(lines)),)


def _marks(group: GroupExplanation) -> dict[str, Span]:
    """Return the mark of every member with devices, by UID."""
    members = [member for member in group.members if member.devices]
    letters = LETTERS if len(members) <= len(LETTERS) else [str(number) for number in range(len(members))]
    return {
        member.uid: (letters[place], f"bold {COLOURS[place % len(COLOURS)]}") for place, member in enumerate(members)
    }


def _members(group: GroupExplanation, marks: Mapping[str, Span]) -> Grid:
    rows = ((marks.get(member.uid, ("", "")), (member.name, ""), *_place(member)) for member in group.members)
    return Grid(
        ("map", "member", "node", "devices", "slowest pair"), tuple(tuple((cell,) for cell in row) for row in rows)
    )


def _place(member: MemberReport) -> tuple[Span, Span, Span]:
    if not member.node:
        return (_UNPLACED.get(member.state, "Pending"), "yellow"), ("", ""), ("", "")
    parts = [part for part in member.devices if part.indices]
    several = len(parts) > 1
    devices = ", ".join(
        f"{part.container} {devices_text(part.indices)}" if several else devices_text(part.indices) for part in parts
    )
    bound = " (bound)" if member.state in {"bound", "terminating"} else ""
    return (member.node + bound, ""), (devices or "none", ""), (speed_text(member.bottleneck) or "-", "")


def _device_map(
    nodes: Sequence[NodeInspection], group: GroupExplanation, marks: Mapping[str, Span], most: int | None
) -> Grid:
    """Return one row per node: nodes with members first, then those with the most idle devices."""
    homes = {host.name for host in group.hosts}
    order = sorted(
        nodes, key=lambda node: (node.name not in homes, -node.idle if node.name not in homes else 0, node.name)
    )
    shown = order[:most]
    width = max((len(node.devices) for node in shown), default=0)
    cell = max([len(str(width)), *(len(mark) for mark, _ in marks.values())])
    unrecorded = {node.name: sum(pod.devices for pod in node.unattributed) for node in shown}
    more = ("unrecorded",) if any(unrecorded.values()) else ()
    rows: list[tuple[Spans, ...]] = []
    for node in shown:
        cells = [_cell(device, marks) for device in node.devices]
        row = tuple((f"{'' if not place else ' '}{text:>{cell}}", style) for place, (text, style) in enumerate(cells))
        rows.append((((node.name, ""),), row, *(((str(unrecorded[node.name] or "-"), ""),) for _ in more)))
    if len(order) > len(shown):
        rows.append((((f"and {len(order) - len(shown)} more", ""),), (("", ""),), *((("", ""),) for _ in more)))
    return Grid(("node", " ".join(f"{place:>{cell}}" for place in range(width)), *more), tuple(rows))


def _cell(device: InspectedDevice, marks: Mapping[str, Span]) -> Span:
    own = next((marks[pod.uid] for pod in device.pods if pod.uid in marks), None)
    if own is not None:
        return own
    if not device.usable:
        return UNHEALTHY, "red"
    return (IN_USE, "dim") if device.pods or device.whole or device.share else (FREE, "")


def _levels(group: GroupExplanation) -> Grid:
    rows = [
        (level.name, "yes" if level.proven else "no", text.partition(";")[0])
        for level in group.levels
        if (text := level_text(level, group))
    ]
    return Grid(("level", "proven", "result of the plan"), tuple(tuple(((cell, ""),) for cell in row) for row in rows))
