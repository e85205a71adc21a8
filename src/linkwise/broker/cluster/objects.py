"""Observed objects that describe nodes, groups, access, volumes and the network.

An inventory that is deleted is used as it last was for a grace period: its CRD may be being replaced, or its agent
reinstalled, and the devices are the same meanwhile. It returns, or is dropped: at the end of the grace period, with its
node, or when the node reports another amount of devices than before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.groups.network import (
    HYPER_NODE,
    LADDERS,
    hyper_node_of,
    invalid_labels,
    label_problem,
    ladder_of,
    tiers_of,
)
from linkwise.dialects.groups.pod_group_objects import (
    KINDS,
    gang_name,
    pod_group_kind,
    pod_group_of,
    points_to_pod_group,
    with_pod_group,
)
from linkwise.dialects.kubernetes.claims.requests import SWITCH, switched
from linkwise.dialects.kubernetes.objects import BUDGET, CLAIM, CLASS, binds_later, budget_of, claim_of, essential
from linkwise.dialects.linkwise.accelerator_policy import NAMESPACE, POLICY, labels_of, policy_of
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.registry import describes_devices, owner_name
from linkwise.engine.access import NO_RULES, AccessRules
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from linkwise.broker.cluster.changes import Changes
    from linkwise.dialects.groups.network import HyperNode, Ladder, Tiers
    from linkwise.dialects.groups.pod_group_objects import PodGroup
    from linkwise.model.access_policy import AcceleratorPolicy
    from linkwise.model.ask import Group
    from linkwise.model.verdict import Problem
    from linkwise.model.views import DisruptionBudget, NodeView, PodView

    Parse = Callable[[bytes], Any]
    """reads JSON, or raises ValueError"""
    from collections.abc import Callable

__all__ = ["ALL", "READ", "ClusterObjects", "MissingInventory", "NodeObjects", "Parse", "document_of"]

READ: Final = (*KINDS.values(), *LADDERS, HYPER_NODE, BUDGET, POLICY, NAMESPACE, CLASS, CLAIM)
"""supported kinds"""
_POD_GROUPS: Final = frozenset(KINDS.values())
_NETWORK: Final = frozenset({*LADDERS, HYPER_NODE})
_VOLUMES: Final = frozenset({CLASS, CLAIM})
ALL: Final = ""
"""stands for the name of an object: all objects of its kind are observed, so that others do not exist"""
NODES_PER_STEP: Final = 1000
"""nodes whose labels are read between two steps"""
_NOW: Final = 0.0
"""a deadline that is over"""
_NONE: Final[Mapping[str, MissingInventory]] = {}


def document_of(found: Mapping[str, object] | bytes, parse: Parse = json.loads) -> Mapping[str, object]:
    """Parse a JSON document; anything but an object becomes an empty one, which its reader reports."""
    if not isinstance(found, bytes):
        return found
    try:
        document = parse(found)
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}


class ClusterObjects:
    """Objects by kind and name, parsed."""

    def __init__(self, changes: Changes) -> None:
        self._changes: Final = changes
        self.documents: dict[str, dict[str, Mapping[str, object]]] = {}
        self.problems: dict[tuple[str, str], tuple[Problem, ...]] = {}
        """by kind and name"""
        self.ladders: dict[tuple[str, str], Ladder] = {}
        self.budgets: dict[str, DisruptionBudget] = {}
        """by namespace and name"""
        self.access: AccessRules = NO_RULES
        """what AcceleratorPolicies permit"""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """labels of namespaces"""
        self.claiming: dict[str, bool] = {}
        """namespaces that say whether the devices of their pods are requested by claims"""
        self._readers: Final = {
            HYPER_NODE: self._see_hyper_node,
            BUDGET: self._see_budget,
            POLICY: self._see_policy,
            NAMESPACE: self._see_namespace,
        }
        self._pod_groups: dict[tuple[str, str], PodGroup] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._tiers: Tiers | None = None
        self._words: dict[str, frozenset[str]] = {}
        self._label_keys: set[str] = set()
        """labels that any node had; most of the known network labels are on none, and need no search"""
        self._invalid_labels: dict[str, tuple[str, ...]] = {}
        """network labels by node"""

    def see(self, kind: str, name: str, document: Mapping[str, object] | bytes | None) -> None:
        """Record an object; None if it was deleted."""
        before = self.documents.get(kind, {}).get(name)
        self._drop(kind, name)
        found = None if document is None or kind not in READ else document_of(document)
        if found is not None:
            found = self.documents.setdefault(kind, {})[name] = _needed_of(kind, name, found)
        if kind in _POD_GROUPS:
            self._see_pod_group(kind, name, found)
            if (before is None) != (found is None):
                self._changes.pod_groups.add(name)  # an invalid one counts as well: its pods do not wait for it
        elif kind in LADDERS:
            self._see_ladder(kind, name, found)
        elif kind in _VOLUMES:
            self._changes.volumes |= found != before
        elif kind in self._readers:
            self._readers[kind](name, found)

    def restore(self, objects: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
        """Restore a snapshot, without noting changes."""
        for kind, named in objects.items():
            for name, document in named.items():
                self.see(kind, name, document)
        self._changes.take_pod_groups()
        self._changes.take_network()
        self._changes.take_access()
        self._changes.take_volumes()

    def completed(self, pod: PodView, group: Group) -> Group:
        """Return the group completed from its PodGroup."""
        found = None
        if self._pod_groups and (kind := pod_group_kind(pod, group)):
            found = self._pod_groups.get((kind, gang_name(pod, group)))
        return with_pod_group(group, found) if found else group

    def missing_pod_group(self, pod: PodView, group: Group) -> str:
        """Return the name of the PodGroup that a pod points to and that is not observed; empty if there is none."""
        kind, name = pod_group_kind(pod, group), gang_name(pod, group) if points_to_pod_group(pod, group) else ""
        return name if kind and name and name not in self.documents.get(kind, {}) else ""

    def claim_reason(self, namespace: str, name: str) -> Reason | None:
        """Return why a pod with that PersistentVolumeClaim can't be scheduled; None if it can, or if it is not known.

        As in kube-scheduler: it is bound, or will be on the node that is chosen.
        """
        claims, classes = self.documents.get(CLAIM, {}), self.documents.get(CLASS, {})
        document = claims.get(f"{namespace}/{name}")
        if document is None:
            return Reason("001.gang", name, kind="claim missing") if ALL in claims else None
        claim = claim_of(document)
        if claim.bound:
            return None
        if claim.node:
            return Reason("001.gang", name, claim.node, "claim provisioning")
        if claim.storage_class and claim.storage_class not in classes:
            return Reason("001.gang", name, claim.storage_class, "claim without class") if ALL in classes else None
        later = claim.storage_class and binds_later(classes[claim.storage_class]) and not claim.volume
        return None if later else Reason("001.gang", name, kind="claim unbound")

    def unbound_claim(self, namespace: str, names: Iterable[str]) -> str:
        """Return the first of these PersistentVolumeClaims that is observed and not bound; empty if there is none."""
        claims = self.documents.get(CLAIM, {})
        found = ((name, claims.get(f"{namespace}/{name}")) for name in names)
        return next((name for name, document in found if document is not None and not claim_of(document).bound), "")

    @property
    def has_problems(self) -> bool:
        """Whether `wrong_for` has to be asked at all."""
        return bool(self.problems or self._invalid_labels)

    def wrong_for(self, pod: PodView, group: Group) -> list[Problem]:
        """Return problems of objects that the group depends on: its PodGroup, and the network if it has requirements there."""
        own = (pod_group_kind(pod, group), gang_name(pod, group))
        wanted = [key for key in sorted(self.problems) if key == own or (group.network and key[0] in _NETWORK)]
        labels = [label_problem(self._invalid_labels)] if group.network and self._invalid_labels else []
        return [*(problem for key in wanted for problem in self.problems[key]), *labels]

    def labels_changed(self, node: str, labels: Mapping[str, str]) -> None:
        """Drop what was computed from node labels, because those of a node changed; it has none when it is deleted."""
        self._label_keys.update(labels)
        self._invalid_labels.pop(node, None)
        if invalid := invalid_labels(labels):
            self._invalid_labels[node] = invalid
        self._tiers = None
        self._words = {}  # a new dict, so that a running read does not write into it

    def tiers(self, nodes: Mapping[str, NodeView]) -> Tiers:
        """Return the network tiers from HyperNodes."""
        if self._tiers is None:
            labels = {name: view.labels for name, view in nodes.items()} if self._hyper_nodes else {}
            self._tiers = tiers_of(self._hyper_nodes.values(), labels)
        return self._tiers

    def words(self, label: str, nodes: Mapping[str, NodeView]) -> frozenset[str]:
        """Return the values of a node label."""
        if label not in self._label_keys:
            return frozenset()
        if label not in self._words:
            self._words[label] = frozenset(view.labels[label] for view in nodes.values() if label in view.labels)
        return self._words[label]

    def read_words(self, labels: Iterable[str], nodes: Mapping[str, NodeView]) -> Generator[None, None, None]:
        """Read the values of several node labels in steps, for fast access later."""
        words = self._words
        found: dict[str, set[str]] = {
            label: set() for label in labels if label in self._label_keys and label not in words
        }
        if not found:
            return
        for number, view in enumerate(list(nodes.values())):
            if number % NODES_PER_STEP == 0:
                yield
            for label, values in found.items():
                if label in view.labels:
                    values.add(view.labels[label])
        words.update((label, frozenset(values)) for label, values in found.items())

    def _drop(self, kind: str, name: str) -> None:
        self.problems.pop((kind, name), None)
        named = self.documents.get(kind, {})
        named.pop(name, None)
        if not named:
            self.documents.pop(kind, None)

    def _see_pod_group(self, kind: str, name: str, document: Mapping[str, object] | None) -> None:
        before = self._pod_groups.pop((kind, name), None)
        found, problems = pod_group_of(kind, name, document) if document is not None else (None, ())
        if found:
            self._pod_groups[kind, name] = found
        self._note(kind, name, problems)
        if problems or found != before:
            self._changes.pod_groups.add(name)

    def _see_ladder(self, kind: str, name: str, document: Mapping[str, object] | None) -> None:
        before = self.ladders.pop((kind, name), None)
        found, problems = ladder_of(kind, name, document) if document is not None else (None, ())
        if found:
            self.ladders[kind, name] = found
        self._note(kind, name, problems)
        self._changes.network |= found != before

    def _see_hyper_node(self, name: str, document: Mapping[str, object] | None) -> None:
        before = self._hyper_nodes.pop(name, None)
        found, problems = hyper_node_of(name, document) if document is not None else (None, ())
        if found:
            self._hyper_nodes[name] = found
        self._note(HYPER_NODE, name, problems)
        if found != before:
            self._changes.network, self._tiers = True, None

    def _see_budget(self, name: str, document: Mapping[str, object] | None) -> None:
        self.budgets.pop(name, None)
        budget, problems = budget_of(name, document) if document is not None else (None, ())
        if budget:
            self.budgets[name] = budget
        self._note(BUDGET, name, problems)

    def _see_policy(self, name: str, document: Mapping[str, object] | None) -> None:
        before = self.access.policies.get(name)
        policy, problems = policy_of(name, document) if document is not None else (None, ())
        self._note(POLICY, name, problems)
        if policy != before:
            others = {key: known for key, known in self.access.policies.items() if key != name}
            self._renew_access({**others, name: policy} if policy else others)

    def _see_namespace(self, name: str, document: Mapping[str, object] | None) -> None:
        before = self.namespaces.pop(name, None)
        self.claiming.pop(name, None)
        if document is not None:
            self.namespaces[name] = labels_of(document)
            annotated = _switch_of(document).get("annotations", {})
            if (claiming := switched({**annotated, **labels_of(document)})) is not None:
                self.claiming[name] = claiming
        if self.access.by_labels and before != self.namespaces.get(name):
            self._renew_access(self.access.policies)

    def _renew_access(self, policies: Mapping[str, AcceleratorPolicy]) -> None:
        """Replace the rules; `reconcile` derives what follows from the difference."""
        if self._changes.access is None:
            self._changes.access = self.access
        self.access = AccessRules(policies, self.namespaces)

    def _note(self, kind: str, name: str, problems: tuple[Problem, ...]) -> None:
        if problems:
            self.problems[kind, name] = problems


@dataclass(frozen=True, slots=True)
class MissingInventory:
    """An object or annotation that described the devices of a node and was deleted."""

    since: float | None = None
    """seconds since the epoch; None until the next reconciliation"""
    hardware: Mapping[str, str] = field(default_factory=dict)
    """the amounts of devices that the node reported at that time, by resource"""


class NodeObjects:
    """The last documents of each node.

    Args:
        grace: how long a missing inventory is used, in seconds.
        changed: gets the nodes whose documents change; the caller empties it.
        parse: reads the JSON of documents.
    """

    def __init__(self, grace: float, changed: dict[str, None], parse: Parse = json.loads) -> None:
        self._grace: Final = grace
        self._changed: Final = changed
        self._parse: Final = parse
        self.documents: dict[str, dict[str, Mapping[str, object] | bytes]] = {}
        """by node name and kind"""
        self.missing: dict[str, dict[str, MissingInventory]] = {}
        """by node, and kind or annotation"""
        self._latest = self._deadline = _NOW
        """when the last of them vanished, and when the grace period of the first ends"""

    def see(
        self, node: str, kind: str, document: Mapping[str, object] | bytes | None, view: NodeView | None = None
    ) -> None:
        """Record an object about a node, of which `view` is the latest; None if the object was deleted."""
        known = self.documents.get(node, {}).get(kind)
        missing = self.missing_of(node).get(kind)
        if document is None:
            if known is not None and missing is None:
                self._lose(node, kind, view)
            return
        if missing:
            self._return(node, kind)
        if missing or known != document:
            self.documents[node] = {**self.documents.get(node, {}), kind: document}
            if missing or known is None or not self._only_usage_differs(kind, known, document):
                self._changed[node] = None

    def see_node(self, known: NodeView, view: NodeView) -> NodeView:
        """Return a node's new view, with annotations that described its devices and are missing now."""
        name = view.name
        for key, missing in tuple(self.missing_of(name).items()):
            if key in view.annotations:
                self._return(name, key)
            elif _replaced(missing.hardware, view):
                self._drop(name, key)
                known = _without(known, key)
        lost = [key for key in known.annotations if key not in view.annotations and describes_devices(key)]
        if not lost or not self._grace or _replaced(_hardware(known), view):
            return view
        for key in lost:
            if key not in self.missing_of(name):
                self._begin(known, key)
        return replace(view, annotations={**view.annotations, **{key: known.annotations[key] for key in lost}})

    def lose_node(self, node: str) -> None:
        """Remove a node: what is missing of it does not come back."""
        for key in tuple(self.missing_of(node)):
            self._drop(node, key)

    def _only_usage_differs(
        self, kind: str, known: Mapping[str, object] | bytes, document: Mapping[str, object] | bytes
    ) -> bool:
        """Whether no decision depends on the difference: agents write the usage of their devices every minute or so."""
        if kind != KIND:
            return False
        try:
            return _decisive(document_of(known, self._parse)) == _decisive(document_of(document, self._parse))
        except Exception:  # noqa: BLE001 - whatever is wrong with it, merging the inventory reports it
            return False

    def of(self, node: str) -> dict[str, Mapping[str, object]]:
        """Return the objects about a node by kind, parsed."""
        return {kind: document_of(found, self._parse) for kind, found in self.documents.get(node, {}).items()}

    def capture(self) -> Callable[[], dict[str, dict[str, Mapping[str, object]]]]:
        """Return a function that parses the objects about all nodes as they are now; it may be called in another thread."""
        objects, parse = dict(self.documents), self._parse  # an object that changes replaces those of its node

        def parsed() -> dict[str, dict[str, Mapping[str, object]]]:
            return {
                name: {kind: document_of(found, parse) for kind, found in sorted(known.items())}
                for name, known in sorted(objects.items())
                if known
            }

        return parsed

    def missing_of(self, node: str) -> Mapping[str, MissingInventory]:
        """Return what is missing of a node, by kind or annotation."""
        return self.missing.get(node, _NONE)

    def expire(self, now: float) -> list[tuple[str, str]]:
        """Drop inventories that are missing for longer than the grace period; return them by node and kind.

        Those that are missing since the last call, or since a time that the clock has not reached, are missing from now on.
        """
        if not self.missing or self._latest <= now < self._deadline:
            return []
        over = []
        for node, key, missing in [(node, *each) for node, keys in self.missing.items() for each in keys.items()]:
            if missing.since is None or missing.since > now:
                self.missing[node][key] = replace(missing, since=now)
                self._changed[node] = None
            elif missing.since + self._grace <= now:
                self._drop(node, key)
                over.append((node, key))
        self._find_deadline()
        return over

    def next_deadline(self) -> float | None:
        """When the grace period of the longest missing inventory ends."""
        return self._deadline if self.missing else None

    def stored(self) -> dict[str, dict[str, MissingInventory]]:
        """What is missing, by node, for a snapshot."""
        return {node: dict(keys) for node, keys in sorted(self.missing.items())}

    def restore(
        self,
        documents: Mapping[str, Mapping[str, Mapping[str, object] | bytes]],
        missing: Mapping[str, Mapping[str, MissingInventory]],
    ) -> None:
        """Restore a snapshot."""
        self.documents = {node: dict(objects) for node, objects in documents.items()}
        self.missing = {node: dict(keys) for node, keys in missing.items()}
        self._find_deadline()

    def _lose(self, node: str, kind: str, view: NodeView | None) -> None:
        if self._grace and view is not None and describes_devices(kind):
            self._begin(view, kind)
        else:
            self._drop(node, kind)

    def _begin(self, view: NodeView, key: str) -> None:
        self.missing.setdefault(view.name, {})[key] = MissingInventory(hardware=_hardware(view))
        self._deadline = _NOW
        self._changed[view.name] = None

    def _return(self, node: str, key: str) -> None:
        keys = self.missing.get(node, {})
        keys.pop(key, None)
        if not keys:
            self.missing.pop(node, None)
        self._changed[node] = None

    def _find_deadline(self) -> None:
        times = [missing.since for keys in self.missing.values() for missing in keys.values()]
        since = [time for time in times if time is not None]
        self._latest = max(since, default=_NOW)
        self._deadline = min(since, default=_NOW) + self._grace if len(since) == len(times) else _NOW

    def _drop(self, node: str, key: str) -> None:
        self._return(node, key)
        documents = {kind: known for kind, known in self.documents.get(node, {}).items() if kind != key}
        if documents:
            self.documents[node] = documents
        else:
            self.documents.pop(node, None)


