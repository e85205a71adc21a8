"""Story: a training job of two pods on a node with measured bandwidth; its slowest pair of GPUs counts.

Source: seed 001, motivation and story 2.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from linkwise.cli.render.matrix import Marks, bandwidth_table
from linkwise.cli.tour.baseline import TopologyUnawareScheduler, bottleneck
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import manifest
from linkwise.dialects.koordinator.dialect import TOPOLOGY
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.fabric import NEAR, fabric_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage
    from linkwise.model.topology import Topology

__all__ = ["run"]

FILE: Final = "bandwidth.yaml"
NODE: Final = "dgx-1"
PODS: Final = ("train-0", "train-1")
MATRIX_WIDTH: Final = 40
"""columns; leaves the bandwidth matrix whole numbers, in which the three classes of links stand out"""


async def run(stage: Stage, page: Page) -> Score:
    """Four GPUs of one node with the best possible bottleneck, divided well between the pods."""
    await stage.apply(FILE, "notebook")
    (notebook,) = await stage.wait_running("notebook")
    free = [device.index for device in stage.inspect(NODE).devices if not device.pods]
    baseline = TopologyUnawareScheduler([stage.inspect(NODE)])
    await stage.apply(FILE, *PODS)
    placements = await stage.wait_running(*PODS)
    topology = stage.topology(NODE)
    ours, theirs = [pod.devices for pod in placements], [baseline.place(2).devices for _ in PODS]
    fast, slow = bottleneck(topology, _union(ours)), bottleneck(topology, _union(theirs))
    best = max(bottleneck(topology, four) for four in combinations(free, 4))
    page.headline(f"{fast / slow:.1f}x faster slowest link: {fast:g} GB/s ({BASELINE}: {slow:g} GB/s).")
    page.say(
        f"Two pods of one training job request two GPUs each on {NODE}; GPU {notebook.devices[0]} is in use by a "
        "notebook. Every training step waits for the slowest link between any two of the four GPUs, the bottleneck. "
        "Two labels, in the API of Koordinator, tell Linkwise that the pods belong together:"
    )
    page.manifest_lines(manifest(FILE))
    page.show(Text("GB/s between each pair of GPUs, measured on a DGX-1 (* chosen, - in use):", "dim"))
    page.show(_matrix(topology, Marks(_union(ours), free)))
    page.compare(_rows(topology, ours, theirs))
    page.say(
        "The node agent lets each container see the GPUs of both pods, so that they can copy directly from GPU to GPU, and "
        f"use its own. In the container of {PODS[0]}:"
    )
    page.show(_variables(stage.environment(PODS[0])))
    page.check(
        ("both pods run on one node", {pod.node for pod in placements} == {NODE}),
        (
            f"the bottleneck is {fast / best:.0%} of the best possible here (required: {NEAR:.0%})",
            fast >= NEAR * best,
        ),
        ("the bottleneck is faster than that of the topology-unaware scheduler", fast > slow),
        (
            "the annotation of each pod names its own GPUs, and all four as visible",
            [_recorded(pod.annotations.get(TOPOLOGY, "")) for pod in placements]
            == [(own, _union(ours)) for own in ours],
        ),
        (
            "each container sees all four GPUs and uses its own",
            [_in_container(stage, name) for name in PODS] == [(own, _union(ours)) for own in ours],
        ),
    )
    return Score("slowest link", f"{fast:.0f} GB/s ({fast / slow:.1f}x)", f"{slow:.0f} GB/s")


def _matrix(topology: Topology, marks: Marks) -> RenderableType:
    """Bandwidth as decisions use it: implausible samples are cleaned, and which ones is a subject of `linkwise topo`."""
    fabric = fabric_of(topology.bandwidth, topology.links)
    return bandwidth_table(fabric.values, marks, (), MATRIX_WIDTH)


def _rows(topology: Topology, ours: Sequence[tuple[int, ...]], theirs: Sequence[tuple[int, ...]]) -> list[list[str]]:
    """The slowest pair of all four GPUs, and of each pod's own."""
    sets = ((_union(ours), *ours), (_union(theirs), *theirs))
    cells = [[f"{devices_text(own)}  {bottleneck(topology, own):g} GB/s" for own in side] for side in sets]
    return [list(row) for row in zip(("all four GPUs", *PODS), *cells, strict=True)]


def _variables(environment: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, value in environment.items():
        table.add_row(Text(name, "cyan"), Text(value.replace(",", ", ")))
    return table


def _union(sets: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(index for devices in sets for index in devices))


def _recorded(annotation: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A pod's own GPUs, and those that it may see."""
    record = json.loads(annotation or "{}")
    own = [index for indices in record.get("allocatedGPUs", {}).values() for index in indices]
    return tuple(sorted(map(int, own))), tuple(map(int, record.get("visibleGPUs", [])))


def _in_container(stage: Stage, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The GPUs that a pod's container uses, and those that it sees."""
    index = {device.id: device.index for device in stage.inspect(NODE).devices}
    variables = stage.environment(name)
    own, seen = (variables.get(key, "").split(",") for key in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
    return tuple(sorted(index.get(device, -1) for device in own)), tuple(sorted(index.get(each, -1) for each in seen))
