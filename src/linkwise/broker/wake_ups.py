"""Wake-ups: unschedulable pods that may fit now, because a node has more devices free.

`engine.queue.scheduling_queue` decides which pods; this module finds the nodes and makes the effects. It depends on the
observed cluster and the queue alone, so that every verb may flush in the middle of its work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.access import refused_on
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.effects import Wake
from linkwise.engine.feasibility import unfit
from linkwise.model.verdict import ReservedKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["flush", "may_go", "note_gain", "wake_pods"]


def flush(state: State) -> None:
    """Bring index and usage up to date in the middle of a verb; pods that this wakes go to the outbox."""
    if gained := state.cluster.settle():
        note_gain(state, gained)


def note_gain(state: State, gained: Iterable[str]) -> None:
    """Note that nodes gained capacity in the middle of a verb; pods that this wakes go to the outbox."""
    state.groups.gain(gained, state.cluster.index.changes)
    if state.queue.waiting:
        state.outbox.add(wake_pods(state, dict.fromkeys(gained), ()))


def wake_pods(state: State, gained: Iterable[str], again: Iterable[str]) -> list[Wake]:
    """Pods that fit on nodes that gained free devices, or on nodes `again` that woken pods did not take."""
    index = state.cluster.index
    fresh, others = ([index.nodes[name] for name in names if name in index.nodes] for names in (gained, again))
    serves = lambda query, name: not index.unserved(query, name)  # noqa: E731 - a question in a line
    woken = state.queue.pods_to_wake(fresh, others, serves, lambda uid, name: may_go(state, uid, name))
    return [
        Wake(each.namespace, each.name, each.uid, f"it may fit on node {node} now", each.priority, fits=True)
        for each, node in ((queued.pod, node) for queued, node in woken)
    ]


def _is_permitted(state: State, pod: PodView, name: str) -> bool:
    """Whether policies permit the pod on a node; one that waits for a limit is woken when the limit permits it."""
    query = state.query(pod)
    return pod.uid not in state.access.limited and not (query and refused_on(state, pod, query, name))


def may_go(state: State, uid: str, name: str) -> bool:
    """Whether a pod fits on a node apart from devices and other pods: these may change before it gets there."""
    pod, view = state.pod(uid), state.cluster.nodes[name]
    if pod is None or not view.ready:
        return False
    kept = state.reservations.made and state.cluster.ledger.get(ReservedKey(uid, "reservation"))
    if kept and kept.node == name:
        return False  # it gets what is reserved for it, and needs nothing else of the node
    if state.access and not _is_permitted(state, pod, name):
        return False
    demand = replace(demand_of(pod)[0], apart=(), together=())
    return unfit(demand, view, capacity_of(view), state.cluster.load(name)) is None
