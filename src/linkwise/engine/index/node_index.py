"""Node index: the current nodes, with a score table per kind of query and a share index per dialect.

`choices` looks a query up, in a table if it is for whole devices, and in a share index if it is for parts of devices.
Bound: a query costs the nodes that changed since a query of its kind was last answered, not all nodes. One log has the
changed nodes, and a table catches up with it when it is next used. Free shares of devices are too various for tables
and have an index of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from linkwise.engine.index.score_table import ClassTable, Shapes, best_names
from linkwise.engine.index.share_index import ShareIndex
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.engine.requirements import facts_key, suitable
from linkwise.model.verdict import Offer, Reason, Reject

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from linkwise.engine.index.score_table import Code, NodeKind, Shape, Verdict
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.model.settings import PlacingSettings
    from linkwise.policies.policy import Policy

__all__ = ["ALL", "Index", "Lookup", "Query", "choices", "judge"]


ALL: Final = 1 << 60
"""a budget that no cluster uses up"""
TABLES: Final = 64
"""tables that are cached; the least recently used is dropped first"""
MOST_LOGGED: Final = 20_000
"""changes in the log; a table that missed more is rebuilt"""

_UNOBSERVED: Final = Reason("002.inventory", kind="unknown node")
_UNKNOWN: Final = short_refusal(_UNOBSERVED)
_NO_WORDS: Final = frozenset[str]()


class Query(NamedTuple):
    """An ask, the dialect of its resource, and the policy that places it."""

    ask: Ask
    word: str
    policy: Policy

    def table_key(self, *, any_domain: bool = False) -> tuple[object, ...]:
        """Everything that a node's verdict depends on: queries with equal keys share one table.

        With `any_domain` the sharing domain is left out, for nodes on which no pod of it uses a device.
        """
        ask = self.ask
        policy = self.policy
        kind = (policy.name, policy.across_nodes, self.word)
        key = (*kind, ask.devices, ask.mode, ask.profile, ask.required, ask.requirement)
        if ask.devices:
            # Containers are aligned with NUMA nodes one by one: equal sums may fit differently.
            split = len(ask.containers) > 1
            by_container = tuple((each.devices, each.cpus) for each in ask.containers) if split else ()
            return (*key, ask.cpus, by_container) if ask.cpus or split else key
        # Bytes are rounded up per container: equal sums may need different shares.
        share = tuple(container.share for container in ask.containers) if ask.in_bytes else ask.share
        return (*key, share, ask.core, "" if any_domain else ask.domain, ask.in_bytes)

    def pick(self, node: Node) -> Offer | Reject:
        """The devices of a node that the policy picks, of those that meet the requirement; or a refusal."""
        ask = self.ask
        if ask.requirement is None:
            return self.policy.pick(ask, node)
        candidate = suitable(node, ask.requirement, ask.devices or 1)
        if isinstance(candidate, Reason):
            return Reject(node.name, candidate, final=True)
        return self.policy.pick(ask, candidate)

    def layouts(self, node: Node) -> Iterator[Offer]:
        """The choices of devices that make a difference to other pods, as of the policy."""
        candidate = self._candidate(node)
        return iter(()) if candidate is None else self.policy.layouts(self.ask, candidate)

    def score(self, node: Node, offer: Offer) -> Code:
        """The policy's score of an offer."""
        return self.policy.score(self.ask, self._candidate(node) or node, offer)

    def _candidate(self, node: Node) -> Node | None:
        """The node with the devices that meet the requirement; None if these are too few."""
        if self.ask.requirement is None:
            return node
        candidate = suitable(node, self.ask.requirement, self.ask.devices or 1)
        return None if isinstance(candidate, Reason) else candidate

    def takes(self, node: Node, offer: Offer) -> bool:
        """Whether the node can still allocate exactly these devices."""
        if node.mode not in {"any", self.ask.mode}:
            return False  # rule 004.mode: the sharing mode may have changed since
        candidate = self._candidate(node)
        if candidate is None:
            return False  # rule 002.versions: the driver may have been replaced since
        if self.policy.across_nodes:
            candidate = candidate.reachable()
        if self.ask.devices:
            return {device.id for device in candidate.free()} >= set(offer.devices)
        return isinstance(self.policy.pick(self.ask, candidate.with_only(offer.devices)), Offer)


