"""What every node answers to one pod: by its devices, and by all else that a node must have.

What speaks against many nodes, gathered by reason, with the node that is nearest to serving the ask.
"""
# Joined from survey, against: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.scheduling.bind import pick_on
from linkwise.engine.feasibility import lasting, unfit
from linkwise.engine.index.lookup import choices
from linkwise.engine.reasons.catalog import refusal, short_refusal
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.demand import Load
from linkwise.model.verdict import Offer, Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.model.demand import Demand
    from linkwise.model.node import Node
    from linkwise.model.verdict import Fact
    from linkwise.model.views import PodView

__all__ = ["RefusalSummary", "Survey", "against_all", "nearness", "node_without", "summarise", "survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """Nodes that fit, the best first, and what speaks against each of the others."""

    demand: Demand
    fitting: tuple[tuple[str, Code], ...]
    refused: Mapping[str, Reject]
    """by their devices; what is final there is so for whatever reason"""
    stopped: Mapping[str, Reason]
    """by something else, though their devices would do"""
    barred: Mapping[str, Reason]
    """of those refused by devices, what else keeps the pod off whatever other pods do"""

    def against(self) -> dict[str, tuple[Reason, bool]]:
        """One reason a node, and whether it is final: what lasts goes before what may pass."""
        devices = {name: (reject.reason, reject.final) for name, reject in self.refused.items()}
        beside = {name: (reason, lasting(reason)) for name, reason in self.stopped.items()}
        return {**devices, **beside, **{name: (reason, True) for name, reason in self.barred.items()}}

    def open(self) -> list[str]:
        """Nodes that may fit when other pods leave."""
        return [name for name, (_, final) in self.against().items() if not final]


def survey(state: State, pod: PodView, wanted: Query, but: str = "") -> Survey:
    """Ask every node but one; the other reasons of a node without the devices are looked at only as far as they last."""
    cluster = state.cluster
    demand = needed_by(state.cluster, pod)
    found = choices(cluster.index, wanted)
    scores = found.scores(cluster.nodes)
    fitting: list[tuple[str, Code]] = []
    refused, stops, barred = dict[str, Reject](), dict[str, Reason](), dict[str, Reason]()
    for name, view in cluster.nodes.items():
        if name == but:
            continue
        rejected = found.refusal(name)
        if rejected:
            final = rejected.final or _never(state, wanted, rejected, name)
            refused[name] = replace(rejected, final=final)
            reason = None if final else unfit(demand, view, capacity_of(view), Load())
            if reason and lasting(reason):
                barred[name] = reason
        elif reason := misfit(state.cluster, pod, demand, name):
            stops[name] = reason
        elif name in scores:
            fitting.append((name, scores[name]))
    fitting.sort(key=lambda entry: (tuple(-term for term in entry[1]), entry[0]))
    return Survey(demand, tuple(fitting), refused, stops, barred)


def against_all(state: State, wanted: Query, found: Survey) -> tuple[RefusalSummary, ...]:
    """What speaks against the nodes that do not fit, gathered by reason."""

    def exact(name: str, reason: Reason) -> Reason:
        """Nodes of one shape are judged once: the numbers are the same, the names of devices need not be."""
        if name not in found.refused or name in found.barred:
            return reason
        offer = pick_on(state, wanted, name)
        return offer.reason if isinstance(offer, Reject) else reason

    return summarise(found.against(), exact)


def node_without(state: State, name: str, uid: str) -> Node | None:
    """A node as it would be if one of its pods held nothing."""
    stock = state.cluster.inventories.get(name)
    if stock is None:
        return None
    staying = [entry for entry in state.cluster.ledger.on(name) if entry.pod != uid]
    return node_of(stock, usage_of(stock, staying, {uid, *state.cluster.ended_on(stock)}))


def _never(state: State, wanted: Query, rejected: Reject, name: str) -> bool:
    """Whether the node would refuse the ask even if it were empty."""
    stock, node = state.cluster.inventories[name], state.cluster.index.nodes[name]
    if rejected.reason.rule == "004.mode":
        # Where the first pod of a node decided, the next one may decide otherwise.
        return stock.mode not in {"any", wanted.ask.mode}
    if rejected.reason.rule == "002.whole":
        return len(node.healthy()) - stock.sick < wanted.ask.devices
    if rejected.reason.rule != "003.predicate":
        return False
    empty = replace(node, used={}, unattributed=stock.sick, unattributed_share=0, unattributed_core=0)
    return not isinstance(wanted.policy.pick(wanted.ask, empty), Offer)


_ABSENT: Final = ("002.inventory", "")
"""the reason of nodes that have no such devices"""


@dataclass(frozen=True, slots=True)
class RefusalSummary:
    """One reason, on so many nodes."""

    rule: str
    kind: str
    short: str
    """equal on all of them"""
    nodes: int
    nearest: str
    """the node where least is missing; the first by name where that can't be told"""
    sentence: str
    """what was asked and found there"""
    final: bool
    """whether nothing that other pods do can change it"""


def summarise(
    refused: Mapping[str, tuple[Reason, bool]], exact: Callable[[str, Reason], Reason]
) -> tuple[RefusalSummary, ...]:
    """The reasons by node, each with whether it is final, put together; `exact` gives the numbers of one node.

    What may pass comes first, then what stops most nodes. Nodes that never had such devices are the last anybody asks
    about, however many they are.
    """
    groups: dict[tuple[str, bool], list[tuple[float, str, Reason]]] = {}
    for name, (reason, final) in refused.items():
        groups.setdefault((short_refusal(reason), final), []).append((-nearness(reason), name, reason))
    found = []
    for (short, final), members in groups.items():
        _, name, known = min(members, key=lambda member: member[:2])
        reason = exact(name, known)
        found.append(RefusalSummary(reason.rule, reason.kind, short, len(members), name, refusal(reason), final))
    return tuple(
        sorted(found, key=lambda group: ((group.rule, group.kind) == _ABSENT, group.final, -group.nodes, group.short))
    )


def nearness(reason: Reason) -> float:
    """How little is missing, larger is nearer; comparable among reasons of one rule and kind only."""
    measure = _MEASURES.get((reason.rule, reason.kind))
    return measure(reason) if measure else 0.0


def _first(fact: Fact) -> float:
    return float(fact[0]) if isinstance(fact, tuple) and fact and isinstance(fact[0], int) else 0.0


def _largest(fact: Fact) -> float:
    """Of numbers, or of what devices have left."""
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
    ("003.predicate", "one group"): _in_one_place,
    ("003.predicate", "whole groups"): _in_one_place,
    ("003.predicate", "even split"): _in_one_place,
    ("004.filter", ""): _in_one_place,
    ("004.filter", "core"): _in_one_place,
}
