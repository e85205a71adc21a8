"""Queries that decide nothing: admission, dry runs, preferred devices, and a vendor for requests that any can serve.

`preferred` returns the devices that kubelet should allocate: those that the scheduler chose, or would choose.

The resources of a pod can't be changed once it exists, so a request for any vendor is replaced at admission by the resource
of the vendor that can serve it best at that moment. A pod that no vendor can serve is refused, with the reason of each.
Source: seed 002, V3 (device-agnostic images).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import not_permitted, refused_on
from linkwise.broker.candidates import Candidates, misfit, needed_by
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.kubelet_choice import choose_available
from linkwise.broker.cluster.pod_request import is_volcano, job_refusal
from linkwise.broker.effects import Additions, Admission, DryRun
from linkwise.broker.groups.planning.priority import trial_plan
from linkwise.broker.records.members import GroupView, with_all_members
from linkwise.broker.scheduling.new_claims import claim_of_new, foreign_claim
from linkwise.dialects.groups.pod_group_objects import points_to_pod_group
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.dialects.linkwise.accelerator_policy import creator_annotations, subject_of
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.pod_resources import resources_of, with_resources_renamed
from linkwise.dialects.registry import DIALECTS, owners, renamed_resources, share_defaults
from linkwise.engine.access import RULE as ACCESS
from linkwise.engine.feasibility import unfit
from linkwise.engine.index.node_index import judge
from linkwise.engine.reasons.catalog import refusal, short_refusal
from linkwise.engine.requirements import facts_key
from linkwise.model.ask import Group, Load
from linkwise.model.verdict import Offer, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.access import AccessRule
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.access_policy import Requester
    from linkwise.model.node import Node
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = [
    "VendorChoice",
    "additions",
    "admit",
    "admit_job",
    "choose_vendor",
    "creator",
    "dry_plan",
    "dry_run",
    "largest_node",
    "preferred",
    "serving_nodes",
    "split_up",
    "views_of_new",
]

FOREVER: Final = 1 << 40
"""steps of a plan whose caller waits for it, however long it takes"""
MOST_GROUPS: Final = 1000
"""groups of which the choice for the first member is remembered"""


def admit(state: State, pod: PodView, requester: Requester | None = None) -> Admission:
    """Return whether the pod's request is valid for any node, and permitted to its creator.

    A limit of devices at one time refuses only what exceeds it alone; a pod that must wait for others may be created.
    """
    admission, refused = _admission(state, pod, requester)
    if refused is not None and refused.rule == ACCESS:
        # rule 002.access: at admission with the real user.
        state.access.refusals[refused.noun] += 1
    return admission


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


def additions(state: State, pod: PodView, requester: Requester, *, keep: bool = True, review: str = "") -> Additions:
    """Return what a new pod gets beside what its manifest has; without `keep`, nothing is remembered of it."""
    if CLAIM_REQUEST in pod.annotations:  # the webhook is called again, or the annotation is copied from another pod
        return Additions(creator(state, requester), refusal=foreign_claim(state, pod))
    choice = choose_vendor(state, pod, lambda variant: _admission(state, variant, requester)[0].refusal, keep=keep)
    renamed = {**renamed_resources(), **({ACCELERATOR: choice.resource} if choice.resource else {})}
    pod = with_resources_renamed(pod, renamed)
    claim, warning = claim_of_new(state, pod, review) if review else (None, "")
    return Additions(
        creator(state, requester),
        _default_shares(pod, _rule_of(state, pod, requester)),
        _is_in_gang(state, pod),
        _is_planned_for_volcano(state, pod),
        renamed,
        choice.refusal,
        claim,
        warning,
    )


def creator(state: State, requester: Requester) -> dict[str, str]:
    """Return the annotations that record who created a pod or a workload."""
    return creator_annotations(requester.user, requester.groups, state.cluster.shared.access.groups)


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


@dataclass(frozen=True, slots=True)
class VendorChoice:
    """The resource that replaces the request, or why there is none."""

    resource: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class _Option:
    resource: str
    refusal: str = ""
    """why no node could serve the request, even if it were idle"""
    fits: bool = False
    """whether a node fits now"""
    room: int = 0  # idle devices of nodes that could serve it, less those that pending pods request
    devices: int = 0  # of these nodes, in use or not

    def rank(self, needed: int, *, group: bool) -> tuple[bool, bool, int]:
        """The larger the better. Members of a group may be created through several replicas, whose watches differ by moments."""
        return self.fits, self.room >= needed, self.devices if group else self.room


def choose_vendor(state: State, pod: PodView, admitted: Callable[[PodView], str], *, keep: bool = True) -> VendorChoice:
    """Return the vendor's resource for a pod; both fields are empty if it does not request devices of any vendor.

    A vendor whose devices fit now goes first, then one with room for the pods that are pending already, then the most
    room, or for a group the most devices. Members of a group get the resource of those that exist; with `keep`, also of one
    that is created now and that the watch has not delivered. `admitted` returns why a request is refused whatever the nodes,
    or an empty text.
    """
    requested = [name for name in resources_of(pod) if owners(name)]
    if requested != [ACCELERATOR]:
        return VendorChoice()  # none, or several systems in one pod, which validation refuses
    options = [_option(state, pod, resource, names, admitted) for resource, names in sorted(_serving(state).items())]
    serving = [option for option in options if not option.refusal]
    if not serving:
        return VendorChoice(refusal=_no_vendor(options))
    # rule 002.agnostic: whichever vendor's devices fit.
    group = state.group_said(pod)[0]
    key = group.key if group else ""
    taken = _resource_of_group(state, key) or state.vendors.get(key, ("", None))[0]
    if any(option.resource == taken for option in serving):
        return VendorChoice(taken)
    needed = _devices_needed(state, pod, serving[0].resource)
    chosen = max(serving, key=lambda option: option.rank(needed, group=bool(key))).resource
    if key and keep:
        state.vendors[key] = (chosen, None)
        if len(state.vendors) > MOST_GROUPS:
            del state.vendors[next(iter(state.vendors))]
    return VendorChoice(chosen)


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


def _is_admitted(query: Query, devices: int) -> bool:
    part = replace(query.ask.containers[0], devices=devices)
    return query.policy.admit(replace(query.ask, containers=(part,), required=())) is None


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


def _view_of(state: State, group: Group, pods: Sequence[PodView]) -> GroupView:
    view = state.groups.view(group.key)
    bound = view.bound if view else ()
    there = {pod.uid for pod in bound}
    waiting = tuple(pod for pod in pods if pod.uid not in there and not pod.node)
    group = with_all_members(group, len(waiting) + len(bound))
    return GroupView(group, waiting, bound, satisfied=view is not None and view.satisfied)


def _option(
    state: State, pod: PodView, resource: str, names: Sequence[str], admitted: Callable[[PodView], str]
) -> _Option:
    variant = with_resources_renamed(pod, {ACCELERATOR: resource})
    if refused := admitted(variant):
        return _Option(resource, refused)
    query = state.query(variant)
    if query is None:
        return _Option(resource, f"the request is not valid for {resource}")
    capable, refused = _capable(state, variant, query, names)
    if not capable:
        return _Option(resource, refused)
    demand = needed_by(state.cluster, variant)
    fitting = Candidates(state, query, pod.uid, state.settings.budget).scores(capable)
    fits = any(misfit(state.cluster, variant, demand, name) is None for name in fitting)
    nodes = [state.cluster.index.nodes[name] for name in capable]
    room = sum(len(node.free()) for node in nodes) - _pending(state, resource)
    return _Option(resource, fits=fits, room=room, devices=sum(len(node.devices) for node in nodes))


def _capable(state: State, pod: PodView, query: Query, names: Iterable[str]) -> tuple[list[str], str]:
    """The nodes that could serve the pod if they were idle, and the most frequent reason why the others could not."""
    demand = demand_of(pod)[0]
    verdicts: dict[tuple[object, ...], Reason | None] = {}
    capable: list[str] = []
    reasons: Counter[str] = Counter()
    for name in names:
        node, view = state.cluster.index.nodes[name], state.cluster.nodes[name]
        reason = unfit(demand, view, capacity_of(view), Load())
        if reason is None:
            words = state.cluster.inventories[name].words
            devices = tuple([(device.healthy, device.reachable, device.numa) for device in node.devices])
            links = node.topology and node.topology.links
            kind = (words, node.mode, node.profile, facts_key(node), devices, links, node.alignment)
            if kind not in verdicts:
                verdicts[kind] = _idle_refusal(query, node, words)
            reason = verdicts[kind]
        if reason is None:
            capable.append(name)
        else:
            reasons[short_refusal(reason)] += 1
    return capable, "".join(f"{count} {text}" for text, count in reasons.most_common(1))


def _idle_refusal(query: Query, node: Node, words: frozenset[str]) -> Reason | None:
    idle = replace(node, used={}, unattributed=0, unattributed_share=0, unattributed_core=0)
    verdict = judge(query, idle, words)
    return verdict.reason if isinstance(verdict, Reject) else None


def _pending(state: State, resource: str) -> int:
    """Devices of the resource that pods without a node request."""
    waiting = (pod for pod in state.cluster.pods.values() if not pod.node and resource in resources_of(pod))
    return sum(ask.devices for pod in waiting if (ask := state.request(pod).ask))


def _serving(state: State) -> dict[str, list[str]]:
    """The nodes that provide each resource of whole devices."""
    old = renamed_resources()
    resources = {
        resource for dialect in DIALECTS if dialect.vendor for resource in dialect.whole_devices if resource not in old
    }
    nodes: dict[str, list[str]] = {}
    for name in state.cluster.index.nodes.keys() & state.cluster.nodes.keys():
        for resource in state.cluster.inventories[name].words & resources:
            nodes.setdefault(resource, []).append(name)
    return nodes


def _no_vendor(options: Sequence[_Option]) -> str:
    if not options:
        return f"{ACCELERATOR}: no node provides devices of any vendor; see `linkwise get nodes`"
    reasons = "; ".join(f"{option.resource}: {option.refusal}" for option in options)
    return f"{ACCELERATOR}: no vendor's devices can serve this request. {reasons}"


def _resource_of_group(state: State, key: str) -> str:
    """The resource that members of the group were given; empty if there are none."""
    view = state.groups.view(key)
    members = (*view.bound, *view.waiting) if view else ()
    return next((ask.resource for member in members if (ask := state.request(member).ask)), "")


def _devices_needed(state: State, pod: PodView, resource: str) -> int:
    """Devices of the pod, or of its complete group if the number of members is known."""
    ask = state.request(with_resources_renamed(pod, {ACCELERATOR: resource})).ask
    group = state.group_said(pod)[0]
    members = (group.total or group.minimum or 1) if group else 1
    return members * (ask.devices if ask else 0)
