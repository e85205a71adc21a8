"""Cards that pods share by memory: the room must be on one card, and the fullest card that still fits is taken.

Source: seed 004, figures 2 and 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.render.matrix import bar
from linkwise.cli.tour.link_blind import blind_room
from linkwise.cli.tour.page import plain_table
from linkwise.cli.tour.stage import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Given, Stage
    from linkwise.explain.inspect import NodeInspection

__all__ = ["tell"]

BEFORE, FILE = "cards-before.yaml", "cards.yaml"
SECOND: Final = ("n1", "n2", "n3")
THIRD: Final = "n4"
ASKED: Final = 8138  # MiB
HELD: Final = 9
"""pods of the figures that hold memory before the story begins"""


async def tell(stage: Stage, page: Page) -> None:
    """Figure 2: three nodes, one with the room on one card. Figure 3: four cards, of which one fits best."""
    stage.apply(BEFORE)
    await stage.until(lambda: _holders(stage) == HELD, "the pods of the figures are counted")
    memory = stage.inspect(THIRD).devices[0].memory
    page.say(
        f"Cards of {memory} MiB, shared by pods that say how much memory they want. gpushare's own scheduler has placed "
        f"{HELD} pods before; Linkwise reads its records and goes on. Now pods come that want half a card:"
    )
    page.words(manifest(BEFORE) + manifest(FILE))
    nodes = [stage.inspect(name) for name in SECOND]
    four = stage.inspect(THIRD)
    blind = blind_room(nodes, ASKED)
    stage.apply(FILE, "serve-1", "serve-3")
    found, best = await stage.placed("serve-1", "serve-3")
    page.show(_cards([*nodes, four], {"serve-1": found, "serve-3": best}))
    page.sides((("serve-1", _where(found), _theirs(blind)), ("serve-3", _where(best), _first(four))), "pod")
    stage.apply(FILE, "serve-2")
    said = await stage.refused("serve-2")
    heading, _, why, *_ = stage.lines(await stage.explained("serve-2"))
    page.quote((("event", said), ("explain", f"{heading}; {why}")))
    page.promises(
        ("figure 2: the pod is on n3, the only node with the room on one card", _is(found, "n3", 0)),
        ("figure 3: of three cards that fit it has the fullest, card 1", _is(best, THIRD, 1)),
        ("one more finds no card, and is told what is left on the nearest", "no device has enough room" in said),
    )


def _cards(nodes: Sequence[NodeInspection], new: Mapping[str, Given]) -> Table:
    """A row a card, as it was; a star where a pod came."""
    table = plain_table("node", "card", "taken before", "MiB left", "")
    table.columns[3].justify = "right"
    at = {(given.node, index): name for name, given in new.items() for index in given.devices}
    for node in nodes:
        for device in node.devices:
            name = at.get((node.name, device.index), "")
            taken = bar(device.share / device.memory)
            star = Text(f"* {name} comes here" if name else "", "bold green")
            table.add_row(node.name if not device.index else "", str(device.index), taken, str(device.room), star)
    return table


def _holders(stage: Stage) -> int:
    return sum(len(device.pods) for name in (*SECOND, THIRD) for device in stage.inspect(name).devices)


def _where(given: Given) -> str:
    return f"{given.node}, card {', '.join(map(str, given.devices))}"


def _theirs(node: NodeInspection | None) -> str:
    if node is None:
        return "waits"
    largest = max(device.room for device in node.devices)
    return f"{node.name}: {node.memory - node.taken} in all, {largest} on a card: it can't start"


def _first(node: NodeInspection) -> str:
    card = next(device for device in node.devices if device.room >= ASKED)
    return f"{node.name}, card {card.index}, the first that fits: {card.room - ASKED} left over there"


def _is(given: Given, node: str, card: int) -> bool:
    return (given.node, given.devices) == (node, (card,))