class Index:
    """Nodes by name, updated by `put` and `drop`."""

    def __init__(self, settings: PlacingSettings) -> None:
        self._settings = settings
        self._shapes = Shapes(exact=settings.bandwidth.floor > 0, nic=settings.nic)
        self.nodes: dict[str, Node] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._shape_of: dict[str, Shape] = {}
        self._facts: dict[str, tuple[object, object, Hashable]] = {}
        """by node, for requirements only: devices and facts, compared by identity, and what `facts_key` returned for them"""
        self._share_indexes: dict[str, ShareIndex] = {}
        self._tables: dict[tuple[object, ...], ClassTable] = {}
        self._log: list[str] = []
        self._dropped = 0
        """number of changes removed from the log"""

    def put(self, node: Node, words: frozenset[str]) -> None:
        """Add or update a node."""
        name = node.name
        self.nodes[name] = node
        self._words[name] = words
        self._shape_of[name] = self._shapes.shape(node, words)
        for word, shares in self._share_indexes.items():
            if word in words:
                shares.put(node)
            else:
                shares.drop(name)
        self._note(name)

    def drop(self, name: str) -> None:
        """Remove a node."""
        if self.nodes.pop(name, None) is None:
            return
        del self._words[name], self._shape_of[name]
        self._facts.pop(name, None)
        self._shapes.drop(name)
        for shares in self._share_indexes.values():
            shares.drop(name)
        self._note(name)

    def shape(self, name: str) -> Shape:
        """The node's shape now."""
        return self._shape_of[name]

    def idle(self, name: str) -> int:
        """The number of whole devices of the node that can be allocated."""
        shape = self._shape_of.get(name)
        if shape is None:
            return 0
        lost, unsure = divmod(shape.unattributed, 2)
        return shape.free.bit_count() - lost - unsure * len(self.nodes[name].devices)

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        return self._dropped + len(self._log)

    def changed_since(self, changes: int) -> set[str] | None:
        """The nodes that changed after change number `changes`; None if the log does not go back that far."""
        return None if changes < self._dropped else set(self._log[changes - self._dropped :])

    def judge(self, query: Query, node: Node) -> Verdict:
        """The verdict of one node on a query: its score, or a refusal."""
        return judge(query, node, self._words.get(node.name, _NO_WORDS))

    def unserved(self, query: Query, name: str) -> Reject | None:
        """A refusal if the node does not provide the query's resource."""
        return _unserved(query, name, self._words.get(name, _NO_WORDS))

    def table(self, query: Query, budget: int = ALL) -> ClassTable:
        """The up-to-date table of this kind of query; nodes beyond a budget of evaluated shapes stay in its `owing`."""
        key = query.table_key()
        table = self._tables.pop(key, None)
        if table is None or table.position < self._dropped:
            by_shape = bool(query.ask.devices)  # free shares are too various to be part of a shape
            by_facts = query.ask.requirement is not None
            table = ClassTable(
                lambda node: self.judge(query, node), query.policy.leading, by_shape=by_shape, by_facts=by_facts
            )
            table.owing = dict.fromkeys(self.nodes)
        else:
            table.owing |= dict.fromkeys(self._log[table.position - self._dropped :])
        table.position = self._dropped + len(self._log)
        self._catch_up(table, budget)
        self._tables[key] = table  # moved to the end: dictionaries keep insertion order
        if len(self._tables) > TABLES:
            del self._tables[next(iter(self._tables))]
        return table

    def share_index(self, word: str) -> ShareIndex:
        """The share index of the nodes that serve a dialect."""
        if word not in self._share_indexes:
            shares = self._share_indexes[word] = ShareIndex(self._settings.share)
            for name, node in self.nodes.items():
                if word in self._words[name]:
                    shares.put(node)
        return self._share_indexes[word]

    def work_ahead(self, budget: int) -> None:
        """Evaluate up to `budget` shapes for tables that have not caught up, the most recently used first."""
        for key in reversed(list(self._tables)):
            table = self._tables[key]
            if table.owing and budget > 0:
                before = table.steps
                self._catch_up(table, budget)
                budget -= table.steps - before

    def owes(self) -> bool:
        """Whether a table has not caught up."""
        return any(table.owing for table in self._tables.values())

    def _catch_up(self, table: ClassTable, budget: int) -> None:
        end = table.steps + budget
        remaining: dict[str, None] = {}
        for name in table.owing:
            node = self.nodes.get(name)
            if node is None:
                table.drop(name)
            elif table.steps < end or table.knows(self._kind(table, node)):
                table.put(name, table.verdict(self._kind(table, node), node))
            else:
                table.drop(name)  # its verdict is outdated
                remaining[name] = None
        table.owing = remaining

    def _kind(self, table: ClassTable, node: Node) -> NodeKind:
        """What the verdict of a table depends on: the shape of a node, and its facts only where they are asked for."""
        shape = self._shape_of[node.name]
        if not table.by_facts:
            return shape
        known = self._facts.get(node.name)
        if known is None or known[0] is not node.devices or known[1] is not node.facts:
            known = self._facts[node.name] = (node.devices, node.facts, facts_key(node))
        return shape, known[2]

    def _note(self, name: str) -> None:
        self._log.append(name)
        if len(self._log) > MOST_LOGGED:
            half = len(self._log) // 2
            del self._log[:half]
            self._dropped += half


