"""Rank tables of Ascend jobs: complete once every pod of a job that requests chips has them, initializing until then."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.broker.effects import RankTable
from linkwise.dialects.ascend.dialect import requested_chips
from linkwise.dialects.ascend.rank_table import (
    INITIALIZING,
    Ranks,
    config_map_name,
    rank_index,
    read_ranks,
    table_job,
    table_text,
)
from linkwise.model.views import FINISHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.state import State
    from linkwise.model.views import PodView

__all__ = ["rank_tables"]

_PART: Final = re.compile(r"([0-9]+)")


def rank_tables(state: State) -> tuple[RankTable, ...]:
    """Return the rank table of each job whose pods want one, whether or not it is written already."""
    if not state.settings.rank_tables:
        return ()
    jobs: dict[tuple[str, str], list[PodView]] = {}
    for pod in state.cluster.pods.values():
        if pod.phase not in FINISHED and not pod.deleting and (job := table_job(pod)):
            jobs.setdefault((pod.namespace, job), []).append(pod)
    return tuple(
        RankTable(namespace, config_map_name(job), _table(state, pods), tuple(sorted(pod.uid for pod in pods)))
        for (namespace, job), pods in sorted(jobs.items())
    )


def _table(state: State, pods: Sequence[PodView]) -> str:
    """The table of a job; pods that request no chips, such as a parameter server, have no rank."""
    groups = [state.groups.complete(pod, group) for pod in pods if (group := state.group_said(pod)[0])]
    wanted = max((group.total or group.minimum or 1 for group in groups), default=1)
    members = [pod for pod in pods if requested_chips(pod)]
    entries = {pod.uid: read_ranks(pod, requested_chips(pod)) for pod in members}
    known = {uid: entry for uid, entry in entries.items() if isinstance(entry, Ranks)}
    if len(pods) < wanted or not members or len(known) < len(members):
        return INITIALIZING
    return table_text([known[pod.uid] for pod in _ranked(state, members)])


def _ranked(state: State, pods: Sequence[PodView]) -> list[PodView]:
    """The pods in the order of their ranks: by annotation, else by their index in the job, else by name."""
    indices = {pod.uid: rank_index(pod) for pod in pods}
    if None in indices.values():
        said = {pod.uid: state.group_said(pod)[0] for pod in pods}
        indices = {uid: group.rank if group else None for uid, group in said.items()}
    if None in indices.values() or len(set(indices.values())) < len(pods):
        return sorted(pods, key=lambda pod: _natural(pod.name))
    return sorted(pods, key=lambda pod: indices[pod.uid] or 0)


def _natural(name: str) -> list[tuple[int, str]]:
    """A name whose numbers are compared as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _PART.split(name)]
