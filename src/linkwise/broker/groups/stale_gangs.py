"""Stale gangs: partially bound, while the other members were not placed. Optionally evicts the bound members.

A bound pod can't be unbound. If the setting allows it, bound members are evicted at the deadline, as long as no container
of any of them has run; their controllers create them again, and the gang is retried as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Event, Evict
from linkwise.broker.groups.reservations import hold_time
from linkwise.broker.records.members import Reserved
from linkwise.engine.reasons.phrases import count_text

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = [
    "evictable",
    "evictions",
    "has_begun",
    "not_evicted",
    "note_stale",
    "note_stale_gangs",
    "stale_gang",
    "stale_text",
]

_MANUAL = "free devices for the others, or delete the gang's pods"


def has_begun(pod: PodView) -> bool:
    """Return whether a container of the pod has run."""
    return pod.begun or pod.phase != "Pending"


def stale_gang(state: State, view: GroupView | None, now: float, *, over: bool = False) -> list[Event]:
    """Return events for the bound members of a stale gang, once.

    If eviction is allowed, its deadline is now if the gang's time is `over`, else when it will be.
    """
    bound = _stale_members(state, view) if view else ()
    if view is None or not bound:
        return []
    key = view.group.key
    _set_deadline(state, view, bound, now if over else now + hold_time(state, view.group))
    record = state.groups[key]
    if record.stale:
        return []
    record.stale = True
    sentence = f"{_counts(view, bound)}; the others were not placed in time: {_next_step(state, key, bound, now)}"
    return _events("GangHalfBound", sentence, bound)


def note_stale(state: State, view: GroupView, now: float) -> None:
    """Start the eviction deadline of a gang whose pending members do not fit."""
    if bound := _stale_members(state, view):
        _set_deadline(state, view, bound, now + hold_time(state, view.group))


def note_stale_gangs(state: State, now: float) -> None:
    """Start deadlines for changed groups without a plan; after a restart stale gangs are found this way."""
    for key in state.cluster.changes.groups if state.settings.group.evict_half_bound else ():
        view, record = state.groups.view(key), state.groups.get(key)
        # Gangs never planned here belong to other schedulers or request no devices.
        if view and record and record.generation and not isinstance(record.stage, Reserved):
            note_stale(state, view, now)


def evictions(state: State, now: float) -> list[Effect]:
    """Return evictions of gangs past their deadline; gangs with a new plan are spared while it lasts."""
    effects: list[Effect] = []
    for key, record in state.groups.dated():
        if record.eviction is None:
            continue
        view = state.groups.view(key)
        bound = _stale_members(state, view) if view else ()
        if view is None or not bound:
            record.eviction = None
        else:
            record.eviction = min(
                record.eviction, now + hold_time(state, view.group)
            )  # the clock may have been set back
            if record.eviction <= now and not isinstance(record.stage, Reserved):
                record.eviction = None
                effects += _evict(state, view, bound)
        state.groups.note_deadline(key)
    return effects


def evictable(state: State, uid: str) -> int | None:
    """Return the resourceVersion of a pod to evict, 0 if it has none; None if it must not be evicted any more.

    Its eviction may be requested again then.
    """
    view, pod = state.groups.view(state.groups.key_of(uid)), state.cluster.pods.get(uid)
    bound = _stale_members(state, view) if view else ()
    stale = view is not None and not state.groups.plan_of(view.key) and any(each.uid == uid for each in bound)
    if pod and stale and uid in state.groups.evicted and not any(map(has_begun, bound)):
        return pod.version
    state.groups.evicted.pop(uid, None)
    return None


def not_evicted(state: State, uid: str) -> None:
    """Record a failed eviction; it is requested again after another waiting time of the gang."""
    key = state.groups.key_of(uid)
    state.groups.evicted.pop(uid, None)
    state.cluster.changes.groups |= {key: None} if key else {}


def stale_text(state: State, view: GroupView, now: float) -> str:
    """Return a sentence about a stale gang and its next step; empty if it is not stale, or has a plan."""
    bound, key = _stale_members(state, view), view.key
    if not bound or state.groups.plan_of(key):
        return ""
    return f"{_counts(view, bound)}: {_next_step(state, key, bound, now)}"


def _stale_members(state: State, view: GroupView) -> tuple[PodView, ...]:
    """Return the bound members of a stale gang; none if the gang has started, or may start in parts."""
    if not view.group.strict or view.group.match_policy == "only-waiting" or len(view.bound) >= view.least:
        return ()
    return tuple(pod for pod in view.bound if (seen := state.cluster.pods.get(pod.uid)) and seen.node)


def _set_deadline(state: State, view: GroupView, bound: tuple[PodView, ...], deadline: float) -> None:
    record = state.groups[view.key]
    requested = all(pod.uid in state.groups.evicted for pod in bound)
    if state.settings.group.evict_half_bound and not requested and not any(map(has_begun, bound)):
        record.eviction = deadline if record.eviction is None else min(deadline, record.eviction)
        state.groups.note_deadline(view.key)


def _evict(state: State, view: GroupView, bound: tuple[PodView, ...]) -> list[Effect]:
    key, counts = view.group.key, _counts(view, bound)
    if not state.settings.group.evict_half_bound:
        return []
    if any(map(has_begun, bound)):
        return [*_events("GangHalfBound", f"{counts}: {_next_step(state, key, bound, 0.0)}", bound)]
    fresh = tuple(pod for pod in bound if pod.uid not in state.groups.evicted)
    state.groups.evicted |= dict.fromkeys(pod.uid for pod in fresh)
    state.groups[key].stale = False
    sentence = f"{counts}, and the others were not placed in time; none has started"
    events = _events("GangEvicted", f"evicted: {sentence}", fresh)
    return [*events, *(Evict(pod.namespace, pod.name, pod.uid, sentence) for pod in fresh)]


def _next_step(state: State, key: str, bound: tuple[PodView, ...], now: float) -> str:
    """Return what happens next: eviction, or a manual step."""
    begun = next(filter(has_begun, bound), None)
    if not state.settings.group.evict_half_bound:
        return _MANUAL
    if begun:
        return f"pod {begun.name} has started, so none is evicted; {_MANUAL}"
    deadline = state.groups[key].eviction
    if deadline is None:
        return "their eviction was requested" if bound[0].uid in state.groups.evicted else _MANUAL
    when = (
        f"in {deadline - now:.3g} s, unless the others are placed or one of them starts first"
        if deadline > now
        else "now"
    )
    return f"the bound members are evicted {when}"


def _counts(view: GroupView, bound: tuple[PodView, ...]) -> str:
    there = f"{count_text(len(bound), 'member')} of its gang {'is' if len(bound) == 1 else 'are'} bound"
    return f"{there}, but {view.group.minimum} must start together"


def _events(reason: str, sentence: str, pods: tuple[PodView, ...]) -> list[Event]:
    return [Event("Warning", reason, sentence, pod.namespace, pod.name, pod.uid) for pod in pods]
