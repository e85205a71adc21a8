"""Draws the links of a machine as SVG: islands apart from each other, fast links thick and bright.

SVG is text, so the standard library is enough.
"""

from __future__ import annotations

from itertools import combinations
from math import cos, pi, sin
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from linkwise.topology.canonical import classes
from linkwise.topology.rings import rings
from linkwise.topology.sample_cleaning import clean_samples

if TYPE_CHECKING:
    from linkwise.model.link import Link
    from linkwise.model.topology import Topology

__all__ = ["drawing"]

SIZE: Final = 640
LEGEND: Final = 220
MARGIN: Final = 70
# From the fastest class of links to the slowest.
STROKES: Final = (("#1b7f3b", 5.0), ("#0a84a5", 3.5), ("#c98a00", 2.0), ("#b5541c", 1.4), ("#9a9a9a", 0.8))

Point = tuple[float, float]


def drawing(topology: Topology, title: str = "") -> str:
    """Return the drawing as SVG."""
    places = _places(topology)
    kinds = _kinds(topology)
    radius = min(24.0, SIZE * 1.1 / max(len(topology.devices), 1))
    fastest_first = sorted(kinds.values(), key=lambda kind: -kind[1])
    order = list(dict.fromkeys(kind for kind, _ in fastest_first))
    strokes = {kind: STROKES[min(number, len(STROKES) - 1)] for number, kind in enumerate(order)}
    strokes |= dict.fromkeys(order[1:][-1:], STROKES[-1])  # the slowest of several stays in the background
    slowest_first = sorted(kinds.items(), key=lambda entry: entry[1][1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE + LEGEND} {SIZE}" font-family="sans-serif">',
        f'<rect width="{SIZE + LEGEND}" height="{SIZE}" fill="#ffffff"/>',
        f"<title>{escape(title or 'links between devices')}</title>",
        *(_line(places[i], places[j], *strokes[kind]) for (i, j), (kind, _) in slowest_first),
        *(_device(places[i], name, radius) for i, name in enumerate(topology.devices)),
        *_legend(order, strokes, kinds, title),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(topology: Topology) -> list[Point]:
    """Return the position of each device: each island on its own circle, the islands on a circle around the centre."""
    islands = [ring for ring in rings(topology) if len(ring) > 1]
    alone = tuple(i for i in range(len(topology.devices)) if not any(i in ring for ring in islands))
    groups = [*islands, *([alone] if alone else [])]
    if not groups:
        return []
    middle, reach = SIZE / 2, SIZE / 2 - MARGIN
    small = reach if len(groups) == 1 else reach * min(0.36, 1.4 / len(groups))
    places: list[Point] = [(middle, middle)] * len(topology.devices)
    for number, group in enumerate(groups):
        angle = 2 * pi * number / len(groups) - pi
        away = 0 if len(groups) == 1 else reach - small
        centre = (middle + away * cos(angle), middle + away * sin(angle))
        for place, device in enumerate(group):
            turn = 2 * pi * place / len(group) + (angle + pi / len(group) if away else -pi / 2)
            around = small if len(group) > 1 else 0
            places[device] = (centre[0] + around * cos(turn), centre[1] + around * sin(turn))
    return places


def _kinds(topology: Topology) -> dict[tuple[int, int], tuple[str, float]]:
    """Return the link name and a relative speed for every pair with link data."""
    pairs = list(combinations(range(len(topology.devices)), 2))
    if topology.links:
        links = {pair: min(topology.links[pair[0]][pair[1]], topology.links[pair[1]][pair[0]]) for pair in pairs}
        return {pair: (_name(link), 100 * link.direct + link.pcie) for pair, link in links.items() if link != "?"}
    if topology.bandwidth:
        values = clean_samples(topology.bandwidth).values
        class_of = classes([values[i][j] for i, j in pairs])
        speeds = {(i, j): class_of[values[i][j]] for i, j in pairs}
        return {pair: (f"about {speed:.3g} GB/s", speed) for pair, speed in speeds.items() if speed}
    return {}


def _name(link: Link) -> str:
    """Return the direct links, or the PCIe path if there are none."""
    return link.split("+")[0]


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
    kinds: dict[tuple[int, int], tuple[str, float]],
    title: str,
) -> list[str]:
    counts = {kind: sum(name == kind for name, _ in kinds.values()) for kind in order}
    lines = [f'<text x="{SIZE + 10}" y="40" font-size="14" font-weight="bold">{escape(title)}</text>']
    for number, kind in enumerate(order):
        y = 70 + 24 * number
        colour, width = strokes[kind]
        lines.append(_line((SIZE + 10, y), (SIZE + 50, y), colour, width))
        text = f"{kind}: {counts[kind]} pair{'' if counts[kind] == 1 else 's'}"
        lines.append(f'<text x="{SIZE + 60}" y="{y + 4}" font-size="13">{escape(text)}</text>')
    return lines