def _needed_of(kind: str, name: str, document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of an object that is read, of kinds of which a cluster may have many."""
    if kind == NAMESPACE:
        return {"metadata": {"name": name, "labels": labels_of(document), **_switch_of(document)}}
    return essential(kind, document) if kind in _VOLUMES else document


def _switch_of(document: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Return the annotation of a Namespace that is read."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    text = annotations.get(SWITCH) if isinstance(annotations, Mapping) else None
    return {"annotations": {SWITCH: text}} if isinstance(text, str) else {}


def _replaced(hardware: Mapping[str, str], view: NodeView) -> bool:
    """Return whether a node reports other devices; one that reports none has a device plugin that is not ready."""
    return any(view.capacity.get(resource, "0") not in {"0", amount} for resource, amount in hardware.items())


def _without(view: NodeView, key: str) -> NodeView:
    return replace(view, annotations={name: text for name, text in view.annotations.items() if name != key})


def _hardware(view: NodeView) -> dict[str, str]:
    return {resource: amount for resource, amount in view.capacity.items() if amount != "0" and owner_name(resource)}


def _decisive(document: Mapping[str, object]) -> tuple[object, ...]:
    """Return what decisions depend on in a DeviceInventory."""
    metadata, status = document.get("metadata"), document.get("status")
    name = metadata.get("name") if isinstance(metadata, Mapping) else metadata
    rest = {key: value for key, value in status.items() if key != "usage"} if isinstance(status, Mapping) else status
    return document.get("apiVersion"), document.get("kind"), name, document.get("spec"), rest
