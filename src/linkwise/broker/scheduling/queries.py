"""Questions that change nothing: may this pod be made, where would it go, which evictions would help it.

Which of the devices that kubelet still has it should hand out: what the scheduler picked, or would pick.

What a plan for some pods would be now, whether they are in the cluster or not; nothing is kept of it.
"""
# Joined from asking, preferred, group_asking: one docstring for all.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.answers import Admission, DryRun
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.cluster.pod_request import group_said, policy_for_devices
from linkwise.broker.group_registry import GroupView
from linkwise.broker.groups.planning import gathered
from linkwise.broker.groups.priority import imagined
from linkwise.broker.groups.what_if import Assumption, WhatIf
from linkwise.broker.scheduling.bind import pick_on
from linkwise.broker.unobserved import unseen_member
from linkwise.engine.index.lookup import choices
from linkwise.engine.preemption import eviction_frees_enough
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.ask import Ask, ContainerAsk, Group
from linkwise.model.node import Use
from linkwise.model.verdict import Offer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.views import PodView

__all__ = ["admit", "dry_plan", "dry_run", "preempt", "preferred"]


def admit(state: State, pod: PodView) -> Admission:
    """Whether what the pod says makes sense to any node at all."""
    wish = state.request(pod)
    if wish.ask is None:
        broken = wish.broken
        warnings = tuple(problem for problem in wish.problems if problem is not broken)
        return Admission(str(broken) if broken else "", warnings)
    refused = state.policies[wish.policy].admit(wish.ask)
    return Admission(refusal(refused) if refused else "", wish.problems)


def dry_run(state: State, pod: PodView, names: Sequence[str] | None = None) -> DryRun:
    """Where the pod would go now if only it asked, by devices and by all else that a node must have."""
    known = sorted(state.cluster.nodes) if names is None else [name for name in names if name in state.cluster.nodes]
    wish = state.request(pod)
    if wish.broken:
        return DryRun(None)
    wanted = state.query_of(wish)
    demand = needed_by(state.cluster, pod)
    stops = {name: reason for name in known if (reason := misfit(state.cluster, pod, demand, name))}
    if wanted is None:
        free = [(name, ()) for name in sorted(known) if name not in stops]
        return DryRun(None, tuple(free), stops)
    admitted = wanted.policy.admit(wanted.ask)
    if admitted:
        return DryRun(None, (), dict.fromkeys(known, admitted))
    found = choices(state.cluster.index, wanted)
    refused = {name: rejected.reason for name in known if (rejected := found.refusal(name))}
    fitting = [entry for entry in found.scores(known).items() if entry[0] not in stops and entry[0] not in refused]
    stranded = {name: reason for name, reason in stops.items() if name not in refused}
    ranking = sorted(fitting, key=lambda entry: (tuple(-term for term in entry[1]), entry[0]))
    offer = pick_on(state, wanted, ranking[0][0]) if ranking else None
    return DryRun(offer if isinstance(offer, Offer) else None, tuple(ranking), refused | stranded, stranded)


def preempt(state: State, pod: PodView, victims: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Those of the nodes on which evicting the pods named would serve the ask, with the same pods.

    A node without victims is never among them: kube-scheduler would give the whole preemption up.
    """
    wish, cluster = state.request(pod), state.cluster
    wanted, entry = state.query_of(wish), cluster.ledger.get(pod.uid)
    if wanted is None and not wish.broken:
        return {name: pods for name, pods in victims.items() if pods}
    if wanted is None or wanted.policy.admit(wanted.ask) or (entry and entry.state != "PLANNED"):
        return {}  # no eviction can help it, or it was promised devices already
    if unseen_member(state, pod):
        return {}
    helped = {
        name: pods
        for name, pods in victims.items()
        if pods
        and name not in cluster.unready
        and (stock := cluster.inventories.get(name))
        and not cluster.index.unserved(wanted, name)
        and eviction_frees_enough(cluster.ledger, stock, wanted, set(pods), cluster.ended_on(stock))
    }
    found = gathered(state, state.groups.key_of(pod.uid))
    if not helped or found is None or found.group.minimum is None or found.group.key in state.groups.satisfied:
        return helped
    trying = WhatIf(state, found)  # nobody is evicted for a gang that can't start all the same
    return {name: pods for name, pods in helped.items() if trying.plan(Assumption(gone=frozenset(pods)))}


def preferred(state: State, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    """So many of the available devices, the required ones among them; empty if that is not possible.

    A pod whose promise was made for exactly so many of them goes first, the oldest promise before the others.
    """
    # rule 000.agree: scheduler and device plugin ask the same policy.
    node = state.cluster.index.nodes.get(name)
    ids = {f"#{device.index}": device.id for device in node.devices} if node else {}
    for entry in sorted(state.cluster.ledger.on(name), key=lambda entry: entry.serial):
        if entry.state not in {"ASSUMED", "ASSIGNED"}:
            continue
        for part in entry.grant.offer.parts:
            picked = tuple(ids.get(device, device) for device in part.devices)  # a record may hold only indices
            if len(picked) == size and set(required) <= set(picked) <= set(available):
                return picked
    return _chosen(state, name, available, required, size)


def _chosen(state: State, name: str, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
    node = state.cluster.index.nodes.get(name)
    if node is None or size < 1:
        return ()
    held = {device.id: Use(whole=True) for device in node.devices if device.id not in available}
    free = replace(node, used=held, mode="any", unattributed=0, unattributed_share=0, unattributed_core=0)
    policy = state.policies[
        policy_for_devices(state.cluster.inventories[name].words, node.mode, state.settings.policies)
    ]
    ask = Ask("", (ContainerAsk("", devices=size),), profile=node.profile, required=tuple(required))
    offer = policy.pick(ask, free)
    return offer.devices if isinstance(offer, Offer) else ()


FOREVER: Final = 1 << 40


def dry_plan(state: State, pods: Sequence[PodView]) -> Plan | None:
    """The plan for these pods as one group, beside those of it that are bound; None if too few of them fit."""
    return imagined(state, _parts(state, pods), FOREVER) if pods else None


def _parts(state: State, pods: Sequence[PodView]) -> list[GroupView]:
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


def _gathered(state: State, group: Group, pods: Sequence[PodView]) -> GroupView:
    known = gathered(state, group.key)
    bound = known.bound if known else ()
    there = {pod.uid for pod in bound}
    return GroupView(group, tuple(pod for pod in pods if pod.uid not in there and not pod.node), bound)
