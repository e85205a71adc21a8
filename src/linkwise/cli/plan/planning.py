"""Groups of a file planned on a cluster, one after the other."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.assembly.snapshot_reader import load_broker
from linkwise.broker.broker import Broker
from linkwise.broker.sample_nodes import fleet_node
from linkwise.cli.inputs.fleet import fleet_of
from linkwise.cli.options.files import file_name
from linkwise.dialects.groups.membership import group_of
from linkwise.dialects.groups.pod_group_objects import gang_name
from linkwise.errors import InputError
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.cli.inputs.job_pods import JobFile
    from linkwise.explain.inspect import NodeInspection
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.model.node import Mode
    from linkwise.model.views import PodView

__all__ = ["Planned", "cluster_of", "plan_groups"]

STEPS: Final = 100_000
SOON: Final = 0.001  # seconds between two pods of a file
MADE: Final = "file"
"""whose convention makes a group of pods that say nothing of one"""
_MODES: Final[dict[str, Mode]] = {"": "any", "whole": "whole", "share": "share", "percent": "percent"}


@dataclass(frozen=True, slots=True)
class Planned:
    """A group with its plan, or why there is none, and the nodes as they are then."""

    told: GroupExplanation
    nodes: tuple[NodeInspection, ...]


def cluster_of(on: str | None, fleet: str | None) -> tuple[Broker, float]:
    """A broker that knows the cluster of a file, `-` for standard input, with machines beside it; and the time there."""
    if on is None and fleet is None:
        raise InputError("name a cluster: --on FILE, or machines: --fleet dgx1-v100=4")
    broker, now = (Broker(), 0.0) if on is None else load_broker(on)
    if fleet is not None:
        broker.observe(list(_machines(fleet, broker.state.cluster.nodes)), now)
    if not broker.state.cluster.nodes:
        raise InputError(f"{file_name(on or '')}: no node in it")
    return broker, now


def plan_groups(job: JobFile, broker: Broker, now: float) -> Iterator[Planned]:
    """Each group on what those before it left."""
    broker.observe(job.objects, now)
    groups = [[replace(pod, created=now + SOON * place) for place, pod in enumerate(group)] for group in job.groups]
    for pods in groups:
        broker.observe(pods, now)
        uid = pods[0].uid
        # Gangs that start together are not planned before all of them are there.
        bundle = broker.state.groups.bundle_of(broker.state.groups.key_of(uid))
        for others in groups if bundle else ():
            if _gang(others[0]) in bundle:
                broker.observe(others, now)
        # As a scheduler would: the first member that is tried brings the plan about, and it holds for those after.
        broker.filter(pods[0], sorted(broker.state.cluster.nodes), now)
        while broker.state.groups.key_of(uid) in broker.state.runs:
            broker.step(now, STEPS)
        told = broker.explain_group(uid, now)
        if told:
            asked = _as_asked(told)
            own = replace(asked, source=MADE) if told.key in job.made else asked
            yield Planned(own, broker.inspect(None, now))


def _gang(pod: PodView) -> str:
    group, _ = group_of(pod)
    return gang_name(pod, group) if group else ""


def _as_asked(told: GroupExplanation) -> GroupExplanation:
    """The plan as an answer to a question: nothing is held for anybody."""
    if told.stage != "held":
        return told
    members = tuple(replace(member, state="fits") if member.state == "planned" else member for member in told.members)
    return replace(told, stage="fits", held=0.0, members=members)


def _machines(text: str, known: Iterable[str]) -> Iterator[WatchEvent]:
    """Nodes as `dgx1-v100=4,hgx-h100/share=2` or a file names them, called as no node of the cluster is."""
    there = set(known)
    for machine, count in fleet_of(text).items():
        name, _, mode = machine.partition("/")
        width = len(str(count - 1))  # as `linkwise up` counts them
        called = (f"{machine.replace('/', '-')}-{number:0{width}}" for number in itertools.count())
        for node in itertools.islice((one for one in called if one not in there), count):
            yield from fleet_node(profile(name), node, mode=_MODES[mode])
