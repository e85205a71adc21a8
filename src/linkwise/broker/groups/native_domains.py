"""Candidate domains of native PodGroups: kube-scheduler tries the members in one domain after the other, then binds them.

It names only nodes of that domain, does not tell which domains follow, and takes any domain in which all members fit. A
plan is therefore not made again for each of them: members are accepted in the planned domain alone. If that domain is never
named, filters of kube-scheduler rule it out, and the group is planned in those that were named.
Source: contract kube-scheduler-extender, section 10.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.groups.reservations import hold_time, move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.records.members import Limits
    from linkwise.broker.state import State
    from linkwise.model.ask import Group

__all__ = ["domain_level", "is_other_domain", "note_other_domain", "note_planned_domain", "within_offered"]

NATIVE: Final = "kubernetes"
OFFER_TIME: Final = 1.0  # seconds
"""after the last call for another domain, until the planned one counts as ruled out"""


def domain_level(group: Group) -> str:
    """Return the node label whose values kube-scheduler tries one after the other; empty if it tries all nodes at once."""
    if group.source != NATIVE:
        return ""
    return next((wish.level for wish in group.network if wish.required), "")


def is_other_domain(state: State, group: Group, planned: str, names: Sequence[str]) -> bool:
    """Return whether all named nodes are in other domains than the planned one."""
    level, nodes = domain_level(group), state.cluster.nodes
    domain = nodes[planned].labels.get(level) if level and names and planned in nodes else None
    return domain is not None and all(name in nodes and nodes[name].labels.get(level) != domain for name in names)


def note_other_domain(state: State, key: str, uid: str, names: Sequence[str], now: float) -> bool:
    """Note the nodes of another domain; the plan ends soon unless its own domain is named.

    Return whether they were named before: all domains were tried, and the planned one was not among them.
    """
    stage = state.groups.plan_of(key)
    if stage is None or stage.limits.named:
        return False
    known = stage.limits.offered.get(uid, frozenset())
    if known.issuperset(names):
        return True
    limits = replace(stage.limits, offered={**stage.limits.offered, uid: known.union(names)})
    move(state, key, "change", replace(stage, limits=limits, expires=now + OFFER_TIME))
    return False


def note_planned_domain(state: State, key: str, now: float) -> None:
    """Note that the planned domain can be used: the plan lasts as long as any other."""
    stage, view = state.groups.plan_of(key), state.groups.view(key)
    if stage is None or view is None or stage.limits.named:
        return
    hold, limits = hold_time(state, view.group), replace(stage.limits, offered={}, named=True)
    move(state, key, "change", replace(stage, limits=limits, expires=now + hold, hold=hold))


def within_offered(limits: Limits) -> Limits:
    """Return limits by which members go to the domains that were named for them."""
    return replace(limits, allowed={**limits.allowed, **limits.offered})
