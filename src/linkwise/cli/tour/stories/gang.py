"""A gang that does not fit waits as a whole, and is placed as a whole when there is room.

Source: seed 001, its work with the gang plugin.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.link_blind import Blind
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage

__all__ = ["tell"]

FILE: Final = "group.yaml"
HOST: Final = "host04"
PODS: Final = ("llm-0", "llm-1", "llm-2")
OLD: Final = ("train-0", "train-1")
"""of an earlier story"""


async def tell(stage: Stage, page: Page) -> None:
    """Nothing is held while it waits; then all of it starts."""
    idle = stage.inspect(HOST).idle
    page.say(
        f"{idle} devices of {HOST} are idle: the training of story 2 still runs. A gang of {len(PODS)} pods comes, of "
        "which each wants two. A part of it would hold devices and compute nothing:"
    )
    page.words(manifest(FILE))
    blind = Blind([stage.inspect(HOST)])
    theirs = [chosen for chosen in (blind.place(2) for _ in PODS) if chosen.node]
    stage.apply(FILE)
    told = await stage.group("llm", "short")
    said = await stage.refused(PODS[0])
    waiting = [name for name in PODS if not stage.given(name).node]
    held = [pod for device in stage.inspect(HOST).devices for pod in device.pods if pod.name in PODS]
    page.sides(
        (
            ("pods started", f"{len(PODS) - len(waiting)} of {len(PODS)}", f"{len(theirs)} of {len(PODS)}"),
            ("held for nothing", f"{len(held)} devices", f"{sum(len(one.devices) for one in theirs)} devices"),
        )
    )
    heading, *lines = stage.lines(told)
    helpful = [("", line) for line in lines if line.startswith(("it needs", "it fits"))]
    page.quote((("event", said), ("explain", heading), *helpful))
    began = time.monotonic()
    stage.delete(*OLD)
    given = await stage.placed(*PODS)
    seconds = time.monotonic() - began
    whole = await stage.group("llm", "placed")
    page.say(f"Now the training ends: its two pods are deleted. {seconds:.2f} s later all three pods run:")
    page.quote(
        (
            ("explain", stage.lines(whole)[0]),
            *(("", f"{name}: {one.node} {devices_text(one.devices)}") for name, one in zip(PODS, given, strict=True)),
        )
    )
    taken = [index for one in given for index in one.devices]
    page.promises(
        ("while it waited none of its pods was started, and nothing was held", not held and len(waiting) == len(PODS)),
        ("it was told by how much it was short", any(need.fitting < need.members for need in told.needs)),
        ("it is placed whole, on six devices, each given once", len(set(taken)) == len(taken) == 6),
    )
