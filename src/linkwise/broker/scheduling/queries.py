"""Queries that decide nothing: admission, dry runs, preferred devices, dry plans.

`preferred` returns the devices that kubelet should allocate: those that the scheduler chose, or would choose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access.enforcement import not_permitted, refused_on
from linkwise.broker.answers import Additions, Admission, DryRun
from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.cluster.job_request import job_refusal
from linkwise.broker.cluster.kubelet_choice import choose_available
from linkwise.broker.groups.planning.priority import trial_plan
from linkwise.broker.records.members import GroupView, with_all_members
from linkwise.broker.scheduling.any_vendor import choose_vendor
from linkwise.broker.volcano.scope import is_volcano
from linkwise.dialects.groups.pod_group_objects import points_to_pod_group
from linkwise.dialects.linkwise.accelerator_policy import subject_of
from linkwise.dialects.linkwise.creator import creator_annotations
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.pod_resources import with_resources_renamed
from linkwise.dialects.registry import renamed_resources, share_defaults
from linkwise.engine.access import RULE as ACCESS
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.ask import Group
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.access import AccessRule
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.requester import Requester
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = [
    "additions",
    "admit",
    "admit_job",
    "creator",
    "dry_plan",
    "dry_run",
    "largest_node",
    "preferred",
    "serving_nodes",
    "split_up",
    "views_of_new",
]


def admit(state: State, pod: PodView, requester: Requester | None = None) -> Admission:
    """Return whether the pod's request is valid for any node, and permitted to its creator.

    A limit of devices at one time refuses only what exceeds it alone; a pod that must wait for others may be created.
    """
    admission, refused = _admission(state, pod, requester)
    if refused is not None and refused.rule == ACCESS:
        # rule 002.access: at admission with the real user.
        state.access.refusals[refused.noun] += 1
    return admission


def _admission(state: State, pod: PodView, requester: Requester | None) -> tuple[Admission, Reason | None]:
    """Return the same, with the reason of a refusal, and count nothing."""
    rule = _rule_of(state, pod, requester)
    defaults = _default_shares(pod, rule)  # the pod of a template gets them when it is created
    request = state.request(_with_defaults(pod, defaults) if defaults else pod)
    if request.ask is None:
        broken = request.broken
        warnings = tuple(problem for problem in request.problems if problem is not broken)
        return Admission(broken.text if broken else "", warnings), None
    refused = state.policies[request.policy].admit(request.ask) or (rule.refusal(request.ask) if rule else None)
    return Admission(refusal(refused) if refused else "", request.problems), refused


def largest_node(state: State, query: Query) -> int:
    """Return the most devices that a node has of those that the query asks for, in use and unhealthy ones included."""
    nodes = state.cluster.index.nodes
    return max((len(nodes[name].devices) for name in serving_nodes(state, query)), default=0)


def serving_nodes(state: State, query: Query) -> list[str]:
    """Return the nodes that have devices of the kind that the query asks for, in its sharing mode, free or not."""
    index, modes = state.cluster.index, {"any", query.ask.mode}
    nodes = state.pausing(list(index.nodes.items()))
    return [name for name, node in nodes if node.mode in modes and not index.unserved(query, name)]


def split_up(query: Query, largest: int) -> tuple[int, int]:
    """Return into how many pods a request is split that no node can serve, and the devices of each.

    The fewest pods that have equal parts; with a remainder if only single devices would be equal. Zeros if the policy
    admits no part.
    """
    asked = query.ask.devices
    sizes = [size for size in range(min(largest, asked - 1), 0, -1) if _is_admitted(query, size)]
    size = next((size for size in sizes if size > 1 and asked % size == 0), sizes[0] if sizes else 0)
    return (-(-asked // size), size) if size else (0, 0)


def _is_admitted(query: Query, devices: int) -> bool:
    part = replace(query.ask.containers[0], devices=devices)
    return query.policy.admit(replace(query.ask, containers=(part,), required=())) is None


def additions(state: State, pod: PodView, requester: Requester, *, keep: bool = True) -> Additions:
    """Return what a new pod gets beside what its manifest has; without `keep`, nothing is remembered of it."""
    choice = choose_vendor(state, pod, lambda variant: _admission(state, variant, requester)[0].refusal, keep=keep)
    renamed = {**renamed_resources(), **({ACCELERATOR: choice.resource} if choice.resource else {})}
    pod = with_resources_renamed(pod, renamed)
    return Additions(
        creator(state, requester),
        _default_shares(pod, _rule_of(state, pod, requester)),
        _is_in_gang(state, pod),
        _is_planned_for_volcano(state, pod),
        renamed,
        choice.refusal,
    )


def creator(state: State, requester: Requester) -> dict[str, str]:
    """Return the annotations that record who created a pod or a workload."""
    return creator_annotations(requester.user, requester.groups, state.cluster.shared.access.groups)


def _is_in_gang(state: State, pod: PodView) -> bool:
    """Return whether a pod must start together with others; kube-scheduler gates the pods of its own PodGroups by itself."""
    group = None if pod.scheduling_group else state.group_said(pod)[0]
    return group is not None and (group.is_gang or points_to_pod_group(pod, group))


def _is_planned_for_volcano(state: State, pod: PodView) -> bool:
    """Return whether the devices of a pod of Volcano are planned, in a gang or alone.

    Members without devices need no node of their own: Volcano starts the gang as a whole, and tries them when the gates of
    the others are removed.
    """
    return state.settings.group.gates and is_volcano(state.settings, pod) and state.request(pod).ask is not None


def _rule_of(state: State, pod: PodView, requester: Requester | None) -> AccessRule | None:
    rules = state.cluster.shared.access
    return rules.rule(subject_of(pod, requester)) if rules else None


def _default_shares(pod: PodView, rule: AccessRule | None) -> Mapping[str, Mapping[str, str]]:
    return share_defaults(pod, rule.default_share) if rule and rule.default_share else {}


def _with_defaults(pod: PodView, defaults: Mapping[str, Mapping[str, str]]) -> PodView:
    containers = (
        replace(
            container,
            requests={**container.requests, **defaults[container.name]},
            limits={**container.limits, **defaults[container.name]},
        )
        if container.name in defaults
        else container
        for container in pod.containers
    )
    return replace(pod, containers=tuple(containers))


def admit_job(state: State, tasks: Sequence[tuple[str, int, PodView]], requester: Requester | None = None) -> Admission:
    """Return whether every pod of a job is valid, and the hardware supports the shape of the job.

    Args:
        state: of the broker
        tasks: name of the task, number of its pods, and one of them
        requester: who creates the job, if that is known
    """
    admissions = [admit(state, pod, requester) for _, _, pod in tasks]
    warnings = tuple(dict.fromkeys(warning for admission in admissions for warning in admission.warnings))
    if refused := next((admission.refusal for admission in admissions if admission.refusal), ""):
        return Admission(refused, warnings)
    requests = ((name, count, state.request(pod)) for name, count, pod in tasks)
    misshapen = job_refusal(requests, state.settings.job_shape)
    return Admission(refusal(misshapen) if misshapen else "", warnings)


def dry_run(state: State, pod: PodView, names: Sequence[str] | None = None) -> DryRun:
    """Return where the pod would go now, by devices and all other requirements."""
    known_names = (
        sorted(state.cluster.nodes) if names is None else [name for name in names if name in state.cluster.nodes]
    )
    request = state.request(pod)
    if request.broken:
        return DryRun(None)
    query = state.query_of(request, pod)
    demand = needed_by(state.cluster, pod)
    misfits = {name: reason for name in known_names if (reason := misfit(state.cluster, pod, demand, name))}
    if query is None:
        free = [(name, ()) for name in sorted(known_names) if name not in misfits]
        return DryRun(None, tuple(free), misfits)
    admitted = query.policy.admit(query.ask)
    if admitted:
        return DryRun(None, (), dict.fromkeys(known_names, admitted))
    if state.access and (denied := not_permitted(state, pod, query)):
        return DryRun(None, (), dict.fromkeys(known_names, denied))
    candidates = Candidates(state, query, pod.uid)
    refused = {name: rejected.reason for name in known_names if (rejected := candidates.refusal(name))}
    if state.access:
        refused |= {name: reason for name in known_names if (reason := refused_on(state, pod, query, name))}
    fitting = [
        entry for entry in candidates.scores(known_names).items() if entry[0] not in misfits and entry[0] not in refused
    ]
    stranded = {name: reason for name, reason in misfits.items() if name not in refused}
    ranking = sorted(fitting, key=lambda entry: (tuple(-term for term in entry[1]), entry[0]))
    offer = candidates.pick(ranking[0][0]) if ranking else None
    return DryRun(offer if isinstance(offer, Offer) else None, tuple(ranking), refused | stranded, stranded)


def preferred(state: State, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    """Return that many available devices, including the required ones; empty if that is not possible.

    Allocations of exactly that size take precedence, the oldest first.
    """
    node = state.cluster.index.nodes.get(name)
    if node is None:
        return ()
    ids = {f"#{device.index}": device.id for device in node.devices}
    for entry in sorted(state.cluster.ledger.on(name), key=lambda entry: entry.serial):
        if entry.state not in {"ASSUMED", "ASSIGNED"}:
            continue
        for part in entry.grant.offer.parts:
            picked = tuple(ids.get(device, device) for device in part.devices)  # a record may hold only indices
            if len(picked) == size and set(required) <= set(picked) <= set(available):
                return picked
    words, chosen = state.cluster.inventories[name].words, state.settings.policies
    return choose_available(words, node, available, required, size, policies=state.policies, by_resource=chosen)


FOREVER: Final = 1 << 40


def dry_plan(state: State, pods: Sequence[PodView]) -> Plan | None:
    """Return the plan for these pods as one group, beside bound members; None if too few of them fit."""
    return trial_plan(state, views_of_new(state, pods), FOREVER) if pods else None


def views_of_new(state: State, pods: Sequence[PodView]) -> list[GroupView]:
    """Group pods that do not exist by their declared group, beside its bound members; pods without one join the first."""
    groups: dict[str, Group] = {}
    waiting: dict[str, list[PodView]] = {}
    declared = [state.group_said(pod)[0] for pod in pods]
    other = next(filter(None, declared), Group(f"{pods[0].namespace}/dry-run", "linkwise", len(pods)))
    for pod, named in zip(pods, declared, strict=True):
        group = named or other
        if group.key not in groups:
            groups[group.key] = state.groups.complete(pod, group)
        waiting.setdefault(group.key, []).append(pod)
    return [_view_of(state, group, waiting[key]) for key, group in groups.items()]


def _view_of(state: State, group: Group, pods: Sequence[PodView]) -> GroupView:
    view = state.groups.view(group.key)
    bound = view.bound if view else ()
    there = {pod.uid for pod in bound}
    waiting = tuple(pod for pod in pods if pod.uid not in there and not pod.node)
    group = with_all_members(group, len(waiting) + len(bound))
    return GroupView(group, waiting, bound, satisfied=view is not None and view.satisfied)
