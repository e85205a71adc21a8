"""Surveys all nodes for one pod, by devices and by all other requirements, and summarises refusals by reason.

A summary names the node that comes nearest to serving the request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from linkwise.broker.access import refused_on
from linkwise.broker.candidates import Candidates, misfit, needed_by
from linkwise.broker.cluster.demand import capacity_of
from linkwise.broker.holding.reserved_devices import reserved_reason
from linkwise.broker.readers import readable
from linkwise.engine.access import RULE
from linkwise.engine.feasibility import lasting, unfit
from linkwise.engine.reasons.catalog import refusal, short_refusal
from linkwise.engine.reasons.phrases import is_or_are
from linkwise.model.ask import Load
from linkwise.model.verdict import Offer, Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.model.ask import Demand
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.verdict import Fact
    from linkwise.model.views import PodView

__all__ = ["RefusalSummary", "Survey", "against_all", "nearness", "summarise", "survey"]


NODES_PER_PIECE: Final = 500
"""nodes whose scores are read between two pauses"""


@dataclass(frozen=True, slots=True)
class Survey:
    """Feasible nodes, the best first, and the refusals of the others."""

    demand: Demand
    fitting: tuple[tuple[str, Code], ...]
    refused: Mapping[str, Reject]
    """refused for their devices"""
    stopped: Mapping[str, Reason]
    """refused for other reasons, though their devices would fit"""
    barred: Mapping[str, Reason]
    """of the nodes refused for their devices, a further reason that other pods can't resolve"""
    uid: str = ""
    """of the pod"""
    exact: frozenset[str] = frozenset()
    """refused nodes whose reasons name their own devices already"""

    def against(self) -> dict[str, tuple[Reason, bool]]:
        """Return one reason per node, and whether it is final; final reasons take precedence."""
        devices = {name: (reject.reason, reject.final) for name, reject in self.refused.items()}
        beside = {name: (reason, lasting(reason)) for name, reason in self.stopped.items()}
        return {**devices, **beside, **{name: (reason, True) for name, reason in self.barred.items()}}

    def open(self) -> list[str]:
        """Return nodes that may become feasible when other pods finish."""
        return [name for name, (_, final) in self.against().items() if not final]


def survey(state: State, pod: PodView, query: Query, but: str = "") -> Survey:
    """Survey every node but `but`; nodes refused for their devices are checked only for further final reasons."""
    cluster = state.cluster
    demand = needed_by(state.cluster, pod)
    lookup = Candidates(state, query, pod.uid)
    drained = state.reservations.taken()
    scores: dict[str, Code] = {}
    names = list(cluster.nodes)
    for start in state.pausing(range(0, len(names), NODES_PER_PIECE)):
        scores |= lookup.scores(names[start : start + NODES_PER_PIECE])
    by_score: dict[Code, list[str]] = {}
    refused, stops, barred = dict[str, Reject](), dict[str, Reason](), dict[str, Reason]()
    for name, view in state.pausing(list(cluster.nodes.items())):  # nodes may come and go in a pause
        if name == but or name not in cluster.index.nodes:
            continue
        rejected = lookup.refusal(name)
        if denied := refused_on(state, pod, query, name) if state.access else None:
            refused[name] = Reject(name, denied, final=True)
        elif rejected:
            final = rejected.final or _never(state, query, rejected, name)
            refused[name] = replace(rejected, final=final)
            if name in drained and (reserved := reserved_reason(state, query, name, pod.uid)):
                refused[name] = Reject(name, reserved)
            reason = None if final else unfit(demand, view, capacity_of(view), Load())
            if reason and lasting(reason):
                barred[name] = reason
        elif reason := misfit(state.cluster, pod, demand, name):
            stops[name] = reason
        elif name in scores:
            by_score.setdefault(scores[name], []).append(name)
    ranked = ((name, score) for score in sorted(by_score, reverse=True) for name in sorted(by_score[score]))
    return Survey(demand, tuple(state.pausing(ranked)), refused, stops, barred, pod.uid)


def against_all(state: State, query: Query, surveyed: Survey) -> tuple[RefusalSummary, ...]:
    """Summarise the refusals of a survey by reason."""
    candidates = Candidates(state, query, surveyed.uid)

    def exact(name: str, reason: Reason) -> Reason:
        """Pick again on this node: nodes of one shape share a verdict, but not device names."""
        if (
            name not in surveyed.refused
            or name in surveyed.barred
            or name in surveyed.exact
            or reason.kind == "reserved"
            or reason.rule == RULE
        ):
            return reason
        offer = candidates.pick(name)
        return offer.reason if isinstance(offer, Reject) else reason

    def seen(name: str, reason: Reason) -> Reason:
        return readable(state, exact(name, reason))

    return summarise(state.pausing(surveyed.against().items()), seen, partial(_health_remark, state))


def _health_remark(state: State, name: str, reason: Reason) -> str:
    """Return which devices of the node are unhealthy, cordoned or held by its agent, where that may be why too few are free."""
    inventory = state.cluster.inventories.get(name)
    if inventory is None or reason.rule not in _ABOUT_ROOM:
        return ""
    cordons = [
        (device.index, inventory.cordoned[device.id]) for device in inventory.devices if device.id in inventory.cordoned
    ]
    cordoned = "".join(f"; device {index} is cordoned{f': {why}' if why else ''}" for index, why in cordons)
    known, total = (
        [device.index for device in inventory.devices if device.id in inventory.faults],
        len(inventory.devices),
    )
    count = len(known) + inventory.unidentified
    set_aside = _fault_remark(inventory) + cordoned + _hold_remark(inventory)
    if not count or reason.kind == "unhealthy":
        return set_aside
    which = f": {', '.join(map(str, known))}" if len(known) == count else ""
    return f"; {count} of {total} devices {is_or_are(count)} unhealthy{which}{set_aside}"


