"""Pods known to only one side: asked about before the watch delivered them, or observed and never asked about.

A pod that is newer than the watch is observed within moments, and is tried again then if it may fit. One that the caller
made up never is: no other pod waits for it, no plan reserves devices for a group that it names, and it is forgotten.

A pending pod that was never asked about may have been refused by a previous instance of the service. kube-scheduler tries
it again after a change that it knows of, or after five minutes; it is woken at start, because we may know of more.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.effects import Wake
from linkwise.engine.index.lookup import choices
from linkwise.engine.queue.unobserved import MAX_UNOBSERVED
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.queue.unschedulable import UnschedulablePod
    from linkwise.model.views import PodView

    Shown = tuple[PodView, UnschedulablePod | None]
    """a pod as it is seen, and what it was refused before"""

__all__ = [
    "forget_unseen",
    "take_shown",
    "unanswered",
    "unseen_member",
    "wake_shown",
]


def unseen_member(state: State, pod: PodView) -> bool:
    """Whether a pod names a group and was not seen: members are known from the watch, or anybody could make some up."""
    known = state.cluster.known
    return bool(pod.uid and pod.uid not in known.views and not known.settled(pod.uid) and state.request(pod).group)


def forget_unseen(state: State, now: float, most: int = MAX_UNOBSERVED) -> None:
    """Forget who asked too long ago, or before too many others; who was promised something is looked at again later.

    One that is real after all asks again, or is bound when it is seen.
    """
    unseen = state.unobserved
    if unseen.asked and next(reversed(unseen.asked.values())) > now:  # the clock was set back
        unseen.asked = {uid: min(asked, now) for uid, asked in unseen.asked.items()}
    for uid in list(islice(unseen.asked, max(0, len(unseen.asked) - most))):
        _forget(state, uid, now)
    while (end := unseen.next_end()) is not None and end <= now:
        _forget(state, next(iter(unseen.asked)), now)


def _forget(state: State, uid: str, now: float) -> None:
    if state.cluster.ledger.get(uid):
        state.unobserved.note(uid, now)
    else:
        state.forget(uid)


def take_shown(state: State) -> list[Shown]:
    """Those who asked and are seen now, the most important and oldest first; who was refused stands in line from now on.

    Unless a bind followed from an offer before: who was promised devices waits for none.
    """
    unseen, pods = state.unobserved, [state.cluster.pods[uid] for uid in state.unobserved.shown]
    pods.sort(key=lambda pod: (-pod.priority, pod.created, pod.uid))
    shown = [(pod, unseen.refused.get(pod.uid)) for pod in pods]
    for pod, refused in shown:
        unseen.drop(pod.uid)
        if refused and not state.groups.key_of(pod.uid) and not _promised(state, pod):
            state.unschedulable.put(refused)
    return shown


def wake_shown(state: State, shown: Iterable[Shown], told: Iterable[Effect]) -> list[Wake]:
    """Whom to try again, but for those who are told already: as long as they were not seen, no room woke them."""
    woken = {effect.uid for effect in told if isinstance(effect, Wake)}
    late = [(pod, refused) for pod, refused in shown if pod.uid not in woken and not _promised(state, pod)]
    kinds = {refused.query.table_key(): refused.query for _, refused in late if refused}
    fitting = {kind for kind, wanted in kinds.items() if _fits(state, wanted)}
    return [
        Wake(pod.namespace, pod.name, pod.uid, "the scheduler asked about it before it was observed")
        for pod, refused in late
        if _in_a_group(state, pod)
        or (refused and (refused.query.table_key() in fitting or _outranks_a_plan(state, pod)))
    ]


def _promised(state: State, pod: PodView) -> bool:
    entry = state.cluster.ledger.get(pod.uid)
    return entry is not None and entry.state != "PLANNED"


def _in_a_group(state: State, pod: PodView) -> bool:
    """Whether the pod is a member of a group, or said so when it asked."""
    return bool(state.groups.key_of(pod.uid) or state.request(state.asked[pod.uid]).group)


def _fits(state: State, wanted: Query) -> bool:
    """Whether a node may have room for it."""
    index, resting = state.cluster.index, state.cluster.unready
    found = choices(index, wanted, state.settings.budget)
    return bool(found.best([name for name in index.nodes if name not in resting], 1, frozenset())) or found.partial


def _outranks_a_plan(state: State, pod: PodView) -> bool:
    """Whether a plan may be let go for it."""
    return any(held.priority < pod.priority for held in state.groups.plans.values())


def unanswered(state: State) -> tuple[Wake, ...]:
    """Such pods are worth another try, the most important and oldest first."""
    found = [pod for pod in state.cluster.pods.values() if _waits(pod) and pod.uid not in state.asked]
    found.sort(key=lambda pod: (-pod.priority, pod.created, pod.uid))
    sentence = "it may have been refused by a previous instance of the service"
    return tuple(Wake(pod.namespace, pod.name, pod.uid, sentence) for pod in found)


def _waits(pod: PodView) -> bool:
    free = not (pod.node or pod.deleting or pod.gates or pod.phase in FINISHED)
    return free and asks_for_devices(pod)
