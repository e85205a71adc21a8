"""Bundles: gangs that must start together. They are planned in one run, and all of their plans are reserved or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.group_registry import Run
from linkwise.broker.groups.planning import current_view, hold, overcommits, planning, requested_of, start, still_free

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from linkwise.broker.group_registry import GroupRegistry, GroupView
    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.ask import Group

__all__ = [
    "alternatives",
    "begin",
    "bundle_keys",
    "bundle_view",
    "bundled",
    "groups_of",
    "hold_together",
    "link_plans",
    "unlinked",
]


def bundle_keys(state: State, key: str) -> tuple[str, ...]:
    """Return the keys of a bundle's gangs that have not started, sorted; only the group itself without a bundle."""
    book = state.groups
    bundle = book.bundle_of(key)
    if not bundle or key in book.satisfied:
        return (key,)
    others = {other for name in bundle for other in book.named(name) if other not in book.satisfied}
    return tuple(sorted(other for other in others | {key} if other == key or _are_linked(book, key, other, bundle)))


def bundled(state: State, group: Group) -> Iterator[tuple[str, GroupView | None]]:
    """Yield the other gangs of a bundle that have not started, by name; None for one without members."""
    for name in group.bundle if group.key not in state.groups.satisfied else ():
        keys = state.groups.named(name)
        if not keys:
            yield name, None
        for key in keys:
            if key != group.key and key not in state.groups.satisfied:
                yield name, current_view(state, key)


def unlinked(state: State, group: Group) -> list[str]:
    """Return gangs that a group lists and that do not list the same bundle: they are planned separately."""
    bundle = state.groups.bundle_of(group.key)
    others = ((name, other) for name, other in bundled(state, group) if other)
    return sorted({name for name, other in others if state.groups.bundle_of(other.group.key) != bundle})


def bundle_view(state: State, key: str) -> GroupView | None:
    """Return the group as it is planned: joined with the other gangs of its bundle."""
    keys = bundle_keys(state, key)
    if len(keys) == 1:
        return current_view(state, key)
    return _joined(keys[0], groups_of(state, keys))


def groups_of(state: State, keys: Iterable[str]) -> list[GroupView]:
    """Return the current views of these groups."""
    return [view for key in keys if (view := current_view(state, key))]


def begin(state: State, key: str, view: GroupView) -> Run:
    """Start planning a group or bundle: all members, else as many as must start."""
    keys = bundle_keys(state, key)
    state.groups.missed.discard(key)
    if len(keys) == 1:
        return start(state, key, view)
    for peer in keys[1:]:
        # Nodes that failed for one gang are avoided for all.
        state.groups.avoided.setdefault(key, set()).update(state.groups.avoided.pop(peer, ()))
    groups = groups_of(state, keys)
    return Run(key, requested_of(state, groups), _steps(state, groups))


def hold_together(state: State, key: str, plan: Plan, now: float) -> bool:
    """Reserve a plan, split by gang; false if any part is outdated."""
    keys = bundle_keys(state, key)
    if not _is_valid(state, keys, plan):
        return False
    if len(keys) == 1:
        return hold(state, key, plan, now) is not None
    if not all(still_free(state, uid, plan) for uid in plan.placements):
        return False
    for each in keys:
        view = current_view(state, each)
        own = _share(plan, {pod.uid for pod in view.waiting} if view else set())
        if own.placements:
            hold(state, each, own, now)
    link_plans(state, keys)
    return True


def _is_valid(state: State, keys: Iterable[str], plan: Plan) -> bool:
    """Return whether the plan's members are still pending and its nodes still have capacity."""
    nodes = state.cluster.nodes
    waiting = {pod.uid for key in keys if (view := current_view(state, key)) for pod in view.waiting}
    if not waiting.issuperset(plan.placements):
        return False
    if any(name not in nodes or nodes[name].unschedulable for name in plan.nodes):
        return False
    return not overcommits(state, plan.placements.values())


def link_plans(state: State, keys: Iterable[str]) -> None:
    """Link the plans of these groups, so that they end together."""
    plans = state.groups.plans
    held = [key for key in keys if key in plans]
    for key in held:
        plans[key] = replace(plans[key], bundle=tuple(peer for peer in held if peer != key))


def _are_linked(book: GroupRegistry, key: str, other: str, bundle: tuple[str, ...]) -> bool:
    """Return whether two gangs list the same bundle, and the other has no plan without this one."""
    held = book.plans.get(other)
    unlinked = held is not None and not (key in book.plans and key in held.bundle)
    return not unlinked and book.bundle_of(other) == bundle


def _joined(key: str, views: Sequence[GroupView]) -> GroupView:
    """Join several gangs into one view of which all members must be placed."""
    waiting = tuple(pod for each in views for pod in each.waiting)
    bound = tuple(pod for each in views for pod in each.bound)
    group = replace(
        views[0].group,
        key=key,
        total=None,
        minimum=len(waiting) + len(bound),
        match_policy="once-satisfied",
        network=tuple(dict.fromkeys(wish for each in views for wish in each.group.network)),
    )
    return replace(views[0], group=group, waiting=waiting, bound=bound, extra=())


def _steps(state: State, parts: Sequence[GroupView]) -> Generator[None, None, Plan | None]:
    for view, left in alternatives(parts):
        plan = yield from planning(state, view)
        if plan is not None:
            return replace(plan, missing=(*plan.missing, *left))
    return None


def alternatives(parts: Sequence[GroupView]) -> Iterator[tuple[GroupView, tuple[str, ...]]]:
    """Yield the views by which a bundle may be planned, the best first, with the UIDs of members left out."""
    if len(parts) == 1:
        yield parts[0], ()
        return
    key = parts[0].group.key
    whole, least = _joined(key, parts), _joined(key, [_required_only(part) for part in parts])
    yield whole, ()
    left = tuple(pod.uid for pod in whole.waiting if pod not in least.waiting)
    if left:
        yield least, left


def _required_only(view: GroupView) -> GroupView:
    """Reduce a gang to the members that must start, by rank."""
    minimum = view.group.minimum
    need = len(view.waiting) if minimum is None else max(0, minimum - len(view.bound))
    return replace(view, waiting=view.waiting[:need])


def _share(plan: Plan, members: set[str]) -> Plan:
    placements = {uid: placement for uid, placement in plan.placements.items() if uid in members}
    return replace(plan, placements=placements, missing=tuple(uid for uid in plan.missing if uid in members))
