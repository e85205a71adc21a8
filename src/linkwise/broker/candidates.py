"""Candidates: the nodes that fit one pod, as if its own open offer or reservation were not there.

The index counts the devices of an offer or reservation as used. That is right for every other pod, and wrong for the pod
they are for, so its verdict on that node is worked out without them. A pod never has both.

Filter captures by what it chose a node, and the bind writes that with the grant. Bound: a few microseconds per filter.
Whether the runner-up is among thousands of names would take longer than the filter itself. Short lists are searched; for
others, the bind takes the next best node that has enough of everything else, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.demand import capacity_of, demand_of
from linkwise.broker.cluster.pods import holds_devices
from linkwise.broker.holding.reserved_devices import reserved_entry
from linkwise.engine.feasibility import all_select, unfit, unless_first
from linkwise.engine.index.node_index import choices
from linkwise.model.node import FREE
from linkwise.model.verdict import Decision, Reject
from linkwise.policies.memory_share import WHOLE_CORE, may_share
from linkwise.speed.fast_dataclass import fast_constructor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from linkwise.broker.state import State
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.index.score_table import Code
    from linkwise.model.node import Node
    from linkwise.model.settings import ShareSettings
    from linkwise.model.verdict import Entry, Offer
    from linkwise.model.views import PodView

    Rooms = tuple[tuple[int, int, int], ...]
    """index, free memory and free compute of each device"""
    from collections.abc import Callable, Iterator

    from linkwise.broker.cluster.cluster import Cluster
    from linkwise.engine.feasibility import Neighbour
    from linkwise.model.ask import Demand
    from linkwise.model.verdict import Reason
    from linkwise.model.views import PodTerm

    Company = Callable[[tuple[PodTerm, ...]], Iterable[Neighbour]]
    """returns a running pod that matches all affinity terms, if there is one"""

__all__ = [
    "Candidates",
    "available_devices",
    "company_in",
    "decided_by_bind",
    "decided_by_filter",
    "labels_of",
    "misfit",
    "needed_by",
    "settled",
]

FEW: Final = 16
"""names in which duplicates are looked for; no scheduler sends any"""
OTHERS: Final = 3
"""next best nodes that are captured if there are more names"""
_decision: Final = fast_constructor(Decision)


class Candidates:
    """The nodes for one query of the pod with that UID; `budget` as in `choices`."""

    def __init__(self, state: State, query: Query, uid: str, budget: int | None = None) -> None:
        self._index = state.cluster.index
        self.query = query
        self._lookup = choices(self._index, query) if budget is None else choices(self._index, query, budget)
        entry = state.cluster.ledger.offered(uid) or (state.reservations.made and reserved_entry(state, uid))
        self._own = state.cluster.node_without(entry.node, {entry.key}) if entry else None
        self._verdict = self._index.judge(query, self._own) if self._own else None

    @property
    def partial(self) -> bool:
        """Whether some nodes were not evaluated, because the budget was exhausted."""
        return self._lookup.partial

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        """At most `breadth` of the names that are not in `without`: the best, in the order of their names."""
        if self._own is None and breadth == 1:
            return self._lookup.best(names, 1, without)
        own = self._own.name if self._own else ""
        nodes = self._lookup.best(names, breadth, without | {own} if own else without)
        if own and own in names and own not in without and not isinstance(self._verdict, Reject):
            nodes.append(own)
        scores = self.scores(nodes)
        best = max(scores.values(), default=None)
        return sorted(name for name, score in scores.items() if score == best)[:breadth]

    def all(self, names: Sequence[str]) -> list[str]:
        """Every one of the names that fits, in their order."""
        fitting = self._lookup.all(names)
        if self._own is None or self._own.name not in names:
            return fitting if len(fitting) > FEW else list(dict.fromkeys(fitting))
        own = self._own.name
        others = {name for name in fitting if name != own}
        fits = not isinstance(self._verdict, Reject)
        return [name for name in dict.fromkeys(names) if name in others or (fits and name == own)]

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        """The score of each of the names that fits."""
        names = tuple(names)
        scores = self._lookup.scores(names)
        if self._own is None or self._own.name not in names or self._verdict is None:
            return scores
        others = {name: score for name, score in scores.items() if name != self._own.name}
        return others if isinstance(self._verdict, Reject) else {**others, self._own.name: self._verdict}

    def refusal(self, name: str) -> Reject | None:
        """The refusal of a node; None if it fits."""
        if self._own is None or name != self._own.name:
            return self._lookup.refusal(name)
        return self._verdict if isinstance(self._verdict, Reject) else None

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Short refusal texts of names that all do not fit: resolvable by other pods ending, and unresolvable."""
        return self._lookup.why(names)

    def pick(self, name: str) -> Offer | Reject:
        """The devices that the node would allocate now, or a refusal."""
        return self._index.unserved(self.query, name) or self.query.pick(self.node(name))

    def node(self, name: str) -> Node:
        """A node as it is for this pod."""
        return self._own if self._own and self._own.name == name else self._index.nodes[name]

    def after(self, name: str, score: Code, count: int) -> tuple[tuple[str, Code], ...]:
        """The next nodes behind one with this score, by score and name, whether the scheduler named them or not."""
        own = self._own.name if self._own else ""
        behind = self._lookup.after(name, score, count + bool(own))
        return tuple(other for other in behind if other[0] != own)[:count]


