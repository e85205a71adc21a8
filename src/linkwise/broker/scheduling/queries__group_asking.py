"""What a plan for some pods would be now, whether they are in the cluster or not; nothing is kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.pod_request import group_said
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.priority import imagined
from linkwise.broker.groups.registry import Gathered
from linkwise.model.ask__group import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

__all__ = ["dry_plan"]

FOREVER: Final = 1 << 40


def dry_plan(state: State, pods: Sequence[PodView]) -> Plan | None:
    """The plan for these pods as one group, beside those of it that are bound; None if too few of them fit."""
    return imagined(state, _parts(state, pods), FOREVER) if pods else None


def _parts(state: State, pods: Sequence[PodView]) -> list[Gathered]:
    """The pods by the group that they say; who says none goes with the first."""
    groups: dict[str, Group] = {}
    waiting: dict[str, list[PodView]] = {}
    said = [group_said(pod, by_owner=state.settings.group.by_owner)[0] for pod in pods]
    other = next(filter(None, said), Group(f"{pods[0].namespace}/dry-run", "linkwise", len(pods)))
    for pod, named in zip(pods, said, strict=True):
        group = named or other
        if group.key not in groups:
            groups[group.key] = state.groups.complete(pod, group)
        waiting.setdefault(group.key, []).append(pod)
    return [_gathered(state, group, waiting[key]) for key, group in groups.items()]


def _gathered(state: State, group: Group, pods: Sequence[PodView]) -> Gathered:
    known = gathered(state, group.key)
    bound = known.bound if known else ()
    there = {pod.uid for pod in bound}
    return Gathered(group, tuple(pod for pod in pods if pod.uid not in there and not pod.node), bound)