def judge(query: Query, node: Node, words: frozenset[str]) -> Verdict:
    """The verdict of a node that need not be in an index: its score, or a refusal; `words` are what it serves."""
    offer = _unserved(query, node.name, words) or query.pick(node)
    return query.score(node, offer) if isinstance(offer, Offer) else offer


def _unserved(query: Query, name: str, words: frozenset[str]) -> Reject | None:
    if query.word in words:
        return None
    kind = "by claim" if query.ask.resource in words else ""
    return Reject(name, Reason("002.inventory", asked=query.ask.resource, kind=kind), final=True)


class Lookup(Protocol):
    """Evaluation of one query on the current nodes."""

    partial: bool
    """whether some nodes were not evaluated, because the budget was exhausted"""

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        """At most `breadth` of the names that are not in `without`, of the best class that any of them is in."""

    def all(self, names: Sequence[str]) -> list[str]:
        """Every one of the names that fits, in their order."""

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        """The score of each of the names that fits."""

    def refusal(self, name: str) -> Reject | None:
        """The refusal of a node; None if it fits."""

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Short refusal texts of names that all do not fit: resolvable by other pods ending, and unresolvable."""

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        """The next `count` nodes behind one with this score: by score, equal ones by name."""


def choices(index: Index, query: Query, budget: int = ALL) -> Lookup:
    """The lookup for a query; at most `budget` shapes are evaluated, and `partial` is whether that was enough."""
    # A share index has no facts of devices, so requests for shares with a requirement are evaluated node by node.
    in_table = query.ask.devices or query.ask.requirement
    return _TableLookup(index, query, budget) if in_table else _ShareLookup(index, query)


class _TableLookup:
    """Whole devices, or parts of devices that must meet a requirement, by a score table."""

    def __init__(self, index: Index, query: Query, budget: int) -> None:
        self._index = index
        self._query = query
        self._table = index.table(query, budget)
        self.partial = bool(self._table.owing)

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        best = best_names(self._table, names, breadth, without)
        if not best and self.partial:
            self._catch_up()
            best = best_names(self._table, names, breadth, without)
        return best

    def all(self, names: Sequence[str]) -> list[str]:
        self._catch_up()
        return self._table.fits(names)

    def _catch_up(self) -> None:
        """Evaluate the rest, because no pod is refused for an exhausted budget."""
        if self.partial:
            self._table = self._index.table(self._query)
            self.partial = False

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        table, known = self._table, self._index.nodes
        scores = {name: code for name in names if (code := table.codes.get(name)) is not None}
        for name in table.owing.keys() & names if table.owing else ():
            verdict = self._index.judge(self._query, known[name]) if name in known else None
            if isinstance(verdict, tuple):
                scores[name] = verdict
        return scores

    def refusal(self, name: str) -> Reject | None:
        if name in self._table.codes:
            return None
        return self._table.refused.get(name) or unknown_node(name)

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._table.why(names, _UNKNOWN)

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        return self._table.after(name, score, count)


class _ShareLookup:
    """Parts of devices, by free share."""

    partial = False

    def __init__(self, index: Index, query: Query) -> None:
        self._index = index
        self._query = query
        self._shares = index.share_index(query.word)

    def best(self, names: Sequence[str], breadth: int, without: AbstractSet[str] = frozenset()) -> list[str]:
        return self._shares.fitting(names, self._query.ask, breadth, without)

    def all(self, names: Sequence[str]) -> list[str]:
        return self._shares.all_fitting(names, self._query.ask)

    def scores(self, names: Iterable[str]) -> Mapping[str, Code]:
        return self._shares.scores(names, self._query.ask)

    def refusal(self, name: str) -> Reject | None:
        verdict = self._verdict(name)
        return verdict if isinstance(verdict, Reject) else None

    def why(self, names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._index.table(self._query).why(names, _UNKNOWN)

    def after(self, name: str, score: Code, count: int) -> list[tuple[str, Code]]:
        return self._shares.after(name, score, self._query.ask, count)

    def _verdict(self, name: str) -> Code | Reject:
        node = self._index.nodes.get(name)
        return unknown_node(name) if node is None else self._index.judge(self._query, node)


def unknown_node(name: str) -> Reject:
    """The refusal of a node that the watch has not delivered."""
    return Reject(name, _UNOBSERVED)
