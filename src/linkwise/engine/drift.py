"""Drift: disagreements between the sources of a node's usage, reported in events and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from linkwise.engine.reasons.phrases import pod_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Drift", "DriftKind", "drift_text"]

DriftKind = Literal["record", "changed", "strange device", "twice", "oversold", "stranger", "mode", "elsewhere"]
"""what disagrees:

record          the record of a pod and the usage that the node's agent reports
changed         the record of a bound pod and its earlier content
strange device  a record names a device that the node does not have
twice           two pods claim one device
oversold        pods claim more of a device than it has
stranger        the agent reports devices in use by an unknown pod
mode            pods use whole devices and shares of devices on one node
elsewhere       a pod was assumed on one node and is bound to another
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """One disagreement; `believed` is the side that counts."""

    kind: DriftKind
    node: str
    pods: tuple[str, ...] = ()
    """UIDs, the oldest pod first"""
    devices: tuple[str, ...] = ()
    believed: tuple[str, ...] = ()


def drift_text(drift: Drift, name: Callable[[str], str] = str) -> str:
    """The disagreement as a sentence; `name` maps a UID to the name of the pod."""
    return _SENTENCES[drift.kind](drift, tuple(map(name, drift.pods)))


_SENTENCES: Final[Mapping[DriftKind, Callable[[Drift, tuple[str, ...]], str]]] = {
    "record": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} has {_list(d.devices)}, but the pod uses {_list(d.believed)}; "
        "actual usage counts"
    ),
    "changed": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} was changed to {_list(d.devices)}; {_list(d.believed)} still counts"
    ),
    "strange device": lambda d, pods: (
        f"node {d.node}: the record of {pod_text(*pods)} has {_list(d.devices)}, which the node does not have; "
        "the same number of other devices counts as used"
    ),
    "twice": lambda d, pods: f"node {d.node}: device {_list(d.devices)} is claimed by {_all(pods)}",
    "oversold": lambda d, pods: f"node {d.node}: {_all(pods)} claim more of device {_list(d.devices)} than it has",
    "stranger": lambda d, pods: (
        f"node {d.node}: device {_list(d.devices)} is in use by unknown pod {_all(pods)}; it counts as used"
    ),
    "mode": lambda d, pods: (
        f"node {d.node}: {_all(pods)} use devices in another sharing mode than {_list(d.believed)}, which sets the node's mode"
    ),
    "elsewhere": lambda d, pods: f"{pod_text(*pods)} was assumed on node {_list(d.believed)}, but is bound to {d.node}",
}


def _all(pods: tuple[str, ...]) -> str:
    return " and ".join(pods)


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
