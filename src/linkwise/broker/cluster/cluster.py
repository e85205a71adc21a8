"""The cluster as it was seen: views, what they mean, and the ledger and index that follow from them.

Seeing only notes what changed; `settle` works out what follows, node by node. So nothing depends on the order in which
pods, nodes and inventories are seen, and a start with many thousands of them does not work anything out twice.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.cluster_objects import ClusterObjects, document_of
from linkwise.broker.cluster.inventory import kind_of, merge_or_report
from linkwise.broker.cluster.pod_request import RequestCache, asks_for_devices
from linkwise.broker.cluster.pods import Pods, holds_devices
from linkwise.broker.cluster.recorded_grants import elsewhere, untold
from linkwise.dialects.registry import held_by
from linkwise.engine.drift import Drift
from linkwise.engine.index.node_index import Index
from linkwise.engine.ledger import Entry, Ledger
from linkwise.engine.queue.unschedulable import gained_capacity
from linkwise.engine.usage import node_of, resolved, usage_of
from linkwise.model.verdict import Grant, Offer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.model.demand import Load
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.snapshot import BrokerState, Snapshot
    from linkwise.model.verdict import Problem
    from linkwise.model.views import NodeView, PodView

__all__ = ["Cluster", "holds_devices"]

_SEEN: Final = ("ASSIGNED", "RELEASING")


class Cluster:
    """Views by name or UID, and what follows from them."""

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self.settings: Final = settings
        self._parse: Final = parse
        self.requests: Final = RequestCache(settings.policies, by_owner=settings.group.by_owner)
        self.known: Final = Pods()
        self.nodes: dict[str, NodeView] = {}
        self.unready: set[str] = set()
        """nodes that take no pods now"""
        self.objects: dict[str, dict[str, Mapping[str, object] | bytes]] = {}
        """what else is known of a node, by the node's name and the object's kind"""
        self.shared: Final = ClusterObjects()
        self.inventories: dict[str, NodeInventory] = {}
        self.ledger: Final = Ledger()
        self.index: Final = Index(settings)
        self.drift: dict[str, tuple[Drift, ...]] = {}
        """what disagrees, by node"""
        self.drifted: dict[str, tuple[Drift, ...]] = {}
        """nodes where that changed since it was last emptied, and what disagreed before"""
        self.problems: dict[str, tuple[Problem, ...]] = {}
        """of pods, by UID"""
        self.restocked: dict[str, NodeInventory | None] = {}
        """nodes of which people should be told since it was last emptied, and what they had before"""
        self._changed: dict[str, Grant] = {}
        """what the record of a bound pod says now, where it said something else when it was first seen"""
        self._moved: dict[str, Drift] = {}
        self._restock: dict[str, None] = {}
        self._opened: set[str] = set()
        """nodes that may serve what they did not before, whatever is free of them"""
        self._gained: set[str] = set()
        """nodes that have more room than before, of which nobody was told yet"""

    @property
    def pods(self) -> Mapping[str, PodView]:
        """By UID."""
        return self.known.views

    def see_pod(self, view: PodView) -> bool:
        """Note a pod as it is now; false if that is old news."""
        if not self.known.is_news(view):
            return False
        self.known.put(view)
        if not holds_devices(view):
            if view.node:
                self._let_go(view.uid)
                self.ledger.touched.add(view.node)  # its agent may have it in its list still
        elif asks_for_devices(view):
            self._believe(view)
        return True

    def lose_pod(self, uid: str) -> None:
        """The pod is gone."""
        self.known.drop(uid)
        self._let_go(uid)

    def see_node(self, view: NodeView) -> bool:
        """Note a node as it is now; false if that is old news."""
        known = self.nodes.get(view.name)
        if not view.name or (known and 0 < view.version < known.version):
            return False
        if known is None or known.labels != view.labels:
            self.shared.labels_changed()
        self.nodes[view.name] = view
        if known is None or replace(known, version=view.version) != view:  # kubelet writes every few minutes
            self._restock[view.name] = None
        if not view.ready:
            self.unready.add(view.name)
        elif view.name in self.unready:
            self.unready.remove(view.name)
            self._opened.add(view.name)
        return True

    def lose_node(self, name: str) -> None:
        """The node is gone; what its pods hold stays in the ledger until they are gone as well."""
        self.nodes.pop(name, None)
        self.unready.discard(name)
        self.shared.labels_changed()
        self._restock[name] = None

    def see_object(self, node: str, kind: str, document: Mapping[str, object] | bytes | None) -> None:
        """Note what else is known of a node; None if the object is gone."""
        found = self.objects.get(node, {})
        if found.get(kind) == document:
            return
        self.objects[node] = {name: known for name, known in found.items() if name != kind}
        if document is not None:
            self.objects[node][kind] = document
        elif not self.objects[node]:
            del self.objects[node]
        self._restock[node] = None

    def documents(self, node: str) -> dict[str, Mapping[str, object]]:
        """What else is known of a node, by kind."""
        return {kind: document_of(found, self._parse) for kind, found in self.objects.get(node, {}).items()}

    def pods_on(self, node: str) -> list[PodView]:
        """The pods seen on a node."""
        return self.known.on(node)

    def load(self, node: str) -> Load:
        """What the pods of a node take beside devices, those that were promised to it included."""
        return self.known.load(node, [entry.pod for entry in self.ledger.on(node)])

    def remembered(self) -> tuple[dict[str, bool], dict[str, Grant], dict[str, Drift]]:
        """What neither views nor ledger tell: who is gone, whose record changed, who is elsewhere."""
        return dict(self.known.gone), dict(self._changed), dict(self._moved)

    def restore(self, snapshot: Snapshot, kept: BrokerState) -> None:
        """Become what a snapshot holds; `settle` works out what follows."""
        self.nodes = {view.name: view for view in snapshot.nodes}
        self.unready = {view.name for view in snapshot.nodes if not view.ready}
        self.objects = {node: dict(objects) for node, objects in snapshot.objects.items()}
        self.shared.restore(snapshot.shared)
        self.known.restore(snapshot.pods, kept.gone)
        for pod in snapshot.pods:
            if holds_devices(pod) and asks_for_devices(pod):
                self._read(pod)
        self.ledger.restore(kept.entries, kept.serial)
        self._changed = dict(kept.changed)
        self._moved = {uid: elsewhere(uid, seen, promised) for uid, (seen, promised) in kept.moved.items()}
        self._restock = dict.fromkeys((*self.nodes, *self.objects))

    def unsettled(self) -> bool:
        """Whether something was seen or promised from which nothing was worked out yet."""
        return bool(self._restock or self.ledger.touched or self._gained)

    def settle(self) -> list[str]:
        """Work out what follows from all that was seen and promised; the nodes that have more room than before."""
        if not self.unsettled():
            return []
        self.settle_some(len(self._restock))
        touched, self.ledger.touched = self.ledger.touched, set()
        found = self._gained | self._opened | {name for name in sorted(touched) if self._refresh(name, restocked=False)}
        self._opened, self._gained = set(), set()
        return sorted(found)

    def settle_some(self, nodes: int) -> bool:
        """The same for so many nodes of which something new is told; whether more of them are left."""
        for name in list(islice(self._restock, nodes)):
            del self._restock[name]
            self._join(name)
            self.ledger.touched.discard(name)
            if self._refresh(name, restocked=True):
                self._gained.add(name)
        return bool(self._restock)

    def _join(self, name: str) -> None:
        view, before = self.nodes.get(name), self.inventories.pop(name, None)
        if view is None:
            return
        stock = self.inventories[name] = merge_or_report(view, self.documents(name))
        if stock.problems if before is None else (before.problems, before.devices) != (stock.problems, stock.devices):
            self.restocked.setdefault(name, before)
        if before and kind_of(before) != kind_of(stock):
            self._opened.add(name)

    def _refresh(self, name: str, *, restocked: bool) -> bool:
        """Put the node as it is now into the index; whether it has more room than before."""
        stock = self.inventories.get(name)
        if stock is None:
            self.index.drop(name)
            self._note_drift(name, ())
            return False
        self._correct(stock)
        entries = self.ledger.on(name)
        usage = usage_of(stock, entries, self.ended_on(stock))
        known = [drift for entry in entries if (drift := self._drift_of(entry, stock))]
        self._note_drift(name, (*usage.drift, *known))
        before, after = self.index.nodes.get(name), node_of(stock, usage)
        if before == after and not restocked:
            return False  # what is held is held in another way, which is nothing to whoever looks for room
        self.index.put(after, stock.words)
        return gained_capacity(before, after)

    def _note_drift(self, name: str, found: tuple[Drift, ...]) -> None:
        before = self.drift.pop(name, ())
        if found:
            self.drift[name] = found
        if found != before:
            self.drifted.setdefault(name, before)

    def has(self, entry: Entry) -> bool:
        """Whether the node still has the devices of a promise, and nobody else has got them."""
        stock = self.inventories.get(entry.node)
        if stock is None or self.ledger.has_conflict(entry, stock.allocations):
            return False
        return {device.id for device in stock.devices}.issuperset(entry.grant.offer.devices)

    def ended_on(self, stock: NodeInventory) -> list[str]:
        """Pods that use nothing any more, though the node's agent has them in its list still."""
        return [uid for uid in stock.allocations if self.known.ended(uid)]

    def _correct(self, stock: NodeInventory) -> None:
        """Believe a changed record where it is what the node's agent saw."""
        for entry in self.ledger.on(stock.name):
            changed, used = self._changed.get(entry.pod), stock.allocations.get(entry.pod)
            if changed and used and resolved(stock, changed.offer.devices) == resolved(stock, used):
                del self._changed[entry.pod]
                self.ledger.observe(
                    Entry(changed, entry.state, entry.namespace, entry.created), deleting=entry.state == "RELEASING"
                )
        self.ledger.touched.discard(stock.name)

    def _drift_of(self, entry: Entry, stock: NodeInventory) -> Drift | None:
        if changed := self._changed.get(entry.pod):
            believed = stock.allocations.get(entry.pod) or entry.grant.offer.devices
            return Drift("changed", stock.name, (entry.pod,), changed.offer.devices, believed)
        return self._moved.get(entry.pod)

    def _let_go(self, uid: str) -> None:
        self.ledger.release(uid)
        self.problems.pop(uid, None)
        self._changed.pop(uid, None)
        self._moved.pop(uid, None)

    def _believe(self, view: PodView) -> None:
        """Take what a bound pod holds from its record; a record that is changed later is not believed."""
        grant, wish = self._read(view)
        known = self.ledger.get(view.uid)
        if known and known.state in _SEEN and not known.unrecorded_ask:
            self._compare(known, grant)
            entry = known
        elif grant is None and (wish is None or wish.ask is None):
            return
        else:
            if known and known.node != view.node:
                self._moved[view.uid] = elsewhere(view.uid, view.node, known.node)
            ask = wish.ask if wish else None
            entry = Entry(grant or untold(view, wish), "ASSIGNED", view.namespace, view.created, ask)
        same = (
            known
            and known.state in _SEEN
            and (known.grant, known.unrecorded_ask) == (entry.grant, entry.unrecorded_ask)
        )
        if not same or view.deleting:
            self.ledger.observe(entry, deleting=view.deleting)

    def _compare(self, known: Entry, grant: Grant | None) -> None:
        """Note what the record of a bound pod says now, if that is not what it said before."""
        changed = grant or Grant(known.pod, "", Offer(known.node, ()))
        if _claim(changed) != _claim(known.grant):
            self._changed[known.pod] = changed
        elif self._changed.pop(known.pod, None) is None:
            return
        self.ledger.touched.add(known.node)

    def _read(self, view: PodView) -> tuple[Grant | None, PodRequest | None]:
        """What a bound pod was given, or what it wants; a record tells all that matters."""
        held = held_by(view)
        grant = held.grant if held.grant and held.grant.offer.parts else None  # a record of nothing tells nothing
        wish = None if grant else self.requests.of(view)
        self.problems.pop(view.uid, None)
        if held.problems or (wish and wish.problems):
            self.problems[view.uid] = (*held.problems, *(wish.problems if wish else ()))
        return grant, wish


def _claim(grant: Grant) -> tuple[object, ...]:
    return grant.offer.node, grant.offer.parts, grant.mode
