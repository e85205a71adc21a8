"""What a plan for some pods would be now, whether they are in the cluster or not; nothing is kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.broker.group_book import Gathered
from linkwise.broker.group_planning import start
from linkwise.dialects.groups import group_of
from linkwise.model.group import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State
    from linkwise.engine.groups.plan import Plan
    from linkwise.model.views import PodView

__all__ = ["dry_plan"]

FOREVER = 1 << 40


def dry_plan(state: State, pods: Sequence[PodView]) -> Plan | None:
    """The plan for these pods as one group; None if too few of them fit."""
    if not pods:
        return None
    known = [group for pod in pods if (group := group_of(pod)[0])]
    group = known[0] if known else Group(f"{pods[0].namespace}/dry-run", "linkwise", len(pods))
    run = start(state, group.key, Gathered(group, tuple(pods)))
    run.advance(FOREVER)
    return run.plan
