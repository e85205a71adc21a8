"""Two nodes of eight V100, one with NVLinks: a pod that wants two devices.

Source: seed 000, story 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.link_blind import Blind, link_names, points
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.link_score import NVLINK_SCORE, PCIE_SCORE

if TYPE_CHECKING:
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage

__all__ = ["tell"]

FILE: Final = "links.yaml"
LINKED, PLAIN = "node-1", "node-2"


async def tell(stage: Stage, page: Page) -> None:
    """The node with NVLinks, and a pair of devices that two of them join."""
    page.say(
        f"{LINKED} and {PLAIN} have {len(stage.inspect(LINKED).devices)} V100 each. NVLinks join the devices of "
        f"{LINKED}, though not every pair; those of {PLAIN} talk over PCIe alone. A pod wants two devices, and says no "
        "more than that:"
    )
    page.words(manifest(FILE))
    blind = Blind(map(stage.inspect, (LINKED, PLAIN))).place(2)
    stage.apply(FILE)
    (given,) = await stage.placed("trainer")
    topology, topologies = stage.topology(given.node), [stage.topology(name) for name in blind.equals]
    link, worth = link_names(topology, given.devices), points(topology, given.devices)
    links = [link_names(one, blind.devices) for one in topologies]
    worths = [points(one, blind.devices) for one in topologies]
    page.sides(
        (
            ("node", given.node, f"{' or '.join(blind.equals)}: it sees no difference"),
            ("devices", devices_text(given.devices), f"{devices_text(blind.devices)}, the lowest numbers"),
            ("link", link, " or ".join(links)),
            ("worth", f"{worth} points", " or ".join(map(str, worths))),
        )
    )
    page.say(
        f"NV2 is two NVLinks, each worth {NVLINK_SCORE} points; PIX, PHB and SYS are paths over PCIe, from near to "
        f"far, worth up to {max(PCIE_SCORE.values())}."
    )
    heading, *lines = stage.lines(await stage.explained("trainer"))
    page.quote(
        (
            ("event", stage.event("trainer", "DevicesChosen")),
            ("explain", heading),
            *(("", line) for line in lines if line.startswith(("node ", "chosen:", "next is"))),
        )
    )
    page.promises(
        (f"the pod is on {LINKED}", given.node == LINKED),
        ("two NVLinks join its devices", link.startswith("NV2")),
        ("its pair is worth more than the blind one's, on either node", worth > max(worths)),
    )
