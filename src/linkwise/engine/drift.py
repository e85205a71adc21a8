"""Where records disagree: reported, never guessed at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Drift", "DriftKind", "drift_text"]

DriftKind = Literal["record", "changed", "strange device", "twice", "oversold", "stranger", "mode", "elsewhere"]
"""what disagrees:

record          the pod's record and what the node's agent saw in use
changed         the record of a bound pod and what it said before
strange device  a record names a device that the node does not have
twice           two pods claim one device
oversold        pods claim more of a device than it has
stranger        the agent saw devices in use by a pod that is not known
mode            pods hold whole devices and parts of devices on one node
elsewhere       a pod was promised to one node and is seen on another
"""


@dataclass(frozen=True, slots=True)
class Drift:
    """One disagreement; what was believed is `believed`."""

    kind: DriftKind
    node: str
    pods: tuple[str, ...] = ()
    """UIDs, the oldest pod first"""
    devices: tuple[str, ...] = ()
    believed: tuple[str, ...] = ()


def drift_text(drift: Drift, name: Callable[[str], str] = str) -> str:
    """The disagreement as a sentence; `name` turns a UID into what people call the pod."""
    return _SENTENCES[drift.kind](drift, " and ".join(map(name, drift.pods)))


_SENTENCES: Final[Mapping[DriftKind, Callable[[Drift, str], str]]] = {
    "record": lambda d, pods: (
        f"node {d.node}: pod {pods} is recorded with {_list(d.devices)} and uses {_list(d.believed)}, which counts"
    ),
    "changed": lambda d, pods: (
        f"node {d.node}: the record of pod {pods} was changed to {_list(d.devices)}; {_list(d.believed)} counts"
    ),
    "strange device": lambda d, pods: (
        f"node {d.node}: pod {pods} is recorded with {_list(d.devices)}, which the node does not have; "
        "as many devices are kept free"
    ),
    "twice": lambda d, pods: f"node {d.node}: device {_list(d.devices)} is claimed by {pods}",
    "oversold": lambda d, pods: f"node {d.node}: more of device {_list(d.devices)} is claimed by {pods} than it has",
    "stranger": lambda d, pods: (
        f"node {d.node}: device {_list(d.devices)} is used by pod {pods}, which is not known; it counts as taken"
    ),
    "mode": lambda d, pods: (
        f"node {d.node}: {pods} hold devices in another way than {_list(d.believed)}, which decides for the node"
    ),
    "elsewhere": lambda d, pods: f"pod {pods} was promised to node {_list(d.believed)} and is seen on {d.node}",
}


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
