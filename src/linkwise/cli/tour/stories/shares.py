"""Stories about free space: several pods on one GPU, and small pods that leave space for a larger one.

Source: seed 004, figures 2 and 3.

Source: seed 002, the second case of its scheduling section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from linkwise.cli.render.pages import text_of
from linkwise.cli.tour.baseline import TopologyUnawareScheduler, nodes_by_free_memory
from linkwise.cli.tour.page import BASELINE, Score, plain_table
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text
from linkwise.views.blocks import bar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from linkwise.cli.tour.baseline import Placement
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import PodPlacement, Stage
    from linkwise.explain.inspect import NodeInspection

__all__ = ["run_cards", "run_packing"]

EARLIER, CARDS_FILE = "cards-before.yaml", "cards.yaml"
TEAM_A: Final = ("share-1", "share-2", "share-3")
TEAM_B: Final = ("share-4",)
REQUEST: Final = 8138  # MiB
EARLIER_PODS: Final = 9
PACKING_FILE: Final = "packing.yaml"
NODES: Final = ("desk-1", "desk-2", "desk-3")
SMALL: Final = ("one-1", "one-2", "one-3")


async def run_cards(stage: Stage, page: Page) -> Score:
    """Team A: three nodes, one of them with enough on one GPU. Team B: four GPUs, one of which fits best."""
    stage.restore(EARLIER)
    await stage.wait_for(lambda: _count_pods(stage) == EARLIER_PODS, "the earlier pods counted by the service")
    team_a, team_b = [stage.inspect(name) for name in TEAM_A], [stage.inspect(name) for name in TEAM_B]
    theirs = [_Baseline(nodes) for nodes in (team_a, team_b)]
    await stage.apply(CARDS_FILE, "serve-a1", "serve-b1")
    first, second = await stage.wait_running("serve-a1", "serve-b1")
    await stage.apply(CARDS_FILE, "serve-a2")
    event = await stage.wait_event("serve-a2", "FailedScheduling")
    lines = stage.explain_lines(await stage.explain_pod("serve-a2"))
    why = next((line for line in lines if any(name in line for name in TEAM_A)), "")
    fitting = [_fits(stage, pod) for pod in (first, second)]
    starts, baseline_starts = fitting.count(True), [each.starts for each in theirs].count(True)
    page.headline(f"{starts} of 2 pods get a GPU with enough free memory ({BASELINE}: {baseline_starts} of 2).")
    page.say(
        f"With gpushare, pods share a GPU: each requests a share, an amount of the {team_b[0].devices[0].memory} MiB of "
        f"one GPU. gpushare's own scheduler has placed {EARLIER_PODS} pods already; Linkwise reads its annotations. "
        "serve-a1 belongs to team A and may only use share-1 to share-3, serve-b1 to team B with share-4. Both request "
        "half a GPU; then serve-a2 of team A requests the same."
    )
    page.manifest_lines(manifest(EARLIER) + manifest(CARDS_FILE))
    page.show(_gpu_table([*team_a, *team_b], {"serve-a1": first, "serve-b1": second}))
    page.compare((("serve-a1", _where(first), theirs[0].text), ("serve-b1", _where(second), theirs[1].text)), "pod")
    page.quote((("event", event), ("explain", why)))
    page.check(
        ("serve-a1 is on share-3, the only node of team A with enough on one GPU", _is(first, "share-3", 0)),
        ("serve-b1 has the fullest of the three GPUs that fit, GPU 1", _is(second, "share-4", 1)),
        (
            "serve-a2 is pending, and explain states how much is free on the closest GPU",
            not stage.placement("serve-a2").node and "4069" in why and str(REQUEST) in why,
        ),
    )
    return Score("pods that start", f"{starts} of 2", f"{baseline_starts} of 2")


class _Baseline:
    """Topology-unaware choice for one pod: a node by its total, and there the first GPU with enough free memory."""

    def __init__(self, nodes: Sequence[NodeInspection]) -> None:
        tied = nodes_by_free_memory(nodes, REQUEST)
        self.starts = False
        self.text = "pending"
        if not tied:
            return
        node, others = tied[0], tied[1:]
        tie = f" (tied with {', '.join(other.name for other in others)})" if others else ""
        gpu = next((device for device in node.devices if device.room >= REQUEST), None)
        self.starts = gpu is not None
        if gpu:
            self.text = f"{node.name}{tie}, GPU {gpu.index}: the first that fits"
        else:
            self.text = f"{node.name}{tie}: can't start"


async def run_packing(stage: Stage, page: Page) -> Score:
    """Nodes in use are filled first."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, NODES))
    rows = []
    for name in SMALL:
        await stage.apply(PACKING_FILE, name)
        (pod,) = await stage.wait_running(name)
        rows.append((name, _devices_on(pod), _devices_on(baseline.place(1))))
    free = [stage.inspect(name).idle for name in NODES]
    baseline_free = [len(baseline.free[name]) for name in NODES]
    await stage.apply(PACKING_FILE, "pair")
    (pair,) = await stage.wait_running("pair")
    theirs = baseline.place(2)
    rows.append(("GPUs free", ", ".join(map(str, free)), ", ".join(map(str, baseline_free))))
    pending = f"pending, with {sum(baseline_free)} GPUs free"
    rows.append(("pair", _devices_on(pair), _devices_on(theirs) if theirs.node else pending))
    page.headline(f"The pod with two GPUs runs ({BASELINE}: {'runs' if theirs.node else pending}).")
    page.say(
        "Three nodes have two GPUs each. Three pods with one GPU arrive one after the other, then a pod that needs two "
        "GPUs of one node. kube-scheduler spreads pods by default; Linkwise fills nodes that are already in use:"
    )
    page.manifest_lines(manifest(PACKING_FILE))
    page.compare(rows, "pod")
    page.check(
        ("the pod with two GPUs runs, on one node", len(pair.devices) == 2),
        ("spread out, the same pods leave no node with two free GPUs, though three GPUs are free", not theirs.node),
    )
    return Score("pod with two GPUs", "runs" if pair.node else "pending", "runs" if theirs.node else "pending")


def _count_pods(stage: Stage) -> int:
    return sum(len(device.pods) for name in (*TEAM_A, *TEAM_B) for device in stage.inspect(name).devices)


def _fits(stage: Stage, pod: PodPlacement) -> bool:
    """Whether the pods on its GPU use no more memory than the GPU has."""
    devices = stage.inspect(pod.node).devices
    return len(pod.devices) == 1 and all(devices[index].share <= devices[index].memory for index in pod.devices)


def _gpu_table(nodes: Sequence[NodeInspection], placements: Mapping[str, PodPlacement]) -> Table:
    """One row per GPU as it was before; a star where a pod was placed."""
    table = plain_table("node", "GPU", "used before", "MiB free", "")
    table.columns[3].justify = "right"
    pods = {(pod.node, index): name for name, pod in placements.items() for index in pod.devices}
    for node in nodes:
        for device in node.devices:
            name = pods.get((node.name, device.index), "")
            used = text_of(bar(device.share / device.memory))
            star = Text(f"* {name}" if name else "", "bold green")
            table.add_row(node.name if not device.index else "", str(device.index), used, str(device.room), star)
    return table


def _where(pod: PodPlacement) -> str:
    return f"{pod.node}, GPU {', '.join(map(str, pod.devices))}"


def _is(pod: PodPlacement, node: str, gpu: int) -> bool:
    return (pod.node, pod.devices) == (node, (gpu,))


def _devices_on(pod: PodPlacement | Placement) -> str:
    return f"{pod.node} {devices_text(pod.devices)}"
