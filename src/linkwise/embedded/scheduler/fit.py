"""Which nodes a pod fits on beside its devices, and kube-scheduler's words for why it fits on none."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.engine.feasibility import lasting, unfit, unless_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.embedded.scheduler.nodes import Host, Hosts, Placed
    from linkwise.model.demand import Demand, Load
    from linkwise.model.verdict import Reason

__all__ = ["Fit", "fit", "stopped", "told"]

_AT_ONCE: Final = 100
"""nodes that are looked at before others get their turn"""
_WORDS: Final = {
    "unschedulable": "node(s) were unschedulable",
    "not ready": "node(s) were not ready",
    "selector": "node(s) didn't match Pod's node affinity/selector",
    "affinity": "node(s) didn't match Pod's node affinity/selector",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "cpu": "Insufficient cpu",
    "memory": "Insufficient memory",
    "ephemeral": "Insufficient ephemeral-storage",
    "pods": "Too many pods",
    "apart": "node(s) didn't match pod anti-affinity rules",
    "together": "node(s) didn't match pod affinity rules",
}


@dataclass(slots=True)
class Fit:
    """Nodes that will do, and of the others why not and whether evictions could help."""

    nodes: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    helpless: set[str] = field(default_factory=set)


async def fit(pod: Placed, hosts: Hosts, expected: Mapping[str, Sequence[Placed]]) -> Fit:
    """Look at all nodes, a few at a time; `expected` are pods for which room is being made on a node."""
    found = Fit()
    demand = unless_first(pod.demand, hosts.everybody()) if pod.demand.together else pod.demand
    for number, (name, host) in enumerate(tuple(hosts.nodes.items())):
        if number % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        stop = stopped(demand, pod.counts, host, expected.get(name, ()))
        if stop is None:
            found.nodes.append(name)
        else:
            found.failed[name] = stop[0]
            if stop[1]:
                found.helpless.add(name)
    return found


def stopped(
    demand: Demand, counts: Mapping[str, int], host: Host, beside: Sequence[Placed] = ()
) -> tuple[str, bool] | None:
    """What keeps a pod off a node in words, and whether that lasts whatever other pods do; None if nothing does."""
    load, used = host.load, host.used
    if beside:
        load, used = _with(host, beside)
    reason = unfit(demand, host.view, host.capacity, load, host.neighbours)
    if reason is not None:
        return _words(reason), lasting(reason)
    for name, count in counts.items():
        if count and count > host.has.get(name, 0) - used.get(name, 0):
            return f"Insufficient {name}", count > host.has.get(name, 0)
    return None


def told(nodes: int, failed: Iterable[str]) -> str:
    """Why a pod has no node, as kube-scheduler says it: equal texts are counted."""
    if not nodes:
        return "no nodes available to schedule pods"
    counted = sorted(f"{count} {text}" for text, count in Counter(failed).items())
    return f"0/{nodes} nodes are available: {', '.join(counted)}."


def _words(reason: Reason) -> str:
    if reason.kind == "taint":
        key, _, value = str(reason.found).rpartition(":")[0].partition("=")
        return f"node(s) had untolerated taint {{{key}: {value}}}"
    return _WORDS.get(reason.kind, reason.kind)


def _with(host: Host, beside: Sequence[Placed]) -> tuple[Load, dict[str, int]]:
    load, used = host.load, dict(host.used)
    for pod in beside:
        load = load.plus(pod.demand)
        for name, count in pod.counts.items():
            used[name] = used.get(name, 0) + count
    return load, used
