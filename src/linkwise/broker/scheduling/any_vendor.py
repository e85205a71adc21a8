"""Choice of a vendor for a request that any vendor can serve, made when the pod is created.

The resources of a pod can't be changed once it exists, so the request is replaced at admission by the resource of the
vendor that can serve it best at that moment. A pod that no vendor can serve is refused, with the reason of each.
Source: seed 002, V3 (device-agnostic images).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.dialects.linkwise.dialect import ACCELERATOR
from linkwise.dialects.pod_resources import resources_of, with_resources_renamed
from linkwise.dialects.registry import DIALECTS, owners, renamed_resources
from linkwise.engine.feasibility import unfit
from linkwise.engine.index.node_index import judge
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.engine.requirements import facts_key
from linkwise.model.demand import Load
from linkwise.model.verdict import Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.model.node import Node
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodView

__all__ = ["VendorChoice", "choose_vendor"]

MOST_GROUPS: Final = 1000
"""groups of which the choice for the first member is remembered"""


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


def _no_vendor(options: Sequence[_Option]) -> str:
    if not options:
        return f"{ACCELERATOR}: no node provides devices of any vendor; see `linkwise get nodes`"
    reasons = "; ".join(f"{option.resource}: {option.refusal}" for option in options)
    return f"{ACCELERATOR}: no vendor's devices can serve this request. {reasons}"
