"""Machines with two cards each: pods that want one leave room for a pod that wants two.

Source: seed 002, the second case of its scheduling section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.link_blind import Blind
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.link_blind import Chosen
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Given, Stage

__all__ = ["tell"]

FILE: Final = "packing.yaml"
DESKS: Final = ("desk-1", "desk-2", "desk-3")
ONES: Final = ("one-1", "one-2", "one-3")


async def tell(stage: Stage, page: Page) -> None:
    """Used nodes are filled first."""
    page.say(
        "Three machines with two cards each. Three pods come that want one card; after them comes a pod that wants "
        "two cards of one machine. Spreading the load seems fair, until that one comes:"
    )
    page.words(manifest(FILE))
    blind = Blind(map(stage.inspect, DESKS))
    rows = []
    for name in ONES:
        stage.apply(FILE, name)
        (given,) = await stage.placed(name)
        rows.append((name, _where(given), _where(blind.place(1))))
    left = [stage.inspect(name).idle for name in DESKS]
    spread = [len(blind.free[name]) for name in DESKS]
    rows.append(("cards left", ", ".join(map(str, left)), ", ".join(map(str, spread))))
    stage.apply(FILE, "pair")
    (pair,) = await stage.placed("pair")
    theirs = blind.place(2)
    rows.append(("pair", _where(pair), _where(theirs) if theirs.node else f"waits, with {sum(spread)} cards free"))
    page.sides(rows, "pod")
    heading, *_ = stage.lines(await stage.explained("pair"))
    page.quote((("event", stage.event("pair", "DevicesChosen")), ("explain", heading)))
    page.promises(
        ("the pod that wants two runs, with both cards of one machine", len(pair.devices) == 2),
        ("spread out, it would have found no machine, though three cards are free", not theirs.node),
    )


def _where(found: Given | Chosen) -> str:
    return f"{found.node} {devices_text(found.devices)}"
