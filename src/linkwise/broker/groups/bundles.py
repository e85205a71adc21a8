"""Bundles: gangs that must start together. They are planned in one run, and all of their plans are reserved or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.broker.records.groups import Groups
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.ask import Group

__all__ = ["alternatives", "bundle", "bundle_keys", "bundled", "joined", "unlinked"]


def bundle(state: State, key: str) -> list[GroupView]:
    """Return the groups that are planned together with a group: the gangs of its bundle that have not started, or itself."""
    return [view for each in bundle_keys(state, key) if (view := state.groups.view(each))]


def bundle_keys(state: State, key: str) -> tuple[str, ...]:
    """Return the keys of these groups, sorted."""
    groups = state.groups
    names = groups.bundle_of(key)
    if not names or _is_satisfied(groups, key):
        return (key,)
    others = {other for name in names for other in groups.named(name) if not _is_satisfied(groups, other)}
    return tuple(sorted(other for other in others | {key} if other == key or _are_linked(groups, key, other, names)))


def bundled(state: State, group: Group) -> Iterator[tuple[str, GroupView | None]]:
    """Yield the other gangs that a group lists and that have not started, by name; None for one without members."""
    for name in group.bundle if not _is_satisfied(state.groups, group.key) else ():
        keys = state.groups.named(name)
        if not keys:
            yield name, None
        for key in keys:
            if key != group.key and not _is_satisfied(state.groups, key):
                yield name, state.groups.view(key)


def unlinked(state: State, group: Group) -> list[str]:
    """Return gangs that a group lists and that do not list the same bundle: they are planned separately."""
    names = state.groups.bundle_of(group.key)
    others = ((name, other) for name, other in bundled(state, group) if other)
    return sorted({name for name, other in others if state.groups.bundle_of(other.key) != names})


def joined(views: Sequence[GroupView]) -> GroupView:
    """Join several gangs into one view of which all members must be placed; a single group stays as it is."""
    if len(views) == 1:
        return views[0]
    waiting = tuple(pod for each in views for pod in each.waiting)
    bound = tuple(pod for each in views for pod in each.bound)
    group = replace(
        views[0].group,
        total=None,
        minimum=len(waiting) + len(bound),
        match_policy="once-satisfied",
        network=tuple(dict.fromkeys(wish for each in views for wish in each.group.network)),
    )
    return replace(views[0], group=group, waiting=waiting, bound=bound, extra=(), satisfied=False)


def alternatives(views: Sequence[GroupView]) -> Iterator[tuple[GroupView, tuple[str, ...]]]:
    """Yield the views by which a bundle may be planned, the best first, with the UIDs of members left out."""
    whole = joined(views)
    yield whole, ()
    if len(views) > 1:
        least = joined([_required_only(view) for view in views])
        if left := tuple(pod.uid for pod in whole.waiting if pod not in least.waiting):
            yield least, left


def _required_only(view: GroupView) -> GroupView:
    """Reduce a gang to the members that must start, by rank."""
    minimum = view.group.minimum
    need = len(view.waiting) if minimum is None else max(0, minimum - len(view.bound))
    return replace(view, waiting=view.waiting[:need])


def _is_satisfied(groups: Groups, key: str) -> bool:
    record = groups.get(key)
    return record is not None and record.satisfied


def _are_linked(groups: Groups, key: str, other: str, names: tuple[str, ...]) -> bool:
    """Return whether two gangs list the same bundle, and the other has no plan without this one."""
    plan = groups.plan_of(other)
    apart = plan is not None and not (groups.plan_of(key) and key in plan.bundle)
    return not apart and groups.bundle_of(other) == names
