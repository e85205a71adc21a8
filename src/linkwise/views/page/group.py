"""A group on the page: its members, the nodes they share, the levels of its plan, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.errors import NotFoundError
from linkwise.explain.group.group import explain_group
from linkwise.explain.published.lists import named
from linkwise.explain.text.group import (
    NOT_PROVEN,
    SLOWEST,
    lack_lines,
    level_text,
    never_text,
    remark_lines,
    remedy_text,
    speed_text,
)
from linkwise.explain.text.pod import explanation_lines
from linkwise.views.page.documents import GroupHost, GroupMember, GroupPage, GroupRemedyCard, Level
from linkwise.views.page.pod import amounts_of, refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.explain.reports import GroupExplanation, PlanLevel
    from linkwise.views.cluster import ClusterView

__all__ = ["explained_group", "group_page"]

IN_PLACE: Final = frozenset({"bound", "binding", "terminating"})
"""states of members that are not part of a plan"""


def group_page(cluster: ClusterView, namespace: str, name: str) -> GroupPage:
    """Describe a group; NotFoundError suggests similar names."""
    key = cluster.group(namespace, name)
    explanation = explain_group(cluster.broker, key, cluster.now, readable=cluster.only)
    if explanation is None:
        raise NotFoundError(f"group {namespace}/{name} not found")
    return explained_group(explanation, explanation_lines(explanation))


def explained_group(group: GroupExplanation, sentences: Sequence[str], *, in_file: bool = False) -> GroupPage:
    """Describe a group that is explained already; `sentences` are all that is said about it."""
    namespace, name = named(group.key)
    headline, *lines = sentences
    speeds = [host.bottleneck for host in group.hosts if host.bottleneck is not None]
    return GroupPage(
        namespace,
        name,
        group.source,
        group.stage,
        group.code,
        headline,
        tuple(lines),
        tuple(remark_lines(group, in_file=in_file)),
        group.notes,
        tuple(
            GroupMember(member.name, member.state, member.node, member.indices, member.asks, member.bottleneck)
            for member in group.members
        ),
        group.missing,
        tuple(GroupHost(host.name, host.members, host.devices, host.bottleneck) for host in group.hosts),
        tuple(Level(level.name, text) for level in group.levels if (text := _level(level, group))),
        round(group.held, 1),
        speed_text(min(speeds)) if speeds else "",
        tuple(lack_lines(group)),
        group.fitting,
        refusals(group.against),
        tuple(GroupRemedyCard(remedy_text(remedy), remedy.nodes, amounts_of(remedy.pods)) for remedy in group.remedies),
        never_text(group),
    )


def _level(level: PlanLevel, group: GroupExplanation) -> str:
    """Return the result of a plan in one level; bandwidths as in the table of the nodes, where the plan compares classes of them."""
    text = level_text(level, group)
    mixed = any(member.state in IN_PLACE for member in group.members)  # the plan is one of other members
    if not text or level.name not in SLOWEST or not level.value[0] or mixed:
        return text
    speeds = [
        one.bottleneck for one in (group.hosts if level.name == "bottleneck" else group.members) if one.bottleneck
    ]
    proven = "" if level.proven else NOT_PROVEN
    return f"{SLOWEST[level.name]} {speed_text(min(speeds))}{proven}" if speeds else text
