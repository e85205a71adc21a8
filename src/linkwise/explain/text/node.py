"""What is said of a node, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import choice_text, devices_text, refusal
from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.text.phrases import part_text, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.explain.inspect import Holder, InspectedDevice
    from linkwise.explain.reports.node import NodeExplanation

__all__ = ["node_lines"]

_MODES: Final = {"whole": "whole devices", "share": "device memory", "percent": "percentages of devices"}
_MARKS: Final = {
    "planned": ", reserved by a plan",
    "binding": ", being bound",
    "bound": "",
    "terminating": ", terminating",
    "unknown": " (unknown pod)",
}
_SUSPECTS: Final = 8
"""pairs that are told one by one; whoever has more has a matrix to measure again"""


def node_lines(told: NodeExplanation) -> list[str]:
    """One sentence a line: how it hands out its devices, each of them, and what it could still take."""
    found = told.devices
    if not found.devices:
        return [f"node {told.name} has no devices managed by Linkwise", *told.problems]
    models = ", ".join(sorted({device.model for device in found.devices if device.model}))
    there = f"{count_text(len(found.devices), 'device')}{f' ({models})' if models else ''}"
    return [
        f"node {told.name}: {there}, {found.idle} idle; {_mode(told)}",
        *_by_device(told),
        *_nobody_knows_where(told),
        *_could_take(told),
        *_suspects(told),
        *told.drift,
        *told.problems,
    ]


def _mode(told: NodeExplanation) -> str:
    mode = told.devices.mode
    if told.decided == "nothing" or mode == "any":
        return "its first pod decides the sharing mode"
    why = "set by the node" if told.decided == "node" else f"set by its first pod, {told.decided_by}"
    return f"allocates {_MODES[mode]} ({why})"


def _by_device(told: NodeExplanation) -> Iterator[str]:
    """A line for each device, or for those of which the same is to say."""
    said: dict[str, list[int]] = {}
    for device in told.devices.devices:
        said.setdefault(_device(device, told), []).append(device.index)
    for text, indices in said.items():
        yield f"device{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}: {text}"


def _device(device: InspectedDevice, told: NodeExplanation) -> str:
    broken = "" if device.healthy else "unhealthy"
    if not device.pods:
        return broken or "idle"
    pods = "; ".join(_holder(pod, told.devices.unit) for pod in device.pods)
    taken = (
        ""
        if device.whole
        else f"{share_text(device.share, '')} of {share_text(device.memory, told.devices.unit)} used: "
    )
    return f"{f'{broken}; ' if broken else ''}{taken}{pods}"


def _holder(pod: Holder, unit: str) -> str:
    name = f"pod {pod.namespace}/{pod.name}" if pod.namespace else f"pod {pod.name}"
    amount = "" if pod.whole else f" {part_text(pod.share, pod.core, unit)}"
    return f"{name}{amount}{_MARKS[pod.state]}"


def _nobody_knows_where(told: NodeExplanation) -> Iterator[str]:
    for pod in told.devices.unattributed:
        amount = count_text(pod.devices, "device") if pod.devices else part_text(pod.share, pod.core, told.devices.unit)
        yield f"pod {pod.namespace}/{pod.name} has {amount}, but it is not known which; that amount is counted as used"
    if told.sick:
        yield f"{count_text(told.sick, 'more device')} {'is' if told.sick == 1 else 'are'} unhealthy, but it is not known which"


def _could_take(told: NodeExplanation) -> Iterator[str]:
    if told.devices.mode != "share":
        yield from _sizes(told)
    if told.devices.mode in {"share", "percent"}:
        yield _room(told)
    if told.devices.idle and told.stops:
        idle = f"{count_text(told.devices.idle, 'device')} {'is' if told.devices.idle == 1 else 'are'} idle"
        why = "; ".join(map(refusal, told.stops))
        yield f"{idle}, but even a pod of 1 cpu and 1 GiB of memory does not fit: {why}"


def _suspects(told: NodeExplanation) -> Iterator[str]:
    for pair in told.suspects[:_SUSPECTS]:
        one, other = pair.devices
        yield (
            f"devices {one} and {other}: {pair.there:g} GB/s in one direction and {pair.back:g} GB/s in the other; "
            f"bad sample, {pair.counted:g} GB/s is used"
        )
    more = len(told.suspects) - _SUSPECTS
    if more > 0:
        yield f"{count_text(more, 'more pair')} {'has' if more == 1 else 'have'} a bad sample; measure the node again"


def _sizes(told: NodeExplanation) -> Iterator[str]:
    if not told.sizes:
        yield "no request for whole devices fits now"
        return
    yield f"a request for {choice_text(told.sizes)} device{'' if told.sizes == (1,) else 's'} fits now"
    if told.largest and len(told.largest.devices) > 1:
        worth = f": {told.largest.worth}" if told.largest.worth else ""
        yield f"its largest set is {devices_text(told.largest.devices)}{worth}"


def _room(told: NodeExplanation) -> str:
    sound = [device for device in told.devices.devices if device.healthy and device.room]
    if not sound:
        return "no device has free memory left"
    best = max(sound, key=lambda device: (device.room, -device.index))
    whose = f" (namespace {' and '.join(best.namespaces)} only)" if best.namespaces and not told.shared_by_all else ""
    return f"the largest free share is {share_text(best.room, told.devices.unit)}, on device {best.index}{whose}"
