"""All nodes as they are now, with what answers an ask without looking at each of them.

One log names the nodes that changed; a table of one kind of ask catches up with it when it is next used. Parts of devices
are too various for tables: they have an index by room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.engine.index.score_table import ClassTable
from linkwise.engine.index.shapes import Shapes
from linkwise.engine.index.share_index import Rooms
from linkwise.model.verdict import Offer, Reason, Reject

if TYPE_CHECKING:
    from linkwise.engine.index.score_table import Verdict
    from linkwise.engine.index.shapes import Shape
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node
    from linkwise.model.settings import PlacingSettings
    from linkwise.policies.policy import Policy

__all__ = ["ALL", "Index", "Query"]

ALL: Final = 1 << 60
TABLES: Final = 64
"""kinds of asks whose tables are kept; the one not used for the longest goes first"""
MOST_LOGGED: Final = 20_000
"""changes that are kept; a table that missed more is made anew"""


class Query(NamedTuple):
    """An ask, the words it is said in, and the policy it is placed by."""

    ask: Ask
    word: str
    policy: Policy

    def table_key(self, *, stranger: bool = False) -> tuple[object, ...]:
        """What nodes are judged by: asks that agree in this have one table.

        Of a `stranger`, who has nothing on a node, that one does not care which namespace it is of.
        """
        ask = self.ask
        kind = (self.policy.name, self.word, ask.devices, ask.mode, ask.profile, ask.required)
        if ask.devices:
            return kind
        # Bytes are rounded up container by container: equal sums may take different shares.
        share = tuple(found.share for found in ask.containers) if ask.in_bytes else ask.share
        return (*kind, share, ask.core, "" if stranger else ask.namespace, ask.in_bytes)


class Index:
    """Nodes by name; `put` is told of every change."""

    def __init__(self, settings: PlacingSettings) -> None:
        self._settings = settings
        self._shapes = Shapes(exact=settings.bandwidth.floor > 0)
        self.nodes: dict[str, Node] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._shape_of: dict[str, Shape] = {}
        self._rooms: dict[str, Rooms] = {}
        self._tables: dict[tuple[object, ...], ClassTable] = {}
        self._log: list[str] = []
        self._dropped = 0
        """changes that are no longer in the log"""

    def put(self, node: Node, words: frozenset[str]) -> None:
        """The node as it is now."""
        name = node.name
        self.nodes[name] = node
        self._words[name] = words
        self._shape_of[name] = self._shapes.shape(node, words)
        for word, rooms in self._rooms.items():
            if word in words:
                rooms.put(node)
            else:
                rooms.drop(name)
        self._note(name)

    def drop(self, name: str) -> None:
        """The node is gone."""
        if self.nodes.pop(name, None) is None:
            return
        del self._words[name], self._shape_of[name]
        self._shapes.drop(name)
        for rooms in self._rooms.values():
            rooms.drop(name)
        self._note(name)

    def shape(self, name: str) -> Shape:
        """The node's shape now."""
        return self._shape_of[name]

    def idle(self, name: str) -> int:
        """How many whole devices of the node can be handed out."""
        shape = self._shape_of.get(name)
        if shape is None:
            return 0
        lost, unsure = divmod(shape.unattributed, 2)
        return shape.free.bit_count() - lost - unsure * len(self.nodes[name].devices)

    @property
    def changes(self) -> int:
        """How often any node changed."""
        return self._dropped + len(self._log)

    def changed_since(self, changes: int) -> set[str] | None:
        """The nodes that changed after so many changes; None if that is not known any more."""
        return None if changes < self._dropped else set(self._log[changes - self._dropped :])

    def judge(self, wanted: Query, node: Node) -> Verdict:
        """What one node answers to an ask: its score, or why not."""
        refused = self.unserved(wanted, node.name)
        offer = refused or wanted.policy.pick(wanted.ask, node)
        return wanted.policy.score(wanted.ask, node, offer) if isinstance(offer, Offer) else offer

    def unserved(self, wanted: Query, name: str) -> Reject | None:
        """A refusal if the node has nothing that can be asked for in these words."""
        if wanted.word in self._words.get(name, ()):
            return None
        return Reject(name, Reason("002.inventory", asked=wanted.ask.resource), final=True)

    def table(self, wanted: Query, budget: int = ALL) -> ClassTable:
        """The table of this kind of ask, brought up to date; past the budget of shapes judged it owes the rest."""
        kind = wanted.table_key()
        table = self._tables.pop(kind, None)
        if table is None or table.position < self._dropped:
            by_shape = bool(wanted.ask.devices)  # what is left of a device is too various
            table = ClassTable(lambda node: self.judge(wanted, node), wanted.policy.leading, by_shape=by_shape)
            table.owing = dict.fromkeys(self.nodes)
        else:
            table.owing |= dict.fromkeys(self._log[table.position - self._dropped :])
        table.position = self._dropped + len(self._log)
        self._catch_up(table, budget)
        self._tables[kind] = table  # now the last: dictionaries keep the order of entry
        if len(self._tables) > TABLES:
            del self._tables[next(iter(self._tables))]
        return table

    def rooms(self, word: str) -> Rooms:
        """The devices that can be asked for in parts in these words, by room."""
        if word not in self._rooms:
            rooms = self._rooms[word] = Rooms(self._settings.share)
            for name, node in self.nodes.items():
                if word in self._words[name]:
                    rooms.put(node)
        return self._rooms[word]

    def work_ahead(self, budget: int) -> None:
        """Judge so many shapes for tables that have not caught up, the one used last first."""
        for kind in reversed(list(self._tables)):
            table = self._tables[kind]
            if table.owing and budget > 0:
                before = table.steps
                self._catch_up(table, budget)
                budget -= table.steps - before

    def owes(self) -> bool:
        """Whether some table has not caught up."""
        return any(table.owing for table in self._tables.values())

    def _catch_up(self, table: ClassTable, budget: int) -> None:
        end = table.steps + budget
        late: dict[str, None] = {}
        for name in table.owing:
            node = self.nodes.get(name)
            if node is None:
                table.drop(name)
            elif table.steps < end or table.knows(self._shape_of[name]):
                table.put(name, table.verdict(self._shape_of[name], node))
            else:
                table.drop(name)  # what it was judged to be is no longer true
                late[name] = None
        table.owing = late

    def _note(self, name: str) -> None:
        self._log.append(name)
        if len(self._log) > MOST_LOGGED:
            half = len(self._log) // 2
            del self._log[:half]
            self._dropped += half
