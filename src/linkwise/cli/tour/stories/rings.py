"""Story: Volcano Jobs on Ascend 910 nodes, whose chips are in two rings: a faulty chip, an invalid request, a large job.

Source: seed 003, affinity rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.tour.baseline import TopologyUnawareScheduler, is_in_one_ring
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import FAULTY, manifest
from linkwise.engine.reasons.catalog import devices_text
from linkwise.views.nodes import rings_of

if TYPE_CHECKING:
    from linkwise.cli.tour.baseline import Placement
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import PodPlacement, Stage

__all__ = ["run"]

FILE: Final = "rings.yaml"
NODES: Final = ("atlas-1", "atlas-2")
LARGE_NODES: Final = ("atlas-3", "atlas-4")
REQUESTS: Final = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 4}
"""chips by job"""
LARGE: Final = "g"
"""a job of two pods with eight chips each"""


async def run(stage: Stage, page: Page) -> Score:
    """Chips of one ring, rings filled one after the other, the healthy node first; never three chips."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, NODES))
    rows: list[tuple[str, str, Text]] = []
    ours: list[PodPlacement] = []
    theirs_valid: list[bool] = []
    for name, count in REQUESTS.items():
        await stage.apply(FILE, name)
        ours += await stage.wait_running(_pod(name))
        theirs = baseline.place(count)
        theirs_valid.append(not theirs.node or is_in_one_ring(stage.inventory(theirs.node), theirs.devices))
        chips = f"{name}, {count} chip{'' if count == 1 else 's'}"
        rows.append((chips, _describe(stage, ours[-1]), _describe_baseline(theirs, valid=theirs_valid[-1])))
    refusal = await stage.refused(FILE, "three")
    other = TopologyUnawareScheduler(map(stage.inspect, LARGE_NODES))
    unaware = " and ".join(other.place(8).node for _ in LARGE_NODES)
    await stage.apply(FILE, LARGE)
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
    page.manifest_lines(manifest(FILE))
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
