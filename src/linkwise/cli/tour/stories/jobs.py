"""Stories about jobs: a GPU fails under one, and a gang starts as a whole.

Source: seed 001, its interaction with gang scheduling.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.baseline import TopologyUnawareScheduler, fewest_nvlinks, link_kind, link_text, most_nvlinks
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import manifest
from linkwise.dialects.nvidia import RESOURCE
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.baseline import Placement
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import PodPlacement, Stage

__all__ = ["run_failure", "run_gang"]

FAILURE_FILE: Final = "failure.yaml"
NODES: Final = ("dgx-2", "pcie-1")
JOB: Final = "finetune"
GANG_FILE: Final = "gang.yaml"
NODE: Final = "dgx-1"
PODS: Final = ("llm-0", "llm-1", "llm-2")
EARLIER: Final = ("train-0", "train-1")
"""pods of the bandwidth story, which this one continues"""


async def run_failure(stage: Stage, page: Page) -> Score:
    """The job continues without anyone's help."""
    baseline_before = TopologyUnawareScheduler(map(stage.inspect, NODES)).place(2)
    await stage.apply(FAILURE_FILE)
    first = (await stage.wait_for(lambda: _running(stage), "a running pod of the job")).pop()
    before = stage.placement(first)
    node, failed = before.node, before.devices[-1]
    stage.fail_device(node, failed)
    await stage.wait_for(lambda: not stage.inspect(node).devices[failed].healthy, "the failure known to the service")
    await stage.wait_for(lambda: stage.event(node, "DeviceFailed"), "event DeviceFailed")
    await stage.wait_for(lambda: stage.phase(first) == "Failed", f"pod {first} failed")
    # A pod placed before the service learns of the failure is rejected by the node, and the job creates another.
    second = (await stage.wait_for(lambda: _running(stage) - {first}, "a replacement pod running")).pop()
    after = stage.placement(second)
    baseline = TopologyUnawareScheduler(map(stage.inspect, NODES), ignoring=(second,)).place(2)
    topology = stage.topology(after.node)
    ours, theirs = link_text(topology, after.devices), link_text(stage.topology(baseline.node), baseline.devices)
    page.headline(f"The job continues with {ours} ({BASELINE}: {theirs}).")
    page.say(
        f"A Job runs on two GPUs of {node} when GPU {failed} fails. Its pod fails too, and the Job creates another. NVLink "
        "is NVIDIA's direct link between GPUs. A pair with two NVLinks is called NV2 (96 GB/s in story 1), with one NV1 "
        "(48 GB/s); all other pairs use PCIe (about 16 GB/s), called PIX if they share a PCIe switch."
    )
    page.manifest_lines(manifest(FAILURE_FILE))
    page.compare(
        (
            ("first pod", _describe(stage, before), _describe(stage, baseline_before)),
            ("replacement", _describe(stage, after), _describe(stage, baseline)),
        )
    )
    allocatable = stage.node(node)["status"]["allocatable"][RESOURCE]
    healthy = sum(device.healthy for device in stage.inspect(node).devices)
    page.say("What the Kubernetes event, the node status and `linkwise explain` report:")
    page.quote(
        (
            ("event", f"{node}: {stage.event(node, 'DeviceFailed')}"),
            ("node", f"{node}: allocatable {RESOURCE}: {allocatable}"),
            ("explain", stage.explain_lines(await stage.explain_pod(first))[0]),
            ("", stage.explain_lines(await stage.explain_pod(second))[0]),
        )
    )
    users = [pod.name for device in stage.inspect(node).devices if not device.healthy for pod in device.pods]
    page.check(
        ("no pod holds the failed GPU", not users),
        (f"allocatable {RESOURCE} of {node} is the number of its healthy GPUs", int(allocatable) == healthy == 7),
        (f"the replacement has two GPUs, and GPU {failed} of {node} is not one of them", _avoids(after, node, failed)),
        (
            "no pair on either node has more NVLinks than the pair it got",
            fewest_nvlinks(topology, after.devices) == max(most_nvlinks(stage.topology(name)) for name in NODES),
        ),
    )
    return Score("link after failure", ours, theirs)


async def run_gang(stage: Stage, page: Page) -> Score:
    """The gang holds nothing while it is pending; then all of it starts."""
    free = stage.inspect(NODE).idle
    baseline = TopologyUnawareScheduler([stage.inspect(NODE)])
    started = [placement for placement in (baseline.place(2) for _ in PODS) if placement.node]
    await stage.apply(GANG_FILE)
    pending = await stage.wait_group("llm", "unschedulable")
    event = await stage.wait_event(PODS[0], "GroupDoesNotFit")
    waiting = [name for name in PODS if not stage.placement(name).node]
    occupied = [pod for device in stage.inspect(NODE).devices for pod in device.pods if pod.name in PODS]
    began = time.monotonic()
    stage.delete(*EARLIER)
    placements = await stage.wait_running(*PODS)
    seconds = time.monotonic() - began
    await stage.wait_group("llm", "placed")
    blocked = sum(len(placement.devices) for placement in started)
    page.headline(f"{len(occupied)} GPUs occupied while the gang is pending ({BASELINE}: {blocked}).")
    page.say(
        f"A gang is a set of pods that can only work together. This one has {len(PODS)} pods with two GPUs each, and "
        f"{NODE} has {free} free GPUs: the job of story 1 is still running. The topology-unaware scheduler does not know "
        "gangs and starts what fits; those pods occupy GPUs and compute nothing."
    )
    page.manifest_lines(manifest(GANG_FILE))
    page.compare(
        (
            ("pods started", f"{len(PODS) - len(waiting)} of {len(PODS)}", f"{len(started)} of {len(PODS)}"),
            ("GPUs occupied", str(len(occupied)), f"{blocked}, waiting for the rest of the gang"),
        )
    )
    heading, *lines = stage.explain_lines(pending)
    remedy = [line for line in lines if all(name in line for name in EARLIER)]
    page.quote((("event", event), ("explain", heading), *(("", line) for line in remedy[:1])))
    page.say(f"Now the pods of story 1 are deleted. {seconds:.2f} s later the gang runs:")
    page.quote((name, f"{pod.node} {devices_text(pod.devices)}") for name, pod in zip(PODS, placements, strict=True))
    devices = [index for pod in placements for index in pod.devices]
    page.check(
        (
            "while pending, none of its pods was started and none occupied a GPU",
            not occupied and len(waiting) == len(PODS),
        ),
        ("explain names the pods that have to finish first", bool(remedy)),
        ("explain knows how many of its pods fit", any(need.fitting < need.members for need in pending.needs)),
        ("all its pods run, on six different GPUs", len(set(devices)) == len(devices) == 6),
    )
    return Score("GPUs kept idle", str(len(occupied)), str(blocked))


def _running(stage: Stage) -> set[str]:
    return {name for name in stage.pod_names(JOB) if stage.phase(name) == "Running"}


def _describe(stage: Stage, placement: PodPlacement | Placement) -> str:
    topology = stage.topology(placement.node)
    link = f"{link_text(topology, placement.devices)} ({link_kind(topology, placement.devices)})"
    return f"{placement.node} {devices_text(placement.devices)}  {link}"


def _avoids(after: PodPlacement, node: str, failed: int) -> bool:
    return len(after.devices) == 2 and (after.node != node or failed not in after.devices)
