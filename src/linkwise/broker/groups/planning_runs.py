"""Planning a group when a member is tried: at once as far as one call may take, later what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.effects import Wake
from linkwise.broker.group_registry import Shortage
from linkwise.broker.groups.bundles import begin, bundle_view, groups_of, hold_together, mates_of
from linkwise.broker.groups.notices import asked_again, bundle_warnings
from linkwise.broker.groups.plan_annotations import plan_annotations
from linkwise.broker.groups.planning import asked_of, give_up_places, resting
from linkwise.broker.groups.planning_input import minimum_of, takes_any_model
from linkwise.broker.groups.priority import give_way_to_group
from linkwise.broker.groups.readiness import unready
from linkwise.broker.groups.stale_gangs import note_stuck
from linkwise.broker.wake_ups import flush
from linkwise.engine.planning.task import model_of
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.broker.group_registry import GroupView
    from linkwise.broker.state import State

__all__ = ["advance_plans", "try_now", "wakes"]

_PLANNING = Reason("001.members", kind="planning")


def try_now(state: State, key: str, found: GroupView, now: float) -> Reason | None:
    """Plan the group now; why there is no plan yet, None if there is one."""
    mates = mates_of(state, key)
    key, found = mates[0], bundle_view(state, key) or found
    for mate in mates:
        state.groups.give_up_written(mate)  # what was planned before is planned anew
    members = tuple(pod.uid for pod in found.waiting)
    if resting(state, key, now):
        return Reason("001.hold", kind="resting")
    known = state.groups.short.get(key)
    if known and known.members == members and now < known.until:
        return known.reason
    run = state.runs.get(key)
    if run is None or run.asked != asked_of(state, groups_of(state, mates)):
        give_up_places(state, key)
        flush(state)
        run = state.runs[key] = begin(state, key, found)
    if not run.advance(state.settings.group.steps):
        return _PLANNING
    return _finished(state, key, now)


def advance_plans(state: State, now: float, budget: int) -> tuple[Effect, ...]:
    """Work on plans that were begun; members of a plan that is finished are woken."""
    effects: list[Effect] = []
    for key in list(state.runs):
        if state.runs[key].advance(budget):
            _finished(state, key, now)
            effects += wakes(state, key)
    return tuple(effects)


def wakes(state: State, key: str) -> list[Wake]:
    """Every member that waits is worth another try."""
    for mate in mates_of(state, key):
        asked_again(state, mate)
    groups = [found for mate in mates_of(state, key) if (found := state.groups.gather(mate))]
    return [
        Wake(pod.namespace, pod.name, pod.uid, "its group can be retried") for found in groups for pod in found.waiting
    ]


def _finished(state: State, key: str, now: float) -> Reason | None:
    """Hold the plan that was made; if it can't be kept any more, it is made again."""
    run, found = state.runs.pop(key), bundle_view(state, key)
    missed = key in state.groups.missed
    state.groups.missed.discard(key)
    groups = groups_of(state, mates_of(state, key))
    if found is None or any(unready(state, own, now) for own in groups):
        return _PLANNING  # it changed while it was planned; whoever asks next is told what it lacks
    if run.plan is None and (missed or run.asked != asked_of(state, groups)):
        first = mates_of(state, key)[0]  # there is room now that there was not, or others wait, or fewer must start
        state.runs[first] = begin(state, first, found)
        return _PLANNING
    if run.plan is None and state.groups.avoided.pop(key, set()):
        return try_now(state, key, found, now)  # better a node that did not work than none
    if run.plan is None:
        run.plan = give_way_to_group(state, key, now)
    if run.plan is None:
        for own in groups:
            note_stuck(state, own, now)
        return _short(state, found, _why_short(state, found), now).reason
    flush(state)
    if not hold_together(state, key, run.plan, now):
        state.runs[key] = begin(state, key, found)
        return _PLANNING
    state.outbox.add(
        (*plan_annotations(state, key), *(event for own in groups for event in bundle_warnings(state, own)))
    )
    if run.plan.missing:
        _short(state, found, Reason("001.tolerant", kind="left out"), now)
    return None


def _short(state: State, found: GroupView, reason: Reason, now: float) -> Shortage:
    members = tuple(pod.uid for pod in found.waiting)
    short = Shortage(reason, members, now + state.settings.group.window)
    state.groups.short[found.group.key] = short
    return short


def _why_short(state: State, found: GroupView) -> Reason:
    """Whether it does not fit now, or never."""
    gang = found.group.minimum is not None and found.group.key not in state.groups.satisfied
    kind = "never" if _never(state, found) else "short"
    return Reason("001.gang" if gang else "001.fewest-nodes", len(found.waiting), kind=kind)


def _never(state: State, found: GroupView) -> bool:
    """Whether there are too few devices even if all others were gone; that is said only where counts prove it."""
    wanted = [state.query(pod) for pod in found.waiting]
    asked = [ask for ask in wanted if ask]
    least = minimum_of(state, found) - (len(wanted) - len(asked))
    sizes = sorted(ask.ask.devices or 1 for ask in asked)[: max(0, least)]
    mixed = takes_any_model(state, found)
    rooms: dict[str, list[int]] = {}
    for name, node in state.cluster.index.nodes.items():
        if any(not state.cluster.index.unserved(ask, name) for ask in {ask.word: ask for ask in asked}.values()):
            rooms.setdefault("" if mixed else model_of(node), []).append(len(node.healthy()))
    return not any(all(_enough(own, sizes, each) for each in set(sizes)) for own in rooms.values())


def _enough(rooms: list[int], sizes: list[int], each: int) -> bool:
    """Whether as many sets of one size could be had as members of at least that size need."""
    return sum(room // each for room in rooms) >= sum(size // each for size in sizes)
