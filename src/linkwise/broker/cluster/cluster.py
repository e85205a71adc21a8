"""The observed cluster: views of pods, nodes and objects, with the ledger and index derived from them.

Observing only notes what changed, in `changes`; `settle` computes the consequences node by node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.cluster.changes import Changes
from linkwise.broker.cluster.inventory import kind_of, merge_or_report
from linkwise.broker.cluster.objects import ClusterObjects, NodeObjects
from linkwise.broker.cluster.pod_request import RequestCache, asks_for_devices, is_volcano
from linkwise.broker.cluster.pods import Pods, elsewhere, holds_devices, mismatch, unrecorded_grant
from linkwise.broker.cluster.resource_claims import ResourceClaims
from linkwise.dialects.dialect import where_pod
from linkwise.dialects.groups.owners import OwnerRules
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST
from linkwise.dialects.linkwise.accelerator_policy import subject_of
from linkwise.dialects.registry import held_by
from linkwise.engine.index.node_index import Index
from linkwise.engine.ledger import Entry, Ledger
from linkwise.engine.usage import Drift, gained_capacity, node_of, resolved, usage_of
from linkwise.model.access_policy import COMMON, Subject
from linkwise.model.inventory import NodeInventory
from linkwise.model.verdict import Grant, Key, Offer, Problem, pods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from linkwise.broker.cluster.objects import MissingInventory, Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.model.ask import Load
    from linkwise.model.node import Node, NumaAlignment
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.snapshot import Snapshot
    from linkwise.model.views import NodeView, PodView

__all__ = ["Cluster", "holds_devices"]

_OBSERVED: Final = ("ASSIGNED", "RELEASING")


class Cluster:
    """Views by name or UID, and the state derived from them."""

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self.settings: Final = settings
        self.by_owner: Final = OwnerRules.of(settings.group)
        self.requests: Final = RequestCache(settings.policies, by_owner=self.by_owner)
        self.changes: Final = Changes()
        self.known: Final = Pods()
        self.nodes: dict[str, NodeView] = {}
        self.unready: set[str] = set()
        """nodes that accept no pods now"""
        self.objects: Final = NodeObjects(settings.inventory_grace, self.changes.observed, parse)
        self.shared: Final = ClusterObjects(self.changes)
        self.claims: Final = ResourceClaims(self.changes)
        self.inventories: dict[str, NodeInventory] = {}
        self.unreachable: Final[set[str]] = set()
        """nodes with devices that other nodes can't reach"""
        self.held: dict[str, float] = {}
        """by node with devices on hold, when the first of them ends"""
        self.ledger: Final = Ledger(self.changes.used)
        self.index: Final = Index(settings)
        self.drift: dict[str, tuple[Drift, ...]] = {}
        """drift by node"""
        self.problems: dict[str, tuple[Problem, ...]] = {}
        """of pods, by UID"""
        self._changed: dict[str, Grant] = {}
        """records of bound pods that were changed after they were first observed"""
        self._moved: dict[str, Drift] = {}
        self.unwritten: Final[dict[str, None]] = {}
        """pods that Volcano bound and whose record is not observed: it is ours to choose their devices and to write them"""
        self.find_pod: Callable[[str], PodView | None] = self.pods.get
        """a pod by UID; the state sets it, which also knows pods that were only asked about"""
        self.follow_sharing()

    @property
    def pods(self) -> Mapping[str, PodView]:
        """Observed pods by UID."""
        return self.known.views

    def see_pod(self, view: PodView) -> bool:
        """Record a pod; false if the view is outdated."""
        if not self.known.is_news(view):
            return False
        self.known.put(view)
        if not holds_devices(view):
            if view.node:
                self._let_go(view.uid)
                self.changes.used.add(view.node)  # its agent may have it in its list still
        elif asks_for_devices(view):
            self._believe(view)
        return True

    def lose_pod(self, uid: str) -> None:
        """Remove a pod."""
        self.known.drop(uid)
        self._let_go(uid)

    def see_node(self, view: NodeView) -> bool:
        """Record a node; false if the view is outdated."""
        known = self.nodes.get(view.name)
        if not view.name or (known and 0 < view.version < known.version):
            return False
        if known is None or known.labels != view.labels:
            self.shared.labels_changed(view.name, view.labels)
        if known is not None:
            view = self.objects.see_node(known, view)
        self.nodes[view.name] = view
        if known is None or replace(known, version=view.version) != view:  # kubelet writes every few minutes
            self.changes.observed[view.name] = None
        if not view.ready:
            self.unready.add(view.name)
        elif view.name in self.unready:
            self.unready.remove(view.name)
            self.changes.opened.add(view.name)
        return True

    def lose_node(self, name: str) -> None:
        """Remove a node; its pods stay in the ledger until they are deleted as well."""
        self.nodes.pop(name, None)
        self.objects.lose_node(name)
        self.unready.discard(name)
        self.shared.labels_changed(name, {})
        self.changes.observed[name] = None

    def see_object(self, node: str, kind: str, document: Mapping[str, object] | bytes | None) -> None:
        """Record an object about a node; None if it was deleted."""
        self.objects.see(node, kind, document, self.nodes.get(node))

    def expire_inventories(self, now: float) -> None:
        """Drop inventories that are missing for too long."""
        if not self.objects.missing:
            return
        for node, key in self.objects.expire(now):
            view = self.nodes.get(node)
            if view and key in view.annotations:
                kept = {name: text for name, text in view.annotations.items() if name != key}
                self.nodes[node] = replace(view, annotations=kept)

    def expire_holds(self, now: float) -> bool:
        """End holds whose time is over; return whether there are any. Call it after `settle`, which reads them again."""
        due = [node for node, until in self.held.items() if until <= now]
        for node in due:
            left = tuple(hold for hold in self.inventories[node].holds if hold.until > now)
            self.inventories[node] = replace(self.inventories[node], holds=left)
            self._note_holds(node)
            self.changes.used.add(node)
        return bool(due)

    def _note_holds(self, node: str) -> None:
        self.held.pop(node, None)
        if node in self.inventories and (holds := self.inventories[node].holds):
            self.held[node] = min(hold.until for hold in holds)

    def pods_on(self, node: str) -> list[PodView]:
        """Return the pods observed on a node."""
        return self.known.on(node)

    def is_settled(self, uid: str) -> bool:
        """Return whether the pod is observed as bound or deleted, so that a call for it is outdated."""
        known = self.pods.get(uid)
        return uid in self.known.gone or (known is not None and bool(known.node))

    def follow_sharing(self) -> None:
        """Let the ledger derive sharing domains if they are not simply the namespaces."""
        derived = self.settings.share.within == "any" or self.shared.access.governs_sharing
        self.ledger.sharing_of = self._sharing_of_entry if derived else None

    def sharing_of(self, pod: PodView) -> str:
        """Return the sharing domain of a pod; empty if it is its namespace."""
        return self._sharing(subject_of(pod)) if self.ledger.sharing_of else ""

    def _sharing_of_entry(self, entry: Entry) -> str:
        pod = self.find_pod(entry.pod)
        return self._sharing(subject_of(pod) if pod else Subject(entry.namespace))

    def _sharing(self, subject: Subject) -> str:
        rules = self.shared.access
        rule = rules.rule(subject) if rules.governs_sharing else None
        domain = rule.domain if rule else ""
        # rule 002.segregate: without a policy, pods share within a namespace or with any, by a setting.
        domain = domain or (COMMON if self.settings.share.within == "any" else "")
        return "" if domain == subject.namespace else domain

    def load(self, node: str) -> Load:
        """Return what the pods of a node use apart from devices, including pods being bound to it."""
        return self.known.load(node, pods_of(entry.key for entry in self.ledger.on(node)))

    def remembered(self) -> tuple[dict[str, bool], dict[str, Grant], dict[str, Drift]]:
        """Return the state beside views and ledger: deleted pods, changed records, moved pods."""
        return dict(self.known.gone), dict(self._changed), dict(self._moved)

    def restore(
        self,
        snapshot: Snapshot[Any],
        deleted: Mapping[str, bool],
        missing: Mapping[str, Mapping[str, MissingInventory]],
    ) -> None:
        """Restore a snapshot; `settle` computes the rest."""
        self.nodes = {view.name: view for view in snapshot.nodes}
        self.unready = {view.name for view in snapshot.nodes if not view.ready}
        self.objects.restore(snapshot.objects, missing)
        self.shared.restore(snapshot.shared)
        self.follow_sharing()
        self.claims.restore(snapshot.shared)
        for view in snapshot.nodes:
            self.shared.labels_changed(view.name, view.labels)
        self.known.restore(snapshot.pods, deleted)
        for pod in snapshot.pods:
            if holds_devices(pod) and asks_for_devices(pod):
                self._read(pod)
        self.changes.observed |= dict.fromkeys((*self.nodes, *self.objects.documents))

    def restore_drift(self, changed: Mapping[str, Grant], moved: Mapping[str, Drift]) -> None:
        """Restore changed records and moved pods."""
        self._changed, self._moved = dict(changed), dict(moved)

    def unsettled(self) -> bool:
        """Return whether changes are unprocessed."""
        return bool(self.changes.observed or self.changes.used or self.changes.gained)

    def settle(self) -> list[str]:
        """Process all changes; return the nodes that gained capacity."""
        if not self.unsettled():
            return []
        changes = self.changes
        self.settle_some(len(changes.observed))
        used = sorted(changes.used)
        changes.used.clear()
        changes.gained.update(name for name in used if self._refresh(name, merged=False))
        gained = sorted(changes.gained | changes.opened)
        changes.gained.clear()
        changes.opened.clear()
        return gained

    def settle_some(self, nodes: int) -> bool:
        """Process at most that many changed nodes; return whether more are left."""
        changes = self.changes
        for name in list(islice(changes.observed, nodes)):
            del changes.observed[name]
            self._merge(name)
            changes.used.discard(name)
            if self._refresh(name, merged=True):
                changes.gained.add(name)
        return bool(changes.observed)

    def _merge(self, name: str) -> None:
        view, before = self.nodes.get(name), self.inventories.pop(name, None)
        if view is not None:
            self.inventories[name] = merge_or_report(
                view,
                self.objects.of(name),
                self.claims.on(name),
                self.objects.missing_of(name),
                plans_claims=self.settings.claims.plan,
            )
        inventory = self.inventories.get(name, NodeInventory(name))
        if self.held or inventory.holds:
            self._note_holds(name)
        if before and before.devices != inventory.devices:
            self.ledger.note_indices(name, {device.id: device.index for device in before.devices})
        if all(device.reachable for device in inventory.devices):
            self.unreachable.discard(name)
        else:
            self.unreachable.add(name)
        if view is None:
            return
        if (
            inventory.problems
            if before is None
            else (before.problems, before.devices, before.faults, before.cordoned)
            != (inventory.problems, inventory.devices, inventory.faults, inventory.cordoned)
        ):
            self.changes.inventories.setdefault(name, before)
        if before and kind_of(before) != kind_of(inventory):
            self.changes.opened.add(name)

    def _refresh(self, name: str, *, merged: bool) -> bool:
        """Update a node in the index; return whether it gained capacity."""
        inventory = self.inventories.get(name)
        if inventory is None:
            self.index.drop(name)
            self._note_drift(name, ())
            return False
        if self._changed:
            self._correct(inventory)
        entries = self.ledger.on(name)
        usage = usage_of(inventory, entries, self.ended_on(inventory))
        if usage.drift and (displaced := _displaced_offers(entries, usage.drift)):
            self.ledger.drop(displaced)
            self.changes.used.discard(name)
            entries = self.ledger.on(name)
            usage = usage_of(inventory, entries, self.ended_on(inventory))
        odd = self._changed or self._moved
        known = [drift for entry in entries if (drift := self._drift_of(entry, inventory))] if odd else ()
        self._note_drift(name, (*usage.drift, *known))
        if inventory.alignment and inventory.alignment.cpus:
            inventory = replace(inventory, alignment=self._with_used_cpus(inventory, inventory.alignment, entries))
        before, after = self.index.nodes.get(name), node_of(inventory, usage)
        if before == after and not merged:
            return False  # what is held is held in another way, which does not matter for free devices
        self.index.put(after, inventory.words)
        return gained_capacity(before, after)

    def _with_used_cpus(
        self, inventory: NodeInventory, alignment: NumaAlignment, entries: Sequence[Entry]
    ) -> NumaAlignment:
        """Return the alignment without the exclusive CPUs of pods that the reported numbers may not include yet.

        The kubelet takes them from the NUMA nodes of the pod's devices.
        """
        places = {device.id: device.numa for device in inventory.devices}
        used: Counter[int | None] = Counter()
        for entry in entries:
            pod = None if entry.purpose else self.pods.get(entry.pod)
            ask = self.requests.of(pod).ask if pod else None
            for place in {places.get(device) for device in entry.grant.offer.devices} if ask and ask.cpus else ():
                used[place] += ask.cpus if ask else 0
        total = dict(alignment.total_cpus)
        free = tuple((place, max(0, min(count, total[place] - used[place]))) for place, count in alignment.cpus)
        return replace(alignment, cpus=free)

    def _note_drift(self, name: str, found: tuple[Drift, ...]) -> None:
        before = self.drift.pop(name, ())
        if found:
            self.drift[name] = found
        if found != before:
            self.changes.drift.setdefault(name, before)

    def has(self, entry: Entry) -> bool:
        """Return whether the node still has the devices of an entry, and no other pod uses them."""
        inventory = self.inventories.get(entry.node)
        if inventory is None or self.ledger.has_conflict(entry, inventory.allocations):
            return False
        return {device.id for device in inventory.devices}.issuperset(entry.grant.offer.devices)

    def node_without(self, name: str, keys: Collection[Key]) -> Node | None:
        """Return a node as it would be without some of its entries; None if it is unknown."""
        inventory = self.inventories.get(name)
        if inventory is None:
            return None
        staying = [entry for entry in self.ledger.on(name) if entry.key not in keys]
        return node_of(inventory, usage_of(inventory, staying, {*keys, *self.ended_on(inventory)}))

    def ended_on(self, inventory: NodeInventory) -> list[str]:
        """Return finished pods that the node's agent still lists; devices of a claim are in use until it gives them up."""
        if not inventory.allocations or inventory.by_claims:
            return []
        return [uid for uid in inventory.allocations if self.known.ended(uid)]

    def _correct(self, inventory: NodeInventory) -> None:
        """Accept a changed record that matches what the node's agent reports."""
        for entry in self.ledger.on(inventory.name):
            if entry.purpose:
                continue
            changed, used = self._changed.get(entry.pod), inventory.allocations.get(entry.pod)
            if changed and used and resolved(inventory, changed.offer.devices) == resolved(inventory, used):
                del self._changed[entry.pod]
                self.ledger.observe(
                    Entry(changed, entry.state, entry.namespace, entry.created), deleting=entry.state == "RELEASING"
                )
        self.changes.used.discard(inventory.name)

    def _drift_of(self, entry: Entry, inventory: NodeInventory) -> Drift | None:
        if entry.purpose:
            return None
        if changed := self._changed.get(entry.pod):
            believed = inventory.allocations.get(entry.pod) or entry.grant.offer.devices
            return Drift("changed", inventory.name, (entry.pod,), changed.offer.devices, believed)
        return self._moved.get(entry.pod)

    def _let_go(self, uid: str) -> None:
        self.ledger.release(uid)
        self.problems.pop(uid, None)
        self.unwritten.pop(uid, None)
        self._changed.pop(uid, None)
        self._moved.pop(uid, None)

    def _believe(self, view: PodView) -> None:
        """Enter a bound pod by its record; later changes of the record are ignored."""
        grant, request = self._read(view)
        known = self.ledger.get(view.uid)
        if is_volcano(self.settings, view):
            self._note_unwritten(view, grant, request)
        if known and known.state in _OBSERVED and not known.unrecorded_ask:
            if grant or not (view.uid in self.unwritten or CLAIM_REQUEST in view.annotations):
                self._compare(known, grant)  # the claim is the record of a pod that has one
            entry = known
        elif grant is None and known and CLAIM_REQUEST in view.annotations and self._was_planned(known, view):
            entry = Entry(known.grant, "ASSIGNED", view.namespace, view.created, decision=known.decision)
        elif grant is None and known and view.uid in self.unwritten and self._is_reserved(known, view):
            # rule 003.allocate: Volcano's bind has no devices; they are those that were booked when it allocated the node.
            entry = Entry(known.grant, "ASSIGNED", view.namespace, view.created, decision=known.decision)
        elif grant is None and (request is None or request.ask is None):
            return
        else:
            if known and known.state != "OFFERED" and known.node != view.node:
                self._moved[view.uid] = elsewhere(view.uid, view.node, known.node)
            elif grant and known and known.booked and _claim(grant) != _claim(known.grant):
                self.changes.overwritten[view.uid] = known.grant
            ask = request.ask if request else None
            entry = Entry(grant or unrecorded_grant(view, request), "ASSIGNED", view.namespace, view.created, ask)
        same = (
            known
            and known.state in _OBSERVED
            and (known.grant, known.unrecorded_ask) == (entry.grant, entry.unrecorded_ask)
        )
        if not same or view.deleting:
            self.ledger.observe(entry, deleting=view.deleting)

    def _note_unwritten(self, view: PodView, grant: Grant | None, request: PodRequest | None) -> None:
        """Note a bound pod without a record; one whose containers have started has devices that are not for us to choose."""
        if grant:
            self.unwritten.pop(view.uid, None)
        elif request and request.ask and not request.claimed and not (view.begun or view.deleting):
            self.unwritten[view.uid] = None
        elif (known := self.ledger.get(view.uid)) is None or known.unrecorded_ask:
            self.unwritten.pop(view.uid, None)

    @staticmethod
    def _was_planned(known: Entry, view: PodView) -> bool:
        """Whether a pod is bound to the node of its plan: its claim names the planned devices."""
        return known.node == view.node and known.state in {"PLANNED", "ASSUMED"}

    def _is_reserved(self, known: Entry, view: PodView) -> bool:
        """Whether the devices of an entry are the pod's own on the node that it was bound to."""
        if known.node != view.node or not (known.booked or known.state == "PLANNED"):
            return False
        inventory = self.inventories.get(known.node)
        return not self.ledger.has_conflict(known, inventory.allocations if inventory else ())

    def _compare(self, known: Entry, grant: Grant | None) -> None:
        """Note a changed record of a bound pod."""
        changed = grant or Grant(known.pod, "", Offer(known.node, ()))
        if _claim(changed) != _claim(known.grant):
            self._changed[known.pod] = changed
        elif self._changed.pop(known.pod, None) is None:
            return
        self.changes.used.add(known.node)

    def _read(self, view: PodView) -> tuple[Grant | None, PodRequest | None]:
        """Return the recorded grant of a bound pod, or its request if it has no record that matches it."""
        held = held_by(view)
        grant = held.grant if held.grant and held.grant.offer.parts else None  # an empty record holds no information
        problems = held.problems
        ask = self.requests.ask_of(view) if grant else None
        if grant and ask and (wrong := mismatch(ask, grant)):
            problems = (*problems, Problem(where_pod(view), "recorded devices", f"{wrong}; the request counts"))
            grant = None
        request = None if grant else self.requests.of(view)
        self.problems.pop(view.uid, None)
        if problems or (request and request.problems):
            self.problems[view.uid] = (*problems, *(request.problems if request else ()))
        return grant, request


def _displaced_offers(entries: Iterable[Entry], drift: Iterable[Drift]) -> list[Key]:
    """Return offers and reservations that disagree with a record or with the node's agent: they give way, and are no drift."""
    named, believed = {key for each in drift for key in each.pods}, {name for each in drift for name in each.believed}
    displaced = (entry for entry in entries if entry.key in named or entry.pod in believed)
    return [entry.key for entry in displaced if entry.state in {"OFFERED", "RESERVED"}]


def _claim(grant: Grant) -> tuple[object, ...]:
    return grant.offer.node, grant.offer.parts, grant.mode
