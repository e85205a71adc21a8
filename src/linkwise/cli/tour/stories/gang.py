"""Story: a gang that does not fit is pending as one, and starts as one when devices are free.

Source: seed 001, its interaction with gang scheduling.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.baseline import TopologyUnawareScheduler
from linkwise.cli.tour.page import BASELINE, Score
from linkwise.cli.tour.stage import manifest
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Stage

__all__ = ["run"]

FILE: Final = "gang.yaml"
NODE: Final = "dgx-1"
PODS: Final = ("llm-0", "llm-1", "llm-2")
EARLIER: Final = ("train-0", "train-1")
"""pods of the bandwidth story, which this one continues"""


async def run(stage: Stage, page: Page) -> Score:
    """The gang holds nothing while it is pending; then all of it starts."""
    free = stage.inspect(NODE).idle
    baseline = TopologyUnawareScheduler([stage.inspect(NODE)])
    started = [placement for placement in (baseline.place(2) for _ in PODS) if placement.node]
    await stage.apply(FILE)
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
    page.manifest_lines(manifest(FILE))
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
