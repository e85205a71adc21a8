"""Story: a pod that requests two GPUs, and two nodes of which one has NVLink.

Source: seed 000, story 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.baseline import TopologyUnawareScheduler, fewest_nvlinks, link_kind, link_text, most_nvlinks
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage
    from linkwise.model.topology import Topology

__all__ = ["run"]

FILE: Final = "links.yaml"
LINKED, PLAIN = "dgx-3", "pcie-2"


async def run(stage: Stage, page: Page) -> Score:
    """The node with NVLink, and there a pair with two of them."""
    baseline = TopologyUnawareScheduler(map(stage.inspect, (LINKED, PLAIN))).place(2)
    await stage.apply(FILE)
    (pod,) = await stage.wait_running("trainer")
    topology, theirs = stage.topology(pod.node), [stage.topology(name) for name in baseline.tied]
    link = link_text(topology, pod.devices)
    kinds = [f"{link_text(each, baseline.devices)} ({link_kind(each, baseline.devices)})" for each in theirs]
    page.headline(f"{link} between the GPUs of the pod ({BASELINE}: {_either(theirs, baseline.devices)}).")
    page.say(
        f"{LINKED} and {PLAIN} have {len(stage.inspect(LINKED).devices)} V100 GPUs each. On {LINKED} a pair has two "
        f"NVLinks, one, or none; on {PLAIN} all pairs use PCIe. A pod requests two GPUs and specifies nothing else:"
    )
    page.manifest_lines(manifest(FILE))
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


def _either(topologies: Sequence[Topology], devices: Sequence[int]) -> str:
    """The links of the same devices on nodes that are equal to the topology-unaware scheduler."""
    return " or ".join(link_text(topology, devices).removesuffix(" only") for topology in topologies)
