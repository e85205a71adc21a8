"""A device dies under a job: its pod fails, and the next one keeps away from that device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.cli.tour.link_blind import Blind, link_names, points
from linkwise.cli.tour.stage import manifest
from linkwise.dialects.nvidia.dialect import RESOURCE
from linkwise.engine.reasons.catalog import devices_text

if TYPE_CHECKING:
    from linkwise.cli.tour.link_blind import Chosen
    from linkwise.cli.tour.page import Page
    from linkwise.cli.tour.stage import Given, Stage

__all__ = ["tell"]

FILE: Final = "death.yaml"
NODES: Final = ("node-1", "node-2")
JOB: Final = "finetune"


async def tell(stage: Stage, page: Page) -> None:
    """Nobody does anything, and the job goes on."""
    page.say("A job runs on two devices of node-1. One of them dies, and the containers that use it die with it:")
    page.words(manifest(FILE))
    stage.apply(FILE)
    first = (await stage.until(lambda: _running(stage), "a pod of the job runs")).pop()
    before = stage.given(first)
    dead = before.devices[-1]
    stage.kill_device(before.node, dead)
    await stage.until(lambda: not stage.inspect(before.node).devices[dead].healthy, "the service knows of the death")
    await stage.until(lambda: stage.event(before.node, "DeviceFailed"), "the death is told")
    await stage.until(lambda: stage.phase(first) == "Failed", f"{first} has failed")
    # A pod that was placed before the service heard of the death is refused by the node, and the job makes another.
    second = (await stage.until(lambda: _running(stage) - {first}, "another pod of the job runs")).pop()
    after = stage.given(second)
    ended = stage.lines(await stage.explained(first))[0]
    _follows(stage, page, before, (first, dead, ended))
    blind = Blind(map(stage.inspect, NODES), without=(second,)).place(2)
    page.sides(
        (
            ("before", _set(stage, before), ""),
            ("the new pod", _set(stage, after), _set(stage, blind)),
        )
    )
    page.quote(
        (("event", stage.event(second, "DevicesChosen")), ("explain", stage.lines(await stage.explained(second))[0]))
    )
    holders = {pod.name for device in stage.inspect(before.node).devices if not device.healthy for pod in device.pods}
    page.promises(
        ("the dead device is nobody's", not holders),
        (f"the new pod has two other devices than {dead} of {before.node}", _avoids(after, before.node, dead)),
        ("two NVLinks join its devices again", link_names(stage.topology(after.node), after.devices)[:3] == "NV2"),
    )


def _running(stage: Stage) -> set[str]:
    return {name for name in stage.pods(JOB) if stage.phase(name) == "Running"}


def _follows(stage: Stage, page: Page, before: Given, what: tuple[str, int, str]) -> None:
    """What everybody says about it."""
    name, dead, ended = what
    spec = stage.inventory(before.node)["spec"]
    counted = stage.node(before.node)["status"]["allocatable"][RESOURCE]
    broken = [line for line in stage.lines(stage.explained_node(before.node)) if f"device {dead}" in line]
    page.quote(
        (
            ("agent", f"device {dead} of {before.node} is dead: {spec['healthyCount']} of {spec['deviceCount']} work"),
            ("event", f"{before.node}: {stage.event(before.node, 'DeviceFailed')}"),
            ("kubelet", f"{RESOURCE}: {counted} can be handed out on {before.node}"),
            ("pod", f"{name}: {stage.phase(name)}"),
            ("explain", ended),
            *(("", f"{before.node}: {line}") for line in broken),
        )
    )


def _avoids(after: Given, node: str, dead: int) -> bool:
    return len(after.devices) == 2 and (after.node != node or dead not in after.devices)


def _set(stage: Stage, found: Given | Chosen) -> str:
    topology = stage.topology(found.node)
    linked = f"{link_names(topology, found.devices)}, {points(topology, found.devices)} points"
    return f"{found.node} {devices_text(found.devices)}  {linked}"
