"""Planning runs: a group is planned when a member is tried, in the call as far as the step limit allows, then in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Wake
from linkwise.broker.group_registry import Shortage
from linkwise.broker.groups.bundles import begin, bundle_keys, bundle_view, groups_of, hold_together
from linkwise.broker.groups.notices import bundle_warnings, clear_notices
from linkwise.broker.groups.plan_annotations import plan_annotations
from linkwise.broker.groups.planning import give_up_places, in_backoff, requested_of
from linkwise.broker.groups.planning_input import minimum_of, takes_any_model
from linkwise.broker.groups.priority import preempt_plans_for_group
from linkwise.broker.groups.readiness import pending_reason
from linkwise.broker.groups.stale_gangs import note_stale
from linkwise.broker.wake_ups import flush
from linkwise.engine.planning.task import model_of
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State

__all__ = ["advance_plans", "try_now", "wakes"]

_PLANNING = Reason("001.members", kind="planning")


def try_now(state: State, key: str, view: GroupView, now: float) -> Reason | None:
    """Plan the group now; return why there is no plan yet, None if there is one."""
    keys = bundle_keys(state, key)
    key, view = keys[0], bundle_view(state, key) or view
    for peer in keys:
        state.groups.give_up_written(peer)  # written plans are replaced
    members = tuple(pod.uid for pod in view.waiting)
    if in_backoff(state, key, now):
        return Reason("001.hold", kind="resting")
    shortage = state.groups.short.get(key)
    if shortage and shortage.members == members and now < shortage.until:
        return shortage.reason
    run = state.runs.get(key)
    if run is None or run.asked != requested_of(state, groups_of(state, keys)):
        give_up_places(state, key)
        flush(state)
        run = state.runs[key] = begin(state, key, view)
    if not run.advance(state.settings.group.steps):
        return _PLANNING
    return _finish(state, key, now)


def advance_plans(state: State, now: float, budget: int) -> tuple[Effect, ...]:
    """Advance running plans; wake the members of finished ones."""
    effects: list[Effect] = []
    for key in list(state.runs):
        if state.runs[key].advance(budget):
            _finish(state, key, now)
            effects += wakes(state, key)
    return tuple(effects)


def wakes(state: State, key: str) -> list[Wake]:
    """Return wake-ups for all pending members of a bundle."""
    for peer in bundle_keys(state, key):
        clear_notices(state, peer)
    groups = [view for peer in bundle_keys(state, key) if (view := state.groups.gather(peer))]
    return [
        Wake(pod.namespace, pod.name, pod.uid, "its group can be retried", pod.priority)
        for view in groups
        for pod in view.waiting
    ]


def _finish(state: State, key: str, now: float) -> Reason | None:
    """Reserve a finished plan; if it is outdated, start again."""
    run, view = state.runs.pop(key), bundle_view(state, key)
    missed = key in state.groups.missed
    state.groups.missed.discard(key)
    groups = groups_of(state, bundle_keys(state, key))
    if view is None or any(pending_reason(state, own, now) for own in groups):
        return _PLANNING  # it changed meanwhile; the next call reports what it lacks
    if run.plan is None and (missed or run.asked != requested_of(state, groups)):
        first = bundle_keys(state, key)[0]  # capacity, members or the minimum changed
        state.runs[first] = begin(state, first, view)
        return _PLANNING
    if run.plan is None and state.groups.avoided.pop(key, set()):
        return try_now(state, key, view, now)  # a node that failed is better than none
    if run.plan is None:
        run.plan = preempt_plans_for_group(state, key, now)
    if run.plan is None:
        for own in groups:
            note_stale(state, own, now)
        return _note_shortage(state, view, _shortage_reason(state, view), now).reason
    flush(state)
    if not hold_together(state, key, run.plan, now):
        state.runs[key] = begin(state, key, view)
        return _PLANNING
    state.outbox.add(
        (*plan_annotations(state, key), *(event for own in groups for event in bundle_warnings(state, own)))
    )
    if run.plan.missing:
        _note_shortage(state, view, Reason("001.tolerant", kind="left out"), now)
    return None


def _note_shortage(state: State, view: GroupView, reason: Reason, now: float) -> Shortage:
    members = tuple(pod.uid for pod in view.waiting)
    short = Shortage(reason, members, now + state.settings.group.window)
    state.groups.short[view.group.key] = short
    return short


def _shortage_reason(state: State, view: GroupView) -> Reason:
    """Return the refusal of a group: it does not fit now, or never."""
    gang = view.group.minimum is not None and view.group.key not in state.groups.satisfied
    kind = "never" if _never(state, view) else "short"
    return Reason("001.gang" if gang else "001.fewest-nodes", len(view.waiting), kind=kind)


def _never(state: State, view: GroupView) -> bool:
    """Return whether there are too few devices even without other pods, as far as counts prove it."""
    queries = [query for pod in view.waiting if (query := state.query(pod))]
    least = minimum_of(state, view) - (len(view.waiting) - len(queries))
    sizes = sorted(query.ask.devices or 1 for query in queries)[: max(0, least)]
    mixed = takes_any_model(state, view)
    free: dict[str, list[int]] = {}
    for name, node in state.cluster.index.nodes.items():
        if any(
            not state.cluster.index.unserved(query, name) for query in {each.word: each for each in queries}.values()
        ):
            free.setdefault("" if mixed else model_of(node), []).append(len(node.healthy()))
    return not any(all(_enough(own, sizes, each) for each in set(sizes)) for own in free.values())


def _enough(free: list[int], sizes: list[int], each: int) -> bool:
    """Return whether there are enough sets of one size for members of at least that size."""
    return sum(count // each for count in free) >= sum(size // each for size in sizes)