def _fault_remark(inventory: NodeInventory) -> str:
    """Return why devices of the node are unhealthy, where their source says so."""
    reasons: dict[str, list[str]] = {}
    for device in inventory.devices:
        if fault := inventory.faults.get(device.id, ""):
            reasons.setdefault(fault, []).append(str(device.index))
    return "".join(
        f"; device{'s' if len(devices) > 1 else ''} {', '.join(devices)}: {fault}" for fault, devices in reasons.items()
    )


def _hold_remark(inventory: NodeInventory) -> str:
    """Return which devices the agent of the node holds, and why: for a measurement, or as it can't serve them."""
    reasons: dict[str, list[str]] = {}
    held = {hold.device: hold.reason for hold in inventory.holds}
    for device in inventory.devices:
        if device.id in held:
            reasons.setdefault(held[device.id], []).append(str(device.index))
    return "".join(
        f"; device{'s' if len(devices) > 1 else ''} {', '.join(devices)} {is_or_are(len(devices))} held by the node agent"
        f"{f': {reason}' if reason else ''}"
        for reason, devices in reasons.items()
    )


def _never(state: State, query: Query, rejected: Reject, name: str) -> bool:
    """Return whether the node would refuse the request even if it were empty."""
    inventory, node = state.cluster.inventories[name], state.cluster.index.nodes[name]
    if rejected.reason.rule == "004.mode":
        # Where the first pod of a node decided, the next one may decide otherwise.
        return inventory.mode not in {"any", query.ask.mode}
    if rejected.reason.rule == "002.whole":
        return len(node.healthy()) - inventory.unidentified < query.ask.devices
    if rejected.reason.rule != "003.predicate":
        return False
    empty = replace(node, used={}, unattributed=inventory.unidentified, unattributed_share=0, unattributed_core=0)
    return not isinstance(query.pick(empty), Offer)


_ABOUT_ROOM: Final = frozenset({"000.partition", "001.best-effort", "002.whole", "003.predicate", "004.filter"})
"""rules of refusals that fewer unhealthy devices might resolve"""
_ABSENT: Final = ("002.inventory", "")
"""the reason of nodes that have no such devices"""


@dataclass(frozen=True, slots=True)
class RefusalSummary:
    """One refusal reason and the number of nodes with it."""

    rule: str
    kind: str
    short: str
    """text without numbers, equal on all nodes"""
    nodes: int
    nearest: str
    """the node that lacks least; the first by name if that can't be compared"""
    sentence: str
    """requested and available amounts on that node"""
    final: bool
    """whether other pods finishing can't resolve it"""


def summarise(
    refused: Iterable[tuple[str, tuple[Reason, bool]]],
    exact: Callable[[str, Reason], Reason],
    remark: Callable[[str, Reason], str] = lambda _name, _reason: "",
) -> tuple[RefusalSummary, ...]:
    """Summarise reasons by node; `exact` returns the reason with the numbers of one node, `remark` what to add to it.

    Transient reasons come first, then those of most nodes; nodes that have no such devices come last.
    """
    groups: dict[tuple[str, bool], list[tuple[float, str, Reason]]] = {}
    for name, (reason, final) in refused:
        groups.setdefault((short_refusal(reason), final), []).append((-nearness(reason), name, reason))
    summaries = []
    for (short, final), members in groups.items():
        _, name, known = min(members, key=itemgetter(0, 1))
        reason = exact(name, known)
        sentence = f"{refusal(reason)}{remark(name, reason)}"
        summaries.append(RefusalSummary(reason.rule, reason.kind, short, len(members), name, sentence, final))
    return tuple(
        sorted(
            summaries, key=lambda group: ((group.rule, group.kind) == _ABSENT, group.final, -group.nodes, group.short)
        )
    )


def nearness(reason: Reason) -> float:
    """Return how near a node is to serving the request; comparable only within one rule and kind."""
    measure = _MEASURES.get((reason.rule, reason.kind))
    return measure(reason) if measure else 0.0


def _first(fact: Fact) -> float:
    return float(fact[0]) if isinstance(fact, tuple) and fact and isinstance(fact[0], int) else 0.0


def _largest(fact: Fact) -> float:
    """Return the largest number, or the largest free amount of a device."""
    if not isinstance(fact, tuple):
        return 0.0
    return float(max((entry[1] if isinstance(entry, tuple) else int(entry) for entry in fact), default=0))


def _left(reason: Reason) -> float:
    return _first(reason.found)


def _in_one_place(reason: Reason) -> float:
    return _largest(reason.found)


_MEASURES: Final[dict[tuple[str, str], Callable[[Reason], float]]] = {
    ("001.best-effort", ""): lambda reason: float(reason.found) if isinstance(reason.found, float) else 0.0,
    ("001.filters", "cpu"): _left,
    ("001.filters", "memory"): _left,
    ("001.filters", "ephemeral"): _left,
    ("002.whole", ""): _left,
    ("002.whole", "too small"): _left,
    ("003.predicate", "one group"): _in_one_place,
    ("003.predicate", "whole groups"): _in_one_place,
    ("003.predicate", "even split"): _in_one_place,
    ("004.filter", ""): _in_one_place,
    ("004.filter", "core"): _in_one_place,
}
