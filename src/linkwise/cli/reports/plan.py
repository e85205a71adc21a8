"""Plans the groups of a job file on a cluster, one after the other, and prints tables, a device map, JSON or YAML."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.cli.inputs.fleet import fleet_of
from linkwise.cli.inputs.job_pods import note
from linkwise.cli.inputs.snapshot import current_cluster, load_broker
from linkwise.cli.options.io import file_name
from linkwise.cli.render.documents import list_document, print_data
from linkwise.cli.render.pages import print_page
from linkwise.cli.render.tables import terminal
from linkwise.dialects.groups.membership import group_of
from linkwise.dialects.groups.pod_group_objects import gang_name
from linkwise.engine.reasons.phrases import count_text
from linkwise.errors import InputError
from linkwise.explain.group.group import explain_group
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.reports import FILE_SOURCE
from linkwise.explain.text.group import group_lines
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.views.blocks import plain
from linkwise.views.description import group_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.explain.inspect import NodeInspection
    from linkwise.explain.reports import GroupExplanation
    from linkwise.manifests.job_pods import JobFile
    from linkwise.model.node import Mode
    from linkwise.model.views import PodView

__all__ = ["Planned", "cluster_of", "plan_groups", "show"]

STEPS: Final = 100_000
"""per call; no other work waits for a turn meanwhile, as it does in the service"""
AGE_STEP: Final = 0.001  # seconds between the creation times of two pods of a file
_INSTEAD: Final = "--on FILE or --fleet dgx1-v100=4 plan without a cluster"
_MODES: Final[dict[str, Mode]] = {
    "": "any",
    "whole": "whole",
    "share": "share",
    "percent": "percent",
    "dra": "whole",  # devices are planned alike, whatever publishes them
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A group with its plan or the reasons against one, and the nodes that could serve it, with the plan applied."""

    group: GroupExplanation
    nodes: tuple[NodeInspection, ...]


def cluster_of(on: str | None, fleet: str | None, kubeconfig: Path | None, context: str | None) -> tuple[Broker, float]:
    """Return a broker for a cluster plus a fleet, and the time of that cluster.

    The cluster is that of a file (`-` for standard input); without a file and a fleet, or if a kubeconfig or a context is
    named, it is that of the kubeconfig.
    """
    live = kubeconfig is not None or context is not None
    if on is not None and live:
        raise InputError("--on FILE can't be used together with --kubeconfig or --context")
    if on is not None:
        broker, now, where = *load_broker(on), file_name(on)
    elif live or fleet is None:
        broker, now = current_cluster(kubeconfig, context, _INSTEAD)
        where = "the cluster"
    else:
        broker, now, where = Broker(), 0.0, ""
    if fleet is not None:
        broker.observe(list(_machines(fleet, broker.nodes)), now)
    if not broker.nodes:
        raise InputError(f"{where}: contains no nodes; --fleet adds some to plan on")
    return broker, now


def plan_groups(job: JobFile, broker: Broker, now: float) -> Iterator[Planned]:
    """Plan each group on the devices that the previous ones left."""
    broker.observe(job.objects, now)
    _replace_pending(job, broker, now)
    groups = [[replace(pod, created=now + AGE_STEP * place) for place, pod in enumerate(group)] for group in job.groups]
    for pods in groups:
        broker.observe(pods, now)
        uid = pods[0].uid
        # Gangs of one bundle are planned only once all of them are observed.
        bundle = broker.bundle_of(broker.group_of(uid))
        for others in groups if bundle else ():
            if _gang(others[0]) in bundle:
                broker.observe(others, now)
        # As with a scheduler, filtering the first member creates the plan for all members.
        broker.filter(pods[0], sorted(broker.nodes), now)
        while broker.is_planning(broker.group_of(uid)):
            broker.step(now, STEPS)
        group = explain_group(broker, uid, now)
        if group:
            answer = _as_what_if(group)
            own = replace(answer, source=FILE_SOURCE) if group.key in job.made else answer
            served = {name for pod in pods for name in broker.serving_nodes(pod)} | {host.name for host in own.hosts}
            yield Planned(own, tuple(node for node in inspect_nodes(broker, None, now) if node.name in served))


def show(planned: Sequence[Planned], *, explain: bool, form: str | None) -> None:
    """Print all groups in the order in which they were planned."""
    if form == "name":
        sys.stdout.write("".join(f"group/{plan.group.key}\n" for plan in planned))
        return
    if form in {"json", "yaml"}:
        print_data(list_document("Plan", (_document(plan.group, explain=explain) for plan in planned)), form)
        return
    console = terminal()
    for number, plan in enumerate(planned):
        if number:
            console.print()
        print_page(console, group_page(plan.group, plan.nodes, explain=explain, wide=form == "wide", in_file=True))


def _machines(text: str, known: Iterable[str]) -> Iterator[WatchEvent]:
    """Yield the nodes of a fleet such as `dgx1-v100=4,hgx-h100/share=2`, with names that the cluster does not use."""
    taken = set(known)
    for machine, count in fleet_of(text).items():
        name, _, mode = machine.partition("/")
        width = len(str(count - 1))  # as `linkwise up` numbers them
        names = (f"{machine.replace('/', '-')}-{number:0{width}}" for number in itertools.count())
        for node in itertools.islice((one for one in names if one not in taken), count):
            yield from fleet_node(profile(name), node, mode=_MODES[mode])


def _replace_pending(job: JobFile, broker: Broker, now: float) -> None:
    """Remove the pending pods of a group that is in the file too: with them, it would be planned twice over."""
    keys = {group.key for pods in job.groups if (group := group_of(pods[0])[0])}
    same: dict[str, list[PodView]] = {}
    for pod in broker.pods.values():
        group, _ = group_of(pod)
        if group and group.key in keys:
            same.setdefault(group.key, []).append(pod)
    for key, pods in same.items():
        pending, bound = [pod for pod in pods if not pod.node], [pod for pod in pods if pod.node]
        broker.observe([PodDeleted(pod.uid) for pod in pending], now)
        if pending:
            of = f"{count_text(len(pending), 'pending pod')} of group {key}"
            note(f"{of} in the cluster {'is' if len(pending) == 1 else 'are'} replaced by those of the file")
        if bound:
            of = f"{count_text(len(bound), 'bound pod')} of group {key}"
            note(f"{of} in the cluster {'counts as a member' if len(bound) == 1 else 'count as members'}")


def _gang(pod: PodView) -> str:
    group, _ = group_of(pod)
    return gang_name(pod, group) if group else ""


def _as_what_if(group: GroupExplanation) -> GroupExplanation:
    """Return the plan as a what-if answer: nothing is reserved."""
    if group.stage != "reserved":
        return group
    members = tuple(
        replace(member, state="schedulable") if member.state == "planned" else member for member in group.members
    )
    return replace(group, stage="schedulable", held=0.0, members=members)


def _document(group: GroupExplanation, *, explain: bool) -> dict[str, object]:
    counted = {"there": group.there, "missing": group.missing, "whole": group.whole}
    return {**plain(group), **counted, "why": group_lines(group, in_file=True) if explain else []}
