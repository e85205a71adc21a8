"""Gangs that start together: complete together, planned in one run, and held all or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.group_registry import Run
from linkwise.broker.groups.planning import asked_of, crowded, gathered, hold, planning, start, still_free

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from linkwise.broker.group_registry import GroupRegistry, GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.ask import Group

__all__ = [
    "alternatives",
    "apart",
    "begin",
    "bundle_view",
    "bundled",
    "groups_of",
    "hold_together",
    "link_plans",
    "mates_of",
]


def mates_of(state: State, key: str) -> tuple[str, ...]:
    """The gangs that start together and have not started yet, in one order; only the group itself if it is alone."""
    book = state.groups
    bundle = book.bundle_of(key)
    if not bundle or key in book.satisfied:
        return (key,)
    others = {other for name in bundle for other in book.named(name) if other not in book.satisfied}
    return tuple(sorted(other for other in others | {key} if other == key or _mates(book, key, other, bundle)))


def bundled(state: State, group: Group) -> Iterator[tuple[str, GroupView | None]]:
    """The other gangs of a bundle that have not started, by name; None for one of which nobody is there."""
    for name in group.bundle if group.key not in state.groups.satisfied else ():
        keys = state.groups.named(name)
        if not keys:
            yield name, None
        for key in keys:
            if key != group.key and key not in state.groups.satisfied:
                yield name, gathered(state, key)


def apart(state: State, group: Group) -> list[str]:
    """The gangs that a group names and that do not name the same ones: they are planned without each other."""
    bundle = state.groups.bundle_of(group.key)
    found = ((name, other) for name, other in bundled(state, group) if other)
    return sorted({name for name, other in found if state.groups.bundle_of(other.group.key) != bundle})


def bundle_view(state: State, key: str) -> GroupView | None:
    """The group as it is planned: with all members of the gangs that start together with it, none of them left out."""
    keys = mates_of(state, key)
    if len(keys) == 1:
        return gathered(state, key)
    return _joined(keys[0], groups_of(state, keys))


def groups_of(state: State, keys: Iterable[str]) -> list[GroupView]:
    """The groups that have these keys, as they are now."""
    return [found for key in keys if (found := gathered(state, key))]


def begin(state: State, key: str, found: GroupView) -> Run:
    """Begin to plan a group, or gangs that start together: all of their members, else as many as must start."""
    keys = mates_of(state, key)
    state.groups.missed.discard(key)
    if len(keys) == 1:
        return start(state, key, found)
    for mate in keys[1:]:
        # Nodes that did not work for one of them do not work for the plan.
        state.groups.avoided.setdefault(key, set()).update(state.groups.avoided.pop(mate, ()))
    groups = groups_of(state, keys)
    return Run(key, asked_of(state, groups), _steps(state, groups))


def hold_together(state: State, key: str, plan: Plan, now: float) -> bool:
    """Let a plan count as taken, the share of each gang for itself; false if any of it can't be kept any more."""
    keys = mates_of(state, key)
    if not _stands(state, keys, plan):
        return False
    if len(keys) == 1:
        return hold(state, key, plan, now) is not None
    if not all(still_free(state, uid, plan) for uid in plan.placements):
        return False
    for each in keys:
        found = gathered(state, each)
        own = _share(plan, {pod.uid for pod in found.waiting} if found else set())
        if own.placements:
            hold(state, each, own, now)
    link_plans(state, keys)
    return True


def _stands(state: State, keys: Iterable[str], plan: Plan) -> bool:
    """Whether all that the plan places still wait, and its nodes still have room for them: while it was made both may change."""
    views = state.cluster.nodes
    waiting = {pod.uid for key in keys if (found := gathered(state, key)) for pod in found.waiting}
    if not waiting.issuperset(plan.placements):
        return False
    if any(name not in views or views[name].unschedulable for name in plan.nodes):
        return False
    return not crowded(state, plan.placements.values())


def link_plans(state: State, keys: Iterable[str]) -> None:
    """Let the plans of these groups end together."""
    plans = state.groups.plans
    held = [key for key in keys if key in plans]
    for key in held:
        plans[key] = replace(plans[key], bundle=tuple(mate for mate in held if mate != key))


def _mates(book: GroupRegistry, key: str, other: str, bundle: tuple[str, ...]) -> bool:
    """Whether two gangs name the same ones, and no plan holds for the other without this one."""
    held = book.plans.get(other)
    apart = held is not None and not (key in book.plans and key in held.bundle)
    return not apart and book.bundle_of(other) == bundle


def _joined(key: str, found: Sequence[GroupView]) -> GroupView:
    """Several gangs as one of which everybody must be placed."""
    waiting = tuple(pod for each in found for pod in each.waiting)
    bound = tuple(pod for each in found for pod in each.bound)
    group = replace(
        found[0].group,
        key=key,
        total=None,
        minimum=len(waiting) + len(bound),
        match_policy="once-satisfied",
        network=tuple(dict.fromkeys(wish for each in found for wish in each.group.network)),
    )
    return replace(found[0], group=group, waiting=waiting, bound=bound, extra=())


def _steps(state: State, parts: Sequence[GroupView]) -> Generator[None, None, Plan | None]:
    for found, left in alternatives(parts):
        plan = yield from planning(state, found)
        if plan is not None:
            return replace(plan, missing=(*plan.missing, *left))
    return None


def alternatives(parts: Sequence[GroupView]) -> Iterator[tuple[GroupView, tuple[str, ...]]]:
    """What gangs that start together may be planned as, the best first, and the UIDs of members that are left out."""
    if len(parts) == 1:
        yield parts[0], ()
        return
    key = parts[0].group.key
    whole, least = _joined(key, parts), _joined(key, [_fewest(part) for part in parts])
    yield whole, ()
    left = tuple(pod.uid for pod in whole.waiting if pod not in least.waiting)
    if left:
        yield least, left


def _fewest(found: GroupView) -> GroupView:
    """Only those of a gang that must start, by rank."""
    minimum = found.group.minimum
    need = len(found.waiting) if minimum is None else max(0, minimum - len(found.bound))
    return replace(found, waiting=found.waiting[:need])


def _share(plan: Plan, members: set[str]) -> Plan:
    placements = {uid: placement for uid, placement in plan.placements.items() if uid in members}
    return replace(plan, placements=placements, missing=tuple(uid for uid in plan.missing if uid in members))
