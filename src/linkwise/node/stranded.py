"""Taint for idle accelerators: ordinary pods prefer other nodes before the CPUs or the memory run out.

Devices are stranded if no pod that requests them fits beside the pods that do not. The effect PreferNoSchedule only
lowers the score of the node, so pods that request devices need no toleration.

Source: seed 002, "Scheduling", the first case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.dialects.linkwise.dialect import IDLE_TAINT
from linkwise.model.demand import Load
from linkwise.model.views import FINISHED, Taint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.model.views import NodeView, PodView

__all__ = ["DEFAULT", "IDLE_ACCELERATORS", "Reserve", "is_tainted", "should_taint"]

IDLE_ACCELERATORS: Final = Taint(IDLE_TAINT, "", "PreferNoSchedule")


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a node should keep free for each idle device."""

    cpu: int = 1000  # thousandths of a core
    memory: int = 1 << 30  # bytes
    release: float = 1.5
    """times the reserve must be free again before the taint is removed, so that it does not come and go with each pod"""


DEFAULT: Final = Reserve()


def is_tainted(view: NodeView) -> bool:
    """Whether the Node has the taint."""
    return any(taint.key == IDLE_ACCELERATORS.key for taint in view.taints)


def should_taint(view: NodeView, pods: Iterable[PodView], idle: int, reserve: Reserve = DEFAULT) -> bool:
    """Whether the Node should have the taint, with `idle` devices that no pod has, and the pods bound to the node.

    It gets the taint when less than the reserve is free, and loses it when clearly more is, or no device is idle.
    """
    if idle <= 0:
        return False
    load = Load()
    for pod in pods:
        if pod.phase not in FINISHED:
            load = load.plus(demand_of(pod)[0])
    capacity, factor = capacity_of(view), reserve.release if is_tainted(view) else 1.0
    # rule 002.stranded: idle devices are of no use without CPUs and memory beside them.
    resources = ((capacity.cpu, load.cpu, reserve.cpu), (capacity.memory, load.memory, reserve.memory))
    return any(total is not None and total - used < factor * idle * each for total, used, each in resources)
