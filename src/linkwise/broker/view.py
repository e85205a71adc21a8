"""Read-only queries on what a broker knows.

They neither reconcile nor change anything: each answers from the state as the last verb left it. Mappings are live views;
callers read them and keep no reference to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.broker.candidates import Candidates
from linkwise.broker.cluster.host_fit import misfit, needed_by
from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.broker.records.stages import Planning, Unschedulable
from linkwise.broker.reserved_devices import reserved_entry
from linkwise.broker.state import State, pod_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Bind
    from linkwise.engine.drift import Drift
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Node
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.verdict import Entry, Reason
    from linkwise.model.views import NodeView, PodView

__all__ = ["BrokerView", "Counts"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of what a broker keeps, for logs and metrics."""

    nodes: int
    pods: int
    grants: int
    """pods that hold devices, or were promised some"""
    unschedulable: int
    """pods that no node could serve when they last asked"""
    offered: int
    """pods for which devices are reserved on the node that filter named, until they are bound"""
    plans: int
    """groups whose plan reserves devices"""
    reservations: int
    """pods and groups for which nodes are drained"""
    reserved: int
    """devices that are kept free for them, completely or in part"""


class BrokerView:
    """The queries; `Broker` adds the verbs."""

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self._state: Final = State(settings, parse)

    @property
    def device_changes(self) -> int:
        """The number of changes of the nodes' devices and their usage so far."""
        return self._state.cluster.index.changes

    @property
    def settings(self) -> PlacingSettings:
        """How requests are answered."""
        return self._state.settings

    def counts(self) -> Counts:
        """Sizes of what is kept."""
        state = self._state
        uids = (uid for each in state.reservations for uid, _ in each.seats)
        kept = [entry for uid in uids if (entry := reserved_entry(state, uid))]
        return Counts(
            nodes=len(state.cluster.nodes),
            pods=len(state.cluster.pods),
            grants=len(state.cluster.ledger) - len(state.cluster.ledger.offers) - len(kept),
            unschedulable=state.queue.waiting,
            offered=len(state.cluster.ledger.offers),
            plans=len(state.groups.plans),
            reservations=len(state.reservations),
            reserved=len({(entry.node, device) for entry in kept for device in entry.grant.offer.devices}),
        )

    # nodes

    @property
    def nodes(self) -> Mapping[str, NodeView]:
        """Observed nodes by name."""
        return self._state.cluster.nodes

    @property
    def inventories(self) -> Mapping[str, NodeInventory]:
        """Devices and links of each node, merged from all sources."""
        return self._state.cluster.inventories

    @property
    def usage(self) -> Mapping[str, Node]:
        """Devices of each node and what is taken of them, as policies see them."""
        return self._state.cluster.index.nodes

    @property
    def drift(self) -> Mapping[str, tuple[Drift, ...]]:
        """Records that disagree, by node."""
        return self._state.cluster.drift

    def node_object(self, node: str, kind: str) -> Mapping[str, object] | bytes | None:
        """The observed object of that kind that describes a node."""
        return self._state.cluster.objects.documents.get(node, {}).get(kind)

    # pods

    @property
    def pods(self) -> Mapping[str, PodView]:
        """Observed pods by UID."""
        return self._state.cluster.pods

    def pod(self, uid: str) -> PodView | None:
        """The pod as observed, or as the scheduler sent it if the watch has not delivered it yet."""
        return self._state.pod(uid)

    def pod_name(self, uid: str) -> str:
        """Namespace and name of a pod; its UID if it is unknown."""
        return self._state.name_of(uid)

    def find_pod(self, namespace: str, name: str) -> str:
        """The UID of an observed pod; empty if there is none of that name."""
        return self._state.cluster.known.uid_of(namespace, name)

    def uids(self) -> set[str]:
        """Every pod that is known in any way; one that a later complete list lacks was deleted."""
        return self._state.uids()

    def request(self, pod: PodView) -> PodRequest:
        """What the pod requests: devices, policy and group."""
        return self._state.request(pod)

    def entry(self, uid: str) -> Entry | None:
        """The pod's entry in the ledger."""
        return self._state.cluster.ledger.get(uid)

    def entries(self) -> Iterator[Entry]:
        """All entries of the ledger."""
        return iter(self._state.cluster.ledger.entries())

    def is_settled(self, uid: str) -> bool:
        """Whether the pod is observed as bound or deleted."""
        return self._state.cluster.known.settled(uid)

    def unfiltered(self, uid: str) -> str:
        """Why a bind that a caller asks for is refused: filter did not answer for the pod; empty if it did.

        A pod that is being bound may be bound again, and one that is unknown is for `bind` to refuse.
        """
        pod, entry = self.pod(uid), self.entry(uid)
        if pod is None or pod.node or (entry and not entry.tentative):
            return ""
        if not asks_for_devices(pod):
            advice = "set placing.every_pod if the scheduler sends every pod"
            return "" if self.settings.every_pod else f"pod {pod_name(pod)} requests no devices; {advice}"
        if uid in self._state.queue:
            return ""
        advice = "the scheduler must call filter with NodeNames first, and does so when it retries the pod"
        return f"pod {pod_name(pod)} was not filtered by this instance of the service; {advice}"

    def is_open(self, bind: Bind) -> bool:
        """Whether the outcome of a bind is still of interest."""
        entry = self.entry(bind.uid)
        return entry is not None and bind.serial in entry.open

    def misfits(self, pod: PodView) -> dict[str, Reason]:
        """Nodes that kube-scheduler's own filters reject for the pod, with the first reason."""
        demand = needed_by(self._state.cluster, pod)
        reasons = ((name, misfit(self._state.cluster, pod, demand, name)) for name in self.nodes)
        return {name: reason for name, reason in reasons if reason}

    def score(self, pod: PodView, node: str) -> tuple[str, dict[str, int]]:
        """The policy of a pod, and the terms of its score on a node; empty if it requests no devices."""
        query = self._state.query(pod)
        if query is None:
            return "", {}
        terms = Candidates(self._state, query, pod.uid).scores((node,)).get(node, ())
        return query.policy.name, dict(zip(query.policy.terms, terms, strict=False))

    # groups

    def group_keys(self) -> list[str]:
        """All groups, in the order in which they were observed."""
        return self._state.groups.keys()

    def group_of(self, uid: str) -> str:
        """The key of a pod's group; empty if it has none."""
        return self._state.groups.key_of(uid)

    def bundle_of(self, key: str) -> tuple[str, ...]:
        """Gangs that start together with a group, itself among them; empty if it starts alone."""
        return self._state.groups.bundle_of(key)

    def is_planning(self, key: str) -> bool:
        """Whether the plan of a group is being computed."""
        return isinstance(self._state.groups.stage(key), Planning)

    def plans(self) -> dict[str, Plan]:
        """Plans that reserve devices, by group."""
        return {key: stage.plan for key, stage in self._state.groups.plans.items()}

    def shortage(self, key: str) -> Reason | None:
        """Why the last attempt to plan a group failed, until it is planned again."""
        stage = self._state.groups.stage(key)
        return stage.reason if isinstance(stage, Unschedulable) else None