def decided_by_filter(
    state: State, pod: PodView, candidates: Candidates, names: Sequence[str], chosen: str
) -> Decision:
    """Return the facts by which filter chose a node; called before the offer is entered."""
    query, node = candidates.query, candidates.node(chosen)
    score = candidates.scores((chosen,)).get(chosen, ())
    others = _among(candidates, names, chosen) if len(names) <= FEW else candidates.after(chosen, score, OTHERS)
    free, rooms = available_devices(state.settings.share, query, node)
    return _decision(
        len(names), query.policy.terms if score else (), score, others, free, rooms, pod.nominated == chosen
    )


def decided_by_bind(state: State, pod: PodView, query: Query, offer: Offer, tentative: Entry | None) -> Decision:
    """Return the decision of a bind: that of the offer if its devices are used, else what is known at the bind.

    A member gets what its group's plan reserves: nodes were compared for the group, not for the pod.
    """
    if tentative and tentative.decision and tentative.grant.offer is offer:
        return settled(state, pod, tentative.decision)
    node = state.cluster.index.nodes[offer.node]
    if tentative and tentative.state == "PLANNED":
        free, rooms = available_devices(state.settings.share, query, node, offer)
        return Decision(free=free, rooms=rooms)
    if tentative and tentative.node == offer.node:
        node = state.cluster.node_without(offer.node, {pod.uid}) or node
    free, rooms = available_devices(state.settings.share, query, node)
    score = query.score(node, offer)
    return Decision(0, query.policy.terms, score, (), free, rooms, pod.nominated == offer.node)


def settled(state: State, pod: PodView, decision: Decision) -> Decision:
    """Return the decision with the first of the next best nodes that could take the pod."""
    cluster, others = state.cluster, decision.others
    if others and FEW < decision.considered < len(cluster.nodes):
        demand = demand_of(pod)[0]
        others = tuple(
            other for other in others if other[0] in cluster.nodes and not misfit(cluster, pod, demand, other[0])
        )
    return decision if len(others) < 2 and others == decision.others else replace(decision, others=others[:1])


def available_devices(
    sharing: ShareSettings, query: Query, node: Node, own: Offer | None = None
) -> tuple[tuple[int, ...], Rooms]:
    """Return the devices that could be chosen: free indices, or free memory and compute; `own` counts as not used."""
    mine = own.devices if own else ()
    if query.ask.devices:
        used = node.used
        free = (each.index for each in node.devices if each.healthy and (each.id not in used or each.id in mine))
        return tuple(free), ()
    returned = sum(part.share for part in own.parts) if own else 0
    returned_core = sum(part.core for part in own.parts) if own else 0
    room, rows = node.room(), []
    for device in node.devices:
        use, back = node.used.get(device.id, FREE), device.id in mine
        if device.id not in room or not may_share(query.ask, use, sharing):
            continue
        core = 0 if use.whole else WHOLE_CORE - use.core - node.unattributed_core + (returned_core if back else 0)
        rows.append((device.index, room[device.id] + (returned if back else 0), max(0, core)))
    return (), tuple(rows)


def misfit(cluster: Cluster, pod: PodView, demand: Demand, name: str) -> Reason | None:
    """Return the first reason, other than devices, why the pod does not fit on a node."""
    view = cluster.nodes[name]

    def neighbours() -> Iterator[Neighbour]:
        return labels_of(cluster.pods_on(name))

    load = cluster.load(name)
    entry = cluster.ledger.get(pod.uid)
    if entry and entry.node == name and pod.uid in cluster.pods:
        load = load.minus(demand)  # it is counted there already
    return unfit(demand, view, capacity_of(view), load, neighbours)


def needed_by(cluster: Cluster, pod: PodView, company: Company | None = None) -> Demand:
    """Return what the pod needs apart from devices; affinity does not stop the first pod of its kind."""
    demand = demand_of(pod)[0]
    return unless_first(demand, (company or company_in(cluster))(demand.together))


def company_in(cluster: Cluster) -> Company:
    """Return a cached lookup for many pods with the same affinity terms."""

    @cache
    def found(terms: tuple[PodTerm, ...]) -> list[Neighbour]:
        running = labels_of(cluster.pods.values())
        return list(islice((other for other in running if all_select(terms, other)), 1))

    return found


def labels_of(pods: Iterable[PodView]) -> Iterator[Neighbour]:
    """Yield running pods as affinity terms see them."""
    return ((pod.namespace, pod.labels) for pod in pods if holds_devices(pod))


def _among(candidates: Candidates, names: Sequence[str], chosen: str) -> tuple[tuple[str, Code], ...]:
    """Return the best of a few names apart from the chosen one."""
    others = [(name, score) for name, score in candidates.scores(names).items() if name != chosen]
    return tuple(sorted(others, key=lambda other: (tuple(-term for term in other[1]), other[0]))[:1])
