"""Pods that wait for a node and never asked here: whoever was asked before may have refused them, and is no more.

kube-scheduler tries a pod again that an extender refused when something in the cluster changes that it knows of, or after
five minutes. Who is not remembered as refused would not be woken for anything that only we know of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.cluster.pods import FINISHED
from linkwise.broker.effects import Wake

if TYPE_CHECKING:
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["unanswered"]


def unanswered(state: State) -> tuple[Wake, ...]:
    """Such pods are worth another try, the most important and oldest first."""
    found = [pod for pod in state.cluster.pods.values() if _waits(pod) and pod.uid not in state.asked]
    found.sort(key=lambda pod: (-pod.priority, pod.created, pod.uid))
    sentence = "it may have been refused by a service that is no more"
    return tuple(Wake(pod.namespace, pod.name, pod.uid, sentence) for pod in found)


def _waits(pod: PodView) -> bool:
    free = not (pod.node or pod.deleting or pod.gates or pod.phase in FINISHED)
    return free and asks_for_devices(pod)
