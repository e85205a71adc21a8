"""Gangs that are stuck halfway: some members are bound in vain, the others found no place.

A bound pod can't be unbound. Where the setting allows it, bound members are evicted when the time is over, as long as no
container of any of them has run; whoever made them makes them anew, and the gang is tried again as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Event, Evict
from linkwise.broker.groups.planning import gathered, patience
from linkwise.engine.reasons.phrases import count_text

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = [
    "evictable",
    "evictions",
    "has_begun",
    "not_evicted",
    "note_halves",
    "note_stuck",
    "stale_gang",
    "stuck_text",
]

_BY_HAND = "free devices for the others, or delete the gang's pods"


def has_begun(pod: PodView) -> bool:
    """Whether a container of the pod has run, by all that is known of it."""
    return pod.begun or pod.phase != "Pending"


def stale_gang(state: State, found: GroupView | None, now: float, *, over: bool = False) -> list[Event]:
    """A strict gang of which some are bound and too few can be: said once, to those that are bound.

    Evictions that are allowed are due at once if the gang's time is over, else when it is.
    """
    bound = _stuck(state, found) if found else ()
    if found is None or not bound:
        return []
    key = found.group.key
    _set_due(state, found, bound, now if over else now + patience(state, found.group))
    if key in state.groups.halved:
        return []
    state.groups.halved[key] = None
    sentence = f"{_counts(found, bound)}; the others were not placed in time: {_fate(state, key, bound, now)}"
    return _events("GangHalfBound", sentence, bound)


def note_stuck(state: State, found: GroupView, now: float) -> None:
    """The members that wait do not fit: those that are bound are not there in vain for longer than the gang waits."""
    if bound := _stuck(state, found):
        _set_due(state, found, bound, now + patience(state, found.group))


def note_halves(state: State, now: float) -> None:
    """The same of every group whose members changed and that has no plan: whoever starts anew finds them so."""
    for key in state.groups.touched if state.settings.group.evict_half_bound else ():
        found = gathered(state, key)
        # Gangs that nobody planned here are of other schedulers, or want no devices: they are none of our business.
        if found and key not in state.groups.plans and state.groups.generation(key):
            note_stuck(state, found, now)


def evictions(state: State, now: float) -> list[Effect]:
    """What is to be done about gangs whose time is over; one that has a plan again is let be while that holds."""
    effects: list[Effect] = []
    for key, due in list(state.groups.evicting.items()):
        found = gathered(state, key)
        bound = _stuck(state, found) if found else ()
        if found is None or not bound:
            del state.groups.evicting[key]
        elif due <= now and key not in state.groups.plans:
            del state.groups.evicting[key]
            effects += _evict(state, found, bound)
    return effects


def evictable(state: State, uid: str) -> int | None:
    """The version of a pod whose eviction was asked for, 0 if it has none; None if it is not to be evicted any more.

    Then it may be asked for again.
    """
    found, pod = gathered(state, state.groups.key_of(uid)), state.cluster.pods.get(uid)
    bound = _stuck(state, found) if found else ()
    vain = found is not None and found.group.key not in state.groups.plans and any(each.uid == uid for each in bound)
    if pod and vain and uid in state.groups.evicted and not any(map(has_begun, bound)):
        return pod.version
    state.groups.evicted.pop(uid, None)
    return None


def not_evicted(state: State, uid: str) -> None:
    """An eviction was given up: it is asked for again when the gang has waited for as long once more."""
    key = state.groups.key_of(uid)
    state.groups.evicted.pop(uid, None)
    state.groups.touched |= {key: None} if key else {}


def stuck_text(state: State, found: GroupView, now: float) -> str:
    """What becomes of a gang that is stuck halfway; empty if it is not, or has a plan."""
    bound, key = _stuck(state, found), found.group.key
    if not bound or key in state.groups.plans:
        return ""
    return f"{_counts(found, bound)}: {_fate(state, key, bound, now)}"


def _stuck(state: State, found: GroupView) -> tuple[PodView, ...]:
    """Members that are bound in vain; none if the gang has started, or may start in parts."""
    key, least = found.group.key, found.group.minimum
    if least is None or not found.group.strict or found.group.match_policy == "only-waiting":
        return ()
    if key in state.groups.satisfied or len(found.bound) >= least:
        return ()
    return tuple(pod for pod in found.bound if (seen := state.cluster.pods.get(pod.uid)) and seen.node)


def _set_due(state: State, found: GroupView, bound: tuple[PodView, ...], due: float) -> None:
    book, key = state.groups, found.group.key
    told = all(pod.uid in book.evicted for pod in bound)
    if state.settings.group.evict_half_bound and not told and not any(map(has_begun, bound)):
        book.evicting[key] = min(due, book.evicting.get(key, due))


def _evict(state: State, found: GroupView, bound: tuple[PodView, ...]) -> list[Effect]:
    key, counts = found.group.key, _counts(found, bound)
    if not state.settings.group.evict_half_bound:
        return []
    if any(map(has_begun, bound)):
        return [*_events("GangHalfBound", f"{counts}: {_fate(state, key, bound, 0.0)}", bound)]
    fresh = tuple(pod for pod in bound if pod.uid not in state.groups.evicted)
    state.groups.evicted |= dict.fromkeys(pod.uid for pod in fresh)
    state.groups.halved.pop(key, None)
    sentence = f"{counts}, and the others were not placed in time; none has started"
    told = _events("GangEvicted", f"evicted: {sentence}", fresh)
    return [*told, *(Evict(pod.namespace, pod.name, pod.uid, sentence) for pod in fresh)]


def _fate(state: State, key: str, bound: tuple[PodView, ...], now: float) -> str:
    """Which of the two happens: they are evicted, or it is left to people."""
    begun = next(filter(has_begun, bound), None)
    if not state.settings.group.evict_half_bound:
        return _BY_HAND
    if begun:
        return f"pod {begun.name} has started, so none is evicted; {_BY_HAND}"
    due = state.groups.evicting.get(key)
    if due is None:
        return "their eviction was requested" if bound[0].uid in state.groups.evicted else _BY_HAND
    when = f"in {due - now:.3g} s, unless the others are placed or one of them starts first" if due > now else "now"
    return f"the bound members are evicted {when}"


def _counts(found: GroupView, bound: tuple[PodView, ...]) -> str:
    there = f"{count_text(len(bound), 'member')} of its gang {'is' if len(bound) == 1 else 'are'} bound"
    return f"{there}, but {found.group.minimum} must start together"


def _events(reason: str, sentence: str, pods: tuple[PodView, ...]) -> list[Event]:
    return [Event("Warning", reason, sentence, pod.namespace, pod.name, pod.uid) for pod in pods]
