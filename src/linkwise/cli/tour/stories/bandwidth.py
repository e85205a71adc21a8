"""A training of two pods on a machine that was measured: its slowest pair counts.

Source: seed 001, motivation and story 2.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.render.matrix import Marks, bandwidth_table
from linkwise.cli.tour.link_blind import Blind, bottleneck
from linkwise.cli.tour.stage import manifest
from linkwise.dialects.koordinator.dialect import TOPOLOGY
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.fabric import NEAR, fabric_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage
    from linkwise.model.topology import Topology

__all__ = ["tell"]

FILE: Final = "bandwidth.yaml"
HOST: Final = "host04"
PODS: Final = ("train-0", "train-1")


async def tell(stage: Stage, page: Page) -> None:
    """Four devices of one node whose slowest pair is as fast as can be, divided well between the pods."""
    stage.apply(FILE, "notebook")
    (notebook,) = await stage.placed("notebook")
    page.say(
        f"On {HOST} the speed between every two devices was measured, in GB/s. A training is as fast as its slowest "
        f"pair. A notebook has device {notebook.devices[0]} already; now two pods come that belong together:"
    )
    page.words(manifest(FILE))
    free = [device.index for device in stage.inspect(HOST).devices if not device.pods]
    blind = Blind([stage.inspect(HOST)])
    stage.apply(FILE, *PODS)
    given = await stage.placed(*PODS)
    topology = stage.topology(HOST)
    ours, theirs = [pod.devices for pod in given], [blind.place(2).devices for _ in PODS]
    own = _joined(ours)
    fabric = fabric_of(topology.bandwidth, topology.links)
    page.show(bandwidth_table(fabric.values, Marks(own, free), fabric.suspects, page.width))
    page.show(Text("* chosen, - taken; ? one direction was not believed", "dim"))
    page.sides(_rows(topology, ours, theirs))
    group = stage.lines(await stage.group("train", "placed"))
    record = given[0].annotations.get(TOPOLOGY, "")
    page.quote((("explain", group[0]), ("record", f"{TOPOLOGY}: {record}")))
    best = max(bottleneck(topology, four) for four in combinations(free, 4))
    slowest = bottleneck(topology, own)
    page.promises(
        ("both pods are on one node", {pod.node for pod in given} == {HOST}),
        (
            f"no four free devices are faster by more than {100 * (1 - NEAR):.0f} %: {best:g} GB/s at best",
            slowest >= NEAR * best,
        ),
        ("the slowest pair is faster than the blind one's", slowest > bottleneck(topology, _joined(theirs))),
        ("Koordinator's own record names the same devices", _recorded(record) == ours[0]),
    )


def _rows(topology: Topology, ours: Sequence[tuple[int, ...]], theirs: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """All four devices, and those of each pod, with their slowest pairs."""
    both = ((_joined(ours), *ours), (_joined(theirs), *theirs))
    cells = [[f"{devices_text(own)}  {bottleneck(topology, own):g} GB/s" for own in side] for side in both]
    return [list(row) for row in zip(("all four", *PODS), *cells, strict=True)]


def _joined(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(index for part in parts for index in part))


def _recorded(text: str) -> tuple[int, ...]:
    lists = json.loads(text or "{}").get("allocatedGPUs", {}).values()
    return tuple(sorted(int(index) for indices in lists for index in indices))
