"""Stories about links: NVLinks of two pods and of two nodes, and rings of NPUs.

Source: seed 001, motivation and story 2.

Source: seed 000, story 1.

Source: seed 003, affinity rules.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from linkwise.cli.render.matrix import Marks, bandwidth_table
from linkwise.cli.tour.baseline import (
    TopologyUnawareScheduler,
    bottleneck,
    fewest_nvlinks,
    is_in_one_ring,
    link_kind,
    link_text,
    most_nvlinks,
)
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import FAULTY, manifest
from linkwise.dialects.koordinator.dialect import TOPOLOGY
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.fabric import NEAR, fabric_of
from linkwise.views.nodes import rings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from linkwise.cli.tour.baseline import Placement
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import PodPlacement, Stage
    from linkwise.model.topology import Topology

__all__ = ["run_bandwidth", "run_links", "run_rings"]

BANDWIDTH_FILE: Final = "bandwidth.yaml"
NODE: Final = "dgx-1"
PODS: Final = ("train-0", "train-1")
MATRIX_WIDTH: Final = 40
"""columns; leaves the bandwidth matrix whole numbers, in which the three classes of links stand out"""
LINKS_FILE: Final = "links.yaml"
LINKED, PLAIN = "dgx-3", "pcie-2"
RINGS_FILE: Final = "rings.yaml"
NODES: Final = ("atlas-1", "atlas-2")
LARGE_NODES: Final = ("atlas-3", "atlas-4")
REQUESTS: Final = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 4}
"""chips by job"""
LARGE: Final = "g"
"""a job of two pods with eight chips each"""


async def run_bandwidth(stage: Stage, page: Page) -> Score:
    """Four GPUs of one node with the best possible bottleneck, divided well between the pods."""
    await stage.apply(BANDWIDTH_FILE, "notebook")
    (notebook,) = await stage.wait_running("notebook")
    free = [device.index for device in stage.inspect(NODE).devices if not device.pods]
    baseline = TopologyUnawareScheduler([stage.inspect(NODE)])
    await stage.apply(BANDWIDTH_FILE, *PODS)
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
    page.manifest_lines(manifest(BANDWIDTH_FILE))
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


async def run_links(stage: Stage, page: Page) -> Score:
    """The node with NVLink, and there a pair with two of them."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, (LINKED, PLAIN))).place(2)
    await stage.apply(LINKS_FILE)
    (pod,) = await stage.wait_running("trainer")
    topology, theirs = stage.topology(pod.node), [stage.topology(name) for name in baseline.tied]
    link = link_text(topology, pod.devices)
    kinds = [f"{link_text(each, baseline.devices)} ({link_kind(each, baseline.devices)})" for each in theirs]
    page.headline(f"{link} between the GPUs of the pod ({BASELINE}: {_either(theirs, baseline.devices)}).")
    page.say(
        f"{LINKED} and {PLAIN} have {len(stage.inspect(LINKED).devices)} V100 GPUs each. On {LINKED} a pair has two "
        f"NVLinks, one, or none; on {PLAIN} all pairs use PCIe. A pod requests two GPUs and specifies nothing else:"
    )
    page.manifest_lines(manifest(LINKS_FILE))
    page.compare(
        (
            ("node", pod.node, f"{' or '.join(baseline.tied)}, equally free"),
            ("GPUs", devices_text(pod.devices), f"{devices_text(baseline.devices)}, the lowest numbers"),
            ("link", f"{link} ({link_kind(topology, pod.devices)})", " or ".join(kinds)),
        )
    )
    page.say(
        "NVIDIA's device plugin can prefer a better pair on the node it runs on; it has no influence on which node that "
        "is. `linkwise explain pod/trainer` prints what Linkwise compared."
    )
    page.check(
        (f"the pod is on {LINKED}", pod.node == LINKED),
        (
            "no pair on either node has more NVLinks",
            fewest_nvlinks(topology, pod.devices)
            == max(most_nvlinks(stage.topology(name)) for name in (LINKED, PLAIN)),
        ),
        (
            "its pair has more NVLinks than the topology-unaware choice, on either node",
            fewest_nvlinks(topology, pod.devices) > max(fewest_nvlinks(each, baseline.devices) for each in theirs),
        ),
    )
    return Score("link of the pod", link, _either(theirs, baseline.devices))


