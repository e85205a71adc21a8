"""What would help, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import refusal, shortage
from linkwise.explain.text.phrases import count_text, share_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.explain.reports.pod import Leaver, Remedy

__all__ = ["leaver_text", "remedy_line"]


def remedy_line(remedy: Remedy) -> str:
    """One sentence."""
    return _LINES[remedy.kind](remedy)


def _pods_end(remedy: Remedy) -> str:
    *others, last = (f"{pod.name} ({leaver_text(pod)})" for pod in remedy.pods)
    named = f"{', '.join(others)} and {last}" if others else last
    one = len(remedy.pods) == 1
    noun = "pod" if one else "pods"
    if all(pod.leaving for pod in remedy.pods):
        return f"it fits on node {remedy.node} when {noun} {named}, being deleted, {'has' if one else 'have'} stopped"
    return f"it fits on node {remedy.node} when {noun} {named} {'ends' if one else 'end'}"


def leaver_text(pod: Leaver) -> str:
    """What comes free when the pod ends."""
    if pod.cpu:
        return f"{pod.cpu / 1000:g} cpu"
    if pod.share:
        return share_text(pod.share, pod.unit)
    return count_text(pod.devices, "device")


def _beside(remedy: Remedy) -> str:
    lacks = shortage(remedy.reason) if remedy.reason else "lacks something else"
    others = f"; the nearest of {remedy.nodes} such nodes" if remedy.nodes > 1 else ""
    return f"node {remedy.node} has the devices and {lacks}{others}"


def _other_mode(remedy: Remedy) -> str:
    why = refusal(remedy.reason) if remedy.reason else ""
    idle = f"{count_text(remedy.amount, 'device')} {'is' if remedy.amount == 1 else 'are'} idle"
    return f"{idle} on {count_text(remedy.nodes, 'node')} and can't serve it: {why}"


_LINES: Final[dict[str, Callable[[Remedy], str]]] = {
    "pods end": _pods_end,
    "beside devices": _beside,
    "fewer devices": lambda remedy: f"{count_text(remedy.amount, 'device')} would fit now on node {remedy.node}",
    "less memory": lambda remedy: (
        f"the largest room it may have on one device is {share_text(remedy.amount, remedy.unit)} now, "
        f"on device {remedy.device} of node {remedy.node}"
    ),
    "less compute": lambda remedy: (
        f"the most compute left of one device is {remedy.amount} % now, on device {remedy.device} of node {remedy.node}"
    ),
    "other mode": _other_mode,
}
