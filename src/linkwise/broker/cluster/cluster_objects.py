"""Objects that describe no node: PodGroups, disruption budgets, access policies, volume claims, and the network topology."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from linkwise.dialects.disruption_budgets import BUDGET, budget_of
from linkwise.dialects.groups.hyper_nodes import HYPER_NODE, hyper_node_of, tiers_of
from linkwise.dialects.groups.network_labels import invalid_labels, label_problem
from linkwise.dialects.groups.network_topology import LADDERS, ladder_of
from linkwise.dialects.groups.pod_group_objects import (
    KINDS,
    gang_name,
    pod_group_kind,
    pod_group_of,
    points_to_pod_group,
    with_pod_group,
)
from linkwise.dialects.linkwise.accelerator_policy import NAMESPACE, POLICY, labels_of, policy_of
from linkwise.dialects.volume_claims import CLAIM, CLASS, binds_later, claim_of, essential
from linkwise.engine.access import NO_RULES, AccessRules
from linkwise.model.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from linkwise.broker.cluster.changes import Changes
    from linkwise.dialects.groups.hyper_nodes import HyperNode, Tiers
    from linkwise.dialects.groups.network_topology import Ladder
    from linkwise.dialects.groups.pod_group_objects import PodGroup
    from linkwise.model.access_policy import AcceleratorPolicy
    from linkwise.model.ask import Group
    from linkwise.model.disruption_budget import DisruptionBudget
    from linkwise.model.verdict import Problem
    from linkwise.model.views import NodeView, PodView

    Parse = Callable[[bytes], Any]
    """reads JSON, or raises ValueError"""

__all__ = ["ALL", "READ", "ClusterObjects", "Parse", "document_of"]

READ: Final = (*KINDS.values(), *LADDERS, HYPER_NODE, BUDGET, POLICY, NAMESPACE, CLASS, CLAIM)
"""supported kinds"""
_POD_GROUPS: Final = frozenset(KINDS.values())
_NETWORK: Final = frozenset({*LADDERS, HYPER_NODE})
_VOLUMES: Final = frozenset({CLASS, CLAIM})
ALL: Final = ""
"""stands for the name of an object: all objects of its kind are observed, so that others do not exist"""
NODES_PER_STEP: Final = 1000
"""nodes whose labels are read between two steps"""


def document_of(found: Mapping[str, object] | bytes, parse: Parse = json.loads) -> Mapping[str, object]:
    """Parse a JSON document; anything but an object becomes an empty one, which its reader reports."""
    if not isinstance(found, bytes):
        return found
    try:
        document = parse(found)
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}


def _needed_of(kind: str, name: str, document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of an object that is read, of kinds of which a cluster may have many."""
    if kind == NAMESPACE:
        return {"metadata": {"name": name, "labels": labels_of(document)}}
    return essential(kind, document) if kind in _VOLUMES else document


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
        if document is not None:
            self.namespaces[name] = labels_of(document)
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
