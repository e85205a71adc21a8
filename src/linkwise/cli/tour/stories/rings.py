"""Ascend 910 machines: chips in two rings that can't be crossed, one chip that is faulty, and a count that is none.

Source: seed 003, affinity rules and groups A to D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.render.matrix import rings_of
from linkwise.cli.tour.link_blind import Blind, is_in_one_ring
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text
from linkwise.explain.text.phrases import terms_text

if TYPE_CHECKING:
    from linkwise.cli.tour.link_blind import Chosen
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage
    from linkwise.explain.reports.pod import Explanation

__all__ = ["tell"]

FILE: Final = "rings.yaml"
NODES: Final = ("atlas-1", "atlas-2")
WANTED: Final = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 4}
CROSSED: Final = "CROSSES"


async def tell(stage: Stage, page: Page) -> None:
    """Chips of one ring, as full as can be; the sound machine first; three chips never."""
    rings = " and ".join(map(devices_text, rings_of(stage.stock(NODES[0]))))
    sick = [
        f"{device.index} of {name}" for name in NODES for device in stage.inspect(name).devices if not device.healthy
    ]
    page.say(
        f"Two Ascend 910 machines. Their chips form the rings {rings}, and chips of different rings can't talk: a job "
        f"across rings fails. Chip {', '.join(sick)} is faulty. Now {len(WANTED)} pods come, one after the other:"
    )
    page.words(manifest(FILE))
    blind = Blind(map(stage.inspect, NODES))
    rows: list[tuple[str, str, Text]] = []
    told: dict[str, Explanation] = {}
    ours, theirs = [], []
    for name, count in WANTED.items():
        stage.apply(FILE, name)
        (given,) = await stage.placed(name)
        other = blind.place(count)
        ours.append(is_in_one_ring(stage.stock(given.node), given.devices))
        theirs.append(not other.node or is_in_one_ring(stage.stock(other.node), other.devices))
        told[name] = await stage.explained(name)
        place = f"{given.node} {devices_text(given.devices)}  {_group(told[name])}"
        rows.append((f"{name}, {count}", place, _place(other, crosses=not theirs[-1])))
    page.sides(rows, "pod, chips")
    stage.apply(FILE, "three")
    said = await stage.refused("three")
    why = stage.lines(await stage.explained("three"))[0]
    because = told["d"].choice.because if told["d"].choice else ""
    page.quote((("explain d", because), ("event", said), ("explain", why)))
    faulty = [pod for device in stage.inspect("atlas-2").devices if not device.healthy for pod in device.pods]
    page.promises(
        ("every pod has chips of one ring", all(ours)),
        (f"a blind scheduler would have crossed rings {theirs.count(False)} times", not all(theirs)),
        ("the faulty chip is nobody's", not faulty),
        ("three chips are refused with a sentence that says what can be had", "ask for 1, 2, 4 or 8" in why),
    )


def _place(found: Chosen, *, crosses: bool) -> Text:
    text = Text(f"{found.node} {devices_text(found.devices)}" if found.node else "waits")
    return text.append(f"  {CROSSED}", "bold red") if crosses else text


def _group(told: Explanation) -> str:
    """The letter of its place among groups, as its node's score has it."""
    return next((term for term in terms_text(told.terms).split(", ") if term.startswith("group")), "")
