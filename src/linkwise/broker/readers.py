"""Texts for the readers of one namespace: events about its pods, and refusals that schedulers report in events.

Everyone who may read a namespace's events reads them, so they name no pod, group or namespace beyond it. A pod that has no name
for the reader is identified by its UID, as kube-scheduler identifies a preemptor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import Event
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.phrases import OTHER_NAMESPACE, OTHER_POD, OTHER_USER, groups_text, pod_text
from linkwise.model.access_policy import ALONE, COMMON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Literal

    from linkwise.broker.state import State
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

_OBSTACLE: Final = "a member of a gang that must start together with it can't be bound"

__all__ = ["domains_for", "event_name", "outbid_text", "pod_events", "readable", "refusal_to"]


def pod_events(
    state: State,
    pods: Iterable[PodView],
    kind: Literal["Normal", "Warning"],
    reason: str,
    sentence: str | Callable[[State], str],
) -> list[Event]:
    """Return an event for each of the pods.

    A sentence about anything but the pod and its group is a function of the state as readers of the pod's namespace see it.
    """
    texts: dict[str, str] = {}

    def text(namespace: str) -> str:
        if isinstance(sentence, str):
            return sentence
        if namespace not in texts:
            texts[namespace] = sentence(state.within(namespace))
        return texts[namespace]

    return [Event(kind, reason, text(pod.namespace), pod.namespace, pod.name, pod.uid) for pod in pods]


def refusal_to(state: State, pod: PodView, reason: Reason) -> str:
    """Return the long form of a refusal for readers of the pod's namespace."""
    return refusal(readable(state.within(pod.namespace), reason))


def event_name(state: State, uid: str) -> str:
    """Return the name of a pod for an event: `default/train`, or `a pod of another namespace (UID 3f2a)`."""
    name = state.name_of(uid)
    return f"{name} (UID {uid})" if name == OTHER_POD else name


def outbid_text(state: State, winner: str, priority: int) -> str:
    """Return who takes what a pod or group of lower priority had; the winner is the key of a group or the UID of a pod."""
    name = groups_text([state.group_name(winner)]) if winner in state.groups else pod_text(event_name(state, winner))
    return f"{name}, which has a higher priority ({priority}) and does not fit otherwise"


def readable(state: State, reason: Reason) -> Reason:
    """Return the reason as the reader may see it: without names of sharing domains, and of members of other gangs."""
    if (reason.rule, reason.kind) == ("001.hold", "obstacle") and state.hides(str(reason.asked)):
        return replace(reason, found=_OBSTACLE)
    if reason.rule != "002.segregate" or not isinstance(reason.found, tuple):
        return reason
    return replace(reason, found=domains_for(state, map(str, reason.found)))


def domains_for(state: State, domains: Iterable[str], own: Collection[str] = ()) -> tuple[str, ...]:
    """Return sharing domains as the reader may see them: a namespace, a user, or both.

    A domain is named to a reader of its namespace. One of a user alone is, if it is `own`: that of a pod that is named.
    """

    def seen(domain: str) -> str:
        if state.readable is None or domain in {*own, COMMON, ALONE}:
            return domain
        namespace = domain.partition("user:")[0].rstrip()
        return OTHER_USER if not namespace else OTHER_NAMESPACE if state.hides(namespace) else domain

    return tuple(map(seen, domains))
