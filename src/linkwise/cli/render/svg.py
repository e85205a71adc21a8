"""Draws the links of a machine as SVG, as the machine is built.

Devices that are closer to each other than to the rest form a group with an outline: the quads of a DGX-1, the rings of an
Atlas, the devices below one CPU. The slowest kind of link, through the CPUs, is one line between two groups instead of one
per pair. A ring is drawn in its order, and links through a switch as spokes. SVG is text, so the standard library is enough.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from linkwise.topology.layout import groups_of, is_switched, link_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.model.topology import Topology
    from linkwise.topology.layout import LinkKind, Pair

__all__ = ["drawing"]

WIDTH: Final = 640
LEGEND: Final = 240
MARGIN: Final = 50
LARGEST: Final = 240
"""radius of a single group"""
TILT: Final = pi / 9
"""of every group, so that the links between equal places of two groups pass no other device"""
FIRST_ENTRY: Final = 70
ENTRY: Final = 24
"""of the legend"""
GAP: Final = 80
"""between two groups"""
SPACE: Final = 40
"""of the radius of a group, per device"""
OUTLINE: Final = 38
"""from the devices of a group to its outline"""
# From the fastest kind of link to the slowest.
STROKES: Final = (("#1b7f3b", 5.0), ("#0a84a5", 3.5), ("#c98a00", 2.0), ("#b5541c", 1.4), ("#9a9a9a", 0.8))
BETWEEN: Final = ("#9a9a9a", 6.0)
"""the line between two groups"""
FIRST: Final = {2: pi, 4: 3 * pi / 4}
"""where the first of so many devices stands: a pair lies and a square stands, others begin at the top"""

Point = tuple[float, float]


def drawing(topology: Topology, title: str = "") -> str:
    """Return the drawing as SVG."""
    kinds = link_kinds(topology)
    groups = groups_of(topology, kinds)
    places, centres, small = _places(groups)
    radius = min(24.0, small * 3.2 / max(map(len, groups), default=1))
    order = list(dict.fromkeys(kind.name for kind in sorted(kinds.values(), key=lambda kind: -kind.speed)))
    lowest = max([y for _, y in centres], default=0.0) + small + OUTLINE
    height = max(lowest + MARGIN / 2, FIRST_ENTRY + ENTRY * len(order))
    strokes = {name: STROKES[min(number, len(STROKES) - 1)] for number, name in enumerate(order)}
    strokes |= dict.fromkeys(order[1:][-1:], STROKES[-1])  # the slowest of several stays in the background
    several = len(groups) > 1
    hubs = {number for number, group in enumerate(groups) if is_switched(group, kinds)}
    if between := _between(groups, kinds):
        strokes[next(iter(between.values())).name] = BETWEEN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEGEND} {height:.0f}" font-family="sans-serif">',
        f'<rect width="{WIDTH + LEGEND}" height="{height:.0f}" fill="#ffffff"/>',
        f"<title>{escape(title or 'links between devices')}</title>",
        *(_line(centres[a], centres[b], *BETWEEN) for a, b in between),
        *(_outline(centre, small + OUTLINE) for centre in centres if several),
        *_pair_lines(groups, kinds, places, strokes, hubs),
        *(line for number in sorted(hubs) for line in _hub(groups[number], centres[number], kinds, places, strokes)),
        *(_device(places[i], name, radius) for i, name in enumerate(topology.devices)),
        *_legend(order, strokes, kinds, title),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(groups: list[tuple[int, ...]]) -> tuple[dict[int, Point], list[Point], float]:
    """Return the position of each device, the centre of each group, and the radius of the groups."""
    if not groups:
        return {}, [], 0.0
    columns = 1 if len(groups) == 1 else 2
    most = max(map(len, groups))
    small = min(SPACE * most, LARGEST if columns == 1 else (WIDTH - GAP - MARGIN) / 4 - OUTLINE)
    step = 2 * (small + OUTLINE) + GAP
    top = small + OUTLINE + MARGIN / 2
    centres = [
        (WIDTH / 2 if columns == 1 else WIDTH / 2 + (number % columns - 0.5) * step, top + (number // columns) * step)
        for number in range(len(groups))
    ]
    places = {}
    for group, (x, y) in zip(groups, centres, strict=True):
        for place, device in enumerate(group):
            turn = 2 * pi * place / len(group) - FIRST.get(len(group), pi / 2) - (0 if columns == 1 else TILT)
            reach = small if len(group) > 1 else 0
            places[device] = (x + reach * cos(turn), y + reach * sin(turn))
    return places, centres, small


def _between(groups: list[tuple[int, ...]], kinds: dict[Pair, LinkKind]) -> dict[Pair, LinkKind]:
    """Return the pairs of groups with links of the slowest kind, which are drawn as one."""
    slowest = min(kinds.values(), key=lambda kind: kind.speed, default=None)
    if slowest is None or len(groups) == 1:
        return {}
    of = {device: number for number, group in enumerate(groups) for device in group}
    slow = (pair for pair, kind in kinds.items() if kind.name == slowest.name)
    apart = sorted({(min(of[a], of[b]), max(of[a], of[b])) for a, b in slow if of[a] != of[b]})
    return dict.fromkeys(apart, slowest)


def _pair_lines(
    groups: list[tuple[int, ...]],
    kinds: dict[Pair, LinkKind],
    places: dict[int, Point],
    strokes: dict[str, tuple[str, float]],
    hubs: set[int],
) -> Iterator[str]:
    """The pairs that are drawn as a line each, the slowest first."""
    of = {device: number for number, group in enumerate(groups) for device in group}
    slowest = min((kind.speed for kind in kinds.values()), default=0.0)
    names = {kind.name for kind in kinds.values() if kind.speed == slowest}
    for (a, b), kind in sorted(kinds.items(), key=lambda entry: entry[1].speed):
        if of[a] == of[b]:
            if of[a] not in hubs:
                colour, width = strokes[kind.name]
                yield _line(places[a], places[b], colour, min(width, STROKES[0][1]))
        elif kind.name not in names:
            yield _line(places[a], places[b], *strokes[kind.name])


def _hub(
    group: Sequence[int],
    centre: Point,
    kinds: dict[Pair, LinkKind],
    places: dict[int, Point],
    strokes: dict[str, tuple[str, float]],
) -> Iterator[str]:
    """The switch in the middle of a group, and its links."""
    name = kinds[min(group), max(group)].name
    for device in group:
        yield _line(places[device], centre, *strokes[name])
    x, y = centre
    yield (
        f'<rect x="{x - 52:.1f}" y="{y - 20:.1f}" width="104" height="40" rx="6" fill="#ffffff" stroke="#222222" '
        f'stroke-width="2"/>'
    )
    label = "NVSwitch" if name.startswith("NV") else "switch"
    yield f'<text x="{x:.1f}" y="{y + 5:.1f}" font-size="14" text-anchor="middle">{label}</text>'


def _outline(centre: Point, radius: float) -> str:
    x, y = centre
    return (
        f'<rect x="{x - radius:.1f}" y="{y - radius:.1f}" width="{2 * radius:.1f}" height="{2 * radius:.1f}" rx="24" '
        f'fill="#f3f5f7" stroke="#c3cbd3"/>'
    )


def _line(start: Point, end: Point, colour: str, width: float) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _device(place: Point, name: str, radius: float) -> str:
    x, y = place
    label = name if len(name) <= 8 else f"{name[:7]}..."
    return (
        f'<g><title>{escape(name)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#ffffff" '
        f'stroke="#222222" stroke-width="2"/>'
        f'<text x="{x:.1f}" y="{y + radius / 6:.1f}" font-size="{radius / 2:.1f}" text-anchor="middle">'
        f"{escape(label)}</text></g>"
    )


def _legend(
    order: list[str],
    strokes: dict[str, tuple[str, float]],
    kinds: dict[Pair, LinkKind],
    title: str,
) -> list[str]:
    counts = {name: sum(kind.name == name for kind in kinds.values()) for name in order}
    lines = [f'<text x="{WIDTH + 10}" y="40" font-size="14" font-weight="bold">{escape(title)}</text>']
    for number, kind in enumerate(order):
        y = FIRST_ENTRY + ENTRY * number
        colour, width = strokes[kind]
        lines.append(_line((WIDTH + 10, y), (WIDTH + 50, y), colour, width))
        text = f"{kind}: {counts[kind]} pair{'' if counts[kind] == 1 else 's'}"
        lines.append(f'<text x="{WIDTH + 60}" y="{y + 4}" font-size="13">{escape(text)}</text>')
    return lines