async def run_rings(stage: Stage, page: Page) -> Score:
    """Chips of one ring, rings filled one after the other, the healthy node first; never three chips."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, NODES))
    rows: list[tuple[str, str, Text]] = []
    ours: list[PodPlacement] = []
    theirs_valid: list[bool] = []
    for name, count in REQUESTS.items():
        await stage.apply(RINGS_FILE, name)
        ours += await stage.wait_running(_pod(name))
        theirs = baseline.place(count)
        theirs_valid.append(not theirs.node or is_in_one_ring(stage.inventory(theirs.node), theirs.devices))
        chips = f"{name}, {count} chip{'' if count == 1 else 's'}"
        rows.append((chips, _describe(stage, ours[-1]), _describe_baseline(theirs, valid=theirs_valid[-1])))
    refusal = await stage.refused(RINGS_FILE, "three")
    other = TopologyUnawareScheduler(map(stage.inspect, LARGE_NODES))
    unaware = " and ".join(other.place(8).node for _ in LARGE_NODES)
    await stage.apply(RINGS_FILE, LARGE)
    whole = await stage.wait_running(_pod(LARGE), _pod(LARGE, 1))
    job = await stage.wait_job(LARGE, "Running")
    _, explained, *_ = stage.explain_lines(await stage.wait_group(stage.pod_group(LARGE), "placed"))
    nodes = " and ".join(pod.node for pod in whole)
    rows.append((f"{LARGE}, 16 chips", f"{nodes}, all chips", Text(f"{unaware}, all chips")))
    ours_valid = [is_in_one_ring(stage.inventory(pod.node), pod.devices) for pod in ours]
    split, baseline_split, total = ours_valid.count(False), theirs_valid.count(False), len(REQUESTS)
    rings = " and ".join(map(devices_text, rings_of(stage.inventory(NODES[0]))))
    node, chip = FAULTY
    page.headline(f"{split} of {total} pods split over two rings ({BASELINE}: {baseline_split} of {total}).")
    page.say(
        f"An Ascend 910 node has eight chips (NPUs) in two rings of four, {rings}. Huawei's fast link, HCCS, connects the "
        "chips of a ring, not the rings. So a pod with 1, 2 or 4 chips fails unless all of them are in one ring; a pod "
        f"with 8 chips uses both rings completely. Chip {chip} of {node} is faulty. Users of Ascend chips write Volcano "
        "Jobs; this cluster plays Volcano's controllers and scheduler. Six Jobs of one pod arrive one after the other, "
        "then one that requests three chips and one that needs two nodes:"
    )
    page.manifest_lines(manifest(RINGS_FILE))
    page.compare(rows, "job")
    page.quote((("kubectl", f"Error from server: {refusal}"), ("explain", f"job {LARGE}: {explained}")))
    faulty = stage.inspect(node).devices[chip]
    page.check(
        ("every pod has chips of one ring", all(ours_valid)),
        (f"the topology-unaware scheduler splits {baseline_split} pods over two rings", not all(theirs_valid)),
        (
            "the healthy node is filled first, and the pod with 4 chips still finds a complete ring",
            [pod.node for pod in ours] == [NODES[0]] * 5 + [NODES[1]],
        ),
        ("no pod holds the faulty chip", not faulty.healthy and not faulty.pods),
        ("the Job with three chips is refused at once, with the valid numbers", "1, 2, 4 or 8" in refusal),
        (
            "the job with 16 chips starts whole: eight chips on each of two nodes",
            sorted(pod.node for pod in whole) == list(LARGE_NODES)
            and all(len(pod.devices) == 8 for pod in whole)
            and job["status"]["running"] == len(whole),
        ),
    )
    return Score("pods across rings", f"{split} of {total}", f"{baseline_split} of {total}")


def _union(sets: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(index for devices in sets for index in devices))


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


def _either(topologies: Sequence[Topology], devices: Sequence[int]) -> str:
    """The links of the same devices on nodes that are equal to the topology-unaware scheduler."""
    return " or ".join(link_text(topology, devices).removesuffix(" only") for topology in topologies)


def _pod(job: str, index: int = 0) -> str:
    """The name of a pod of a job."""
    return f"{job}-train-{index}"


def _describe(stage: Stage, pod: PodPlacement) -> str:
    """Node and chips, and what they leave free in their ring."""
    free = {device.index for device in stage.inspect(pod.node).devices if device.healthy and not device.pods}
    for number, ring in enumerate(rings_of(stage.inventory(pod.node))):
        if set(pod.devices) <= set(ring):
            left = len(free & set(ring))
            return f"{pod.node} {devices_text(pod.devices)}  ring {number} {f'has {left} left' if left else 'is full'}"
    return f"{pod.node} {devices_text(pod.devices)}  SPLIT"


def _describe_baseline(placement: Placement, *, valid: bool) -> Text:
    if not placement.node:
        return Text("pending")
    text = Text(f"{placement.node} {devices_text(placement.devices)}")
    return text if valid else text.append("  SPLIT", "bold red")
