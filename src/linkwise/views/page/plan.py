"""A plan on the page: where the pods of a manifest would go, or why they do not fit; nothing is created or reserved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.explain.group.group import explain_new_pods
from linkwise.explain.pod import explain_new_pod
from linkwise.explain.text.group import group_lines
from linkwise.views.page.documents import PlannedPod, PlanPage
from linkwise.views.page.group import explained_group
from linkwise.views.page.pod import explained_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from linkwise.explain.reports import GroupExplanation
    from linkwise.model.views import PodView
    from linkwise.views.cluster import ClusterView
    from linkwise.views.page.documents import ManifestError

__all__ = ["FILE_SOURCE", "plan_page"]

FILE_SOURCE: Final = "file"
"""source of groups that exist only because their pods are in one file"""

APART: Final = "nodes of the groups before it in the manifest are left out"


def plan_page(
    cluster: ClusterView,
    groups: Sequence[Sequence[PodView]],
    made: Collection[str],
    errors: Sequence[ManifestError] = (),
) -> PlanPage:
    """Plan groups of pods that do not exist, each on nodes that the ones before leave alone.

    `made` are the keys of groups that no label defines.
    """
    explained: list[GroupExplanation] = []
    taken = set[str]()
    singles = []
    for pods in groups:
        for found in explain_new_pods(cluster.broker, pods, cluster.now, cluster.only, taken):
            group = replace(found, source=FILE_SOURCE) if found.key in made else found
            if taken and not group.whole:
                group = replace(group, notes=(*group.notes, APART))
            taken.update(host.name for host in group.hosts)
            explained.append(group)
        if len(pods) == 1:
            singles.append(explain_new_pod(cluster.broker, pods[0], cluster.now, cluster.only))
    pages = [explained_group(group, group_lines(group, in_file=True), in_file=True) for group in explained]
    first = next((page for page, group in zip(pages, explained, strict=True) if not group.whole), pages[0])
    lines = [line for page in pages for line in (*([] if page is first else [page.headline]), *page.lines)]
    return PlanPage(
        tuple(errors),
        first.headline,
        tuple(lines),
        tuple(
            PlannedPod(member.name, member.node, member.indices)
            for group in explained
            for member in group.members
            if member.node
        ),
        tuple(pages),
        tuple(explained_pod(cluster, single) for single in singles),
    )
