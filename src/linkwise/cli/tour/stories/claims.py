"""Story about Dynamic Resource Allocation: the devices of a claim, by first fit and by plan.

Both pods run on the cluster: the scheduler of the embedded cluster takes the first devices that fit, as kube-scheduler does.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.baseline import bottleneck
from linkwise.cli.tour.page import Score
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text
from linkwise.topology.fabric import NEAR

if TYPE_CHECKING:
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage

__all__ = ["run_claims"]

FILE: Final = "claims.yaml"
NODE: Final = "dgx-4"
NOTEBOOK, FIRST_FIT, PLANNED = "notebook-2", "first-fit", "planned"
RESOURCE: Final = "nvidia.com/gpu"


async def run_claims(stage: Stage, page: Page) -> Score:
    """Four GPUs of a node without a device plugin, allocated twice."""
    for each in (NOTEBOOK, FIRST_FIT):
        await stage.apply(FILE, each)
        await stage.wait_running(each)
    (_, used), (_, theirs) = stage.claimed(NOTEBOOK), stage.claimed(FIRST_FIT)
    await stage.deleted(FIRST_FIT)
    await stage.apply(FILE, PLANNED)
    await stage.wait_running(PLANNED)
    name, ours = stage.claimed(PLANNED)
    topology = stage.topology(NODE)
    free = [device.index for device in stage.inspect(NODE).devices if device.index not in used]
    fast, slow = bottleneck(topology, ours), bottleneck(topology, theirs)
    best = max(bottleneck(topology, four) for four in combinations(free, 4))
    page.headline(f"{fast / slow:.1f}x faster slowest link: {fast:g} GB/s (first fit: {slow:g} GB/s).")
    page.say(
        f"{NODE} has a DRA driver instead of a device plugin: its GPUs are published in a ResourceSlice, and its DeviceClass "
        f"serves {RESOURCE}. kube-scheduler allocates them by ResourceClaims: the first that fit, as it knows no links. The same "
        f"request arrives twice, while GPU {used[0]} is in use. The first pod opts out of Linkwise's plans:"
    )
    page.manifest_lines(manifest(FILE))
    page.compare(
        (
            ("GPUs", devices_text(ours), f"{devices_text(theirs)}, the first that fit"),
            ("slowest link", f"{fast:g} GB/s", f"{slow:g} GB/s"),
        ),
        other="first fit",
    )
    page.say(
        "Linkwise moves the request of the second pod to a claim, plans the devices, and writes the claim with their UUIDs; "
        f"kube-scheduler allocates exactly these. `kubectl get resourceclaim {name} -o yaml` shows both."
    )
    allocatable = stage.node(NODE)["status"]["allocatable"]
    page.check(
        ("the node has no GPUs in its allocatable", RESOURCE not in allocatable),
        ("the claim has exactly the four planned GPUs", len(ours) == 4 and stage.planned(name) == ours),
        (
            f"the slowest link is {fast / best:.0%} of the best possible here (required: {NEAR:.0%})",
            fast >= NEAR * best,
        ),
        ("the slowest link is faster than by first fit", fast > slow),
    )
    return Score("slowest link", f"{fast:.0f} GB/s ({fast / slow:.1f}x)", f"{slow:.0f} GB/s")
