"""Story: pods with one GPU are packed, so that a pod with two still finds a node.

Source: seed 002, the second case of its scheduling section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.baseline import TopologyUnawareScheduler
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.baseline import Placement
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import PodPlacement, Stage

__all__ = ["run"]

FILE: Final = "packing.yaml"
NODES: Final = ("desk-1", "desk-2", "desk-3")
SMALL: Final = ("one-1", "one-2", "one-3")


async def run(stage: Stage, page: Page) -> Score:
    """Nodes in use are filled first."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, NODES))
    rows = []
    for name in SMALL:
        await stage.apply(FILE, name)
        (pod,) = await stage.wait_running(name)
        rows.append((name, _where(pod), _where(baseline.place(1))))
    free = [stage.inspect(name).idle for name in NODES]
    baseline_free = [len(baseline.free[name]) for name in NODES]
    await stage.apply(FILE, "pair")
    (pair,) = await stage.wait_running("pair")
    theirs = baseline.place(2)
    rows.append(("GPUs free", ", ".join(map(str, free)), ", ".join(map(str, baseline_free))))
    pending = f"pending, with {sum(baseline_free)} GPUs free"
    rows.append(("pair", _where(pair), _where(theirs) if theirs.node else pending))
    page.headline(f"The pod with two GPUs runs ({BASELINE}: {'runs' if theirs.node else pending}).")
    page.say(
        "Three nodes have two GPUs each. Three pods with one GPU arrive one after the other, then a pod that needs two "
        "GPUs of one node. kube-scheduler spreads pods by default; Linkwise fills nodes that are already in use:"
    )
    page.manifest_lines(manifest(FILE))
    page.compare(rows, "pod")
    page.check(
        ("the pod with two GPUs runs, on one node", len(pair.devices) == 2),
        ("spread out, the same pods leave no node with two free GPUs, though three GPUs are free", not theirs.node),
    )
    return Score("pod with two GPUs", "runs" if pair.node else "pending", "runs" if theirs.node else "pending")


def _where(pod: PodPlacement | Placement) -> str:
    return f"{pod.node} {devices_text(pod.devices)}"
