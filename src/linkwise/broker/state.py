"""Everything that the broker keeps between two verbs.

Data only: `reconcile` observes events and derives what follows from them; `groups` and `scheduling` hold the verbs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.cluster.cluster import Cluster
from linkwise.broker.grant_writer import GrantWriter
from linkwise.broker.group_registry import GroupRegistry
from linkwise.dialects.registry import BY_NAME
from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import Hosts
from linkwise.engine.queue.offers import OfferBook
from linkwise.engine.queue.unobserved import UnobservedPods
from linkwise.engine.queue.unschedulable import UnschedulablePods
from linkwise.policies.registry import policies_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.cluster.cluster_objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect
    from linkwise.broker.group_registry import Run
    from linkwise.engine.queue.unschedulable import UnschedulablePod
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView

__all__ = ["Outbox", "State", "pod_name"]


def pod_name(pod: PodView) -> str:
    """Namespace and name of a pod."""
    return f"{pod.namespace}/{pod.name}"


class Outbox:
    """Effects that came up in the middle of a verb; the next verb that returns effects returns them too."""

    def __init__(self) -> None:
        self._effects: tuple[Effect, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._effects)

    def add(self, effects: Iterable[Effect]) -> None:
        """Keep effects behind those that are there."""
        added = tuple(effects)  # what makes them may add some itself
        self._effects += added

    def drain(self) -> tuple[Effect, ...]:
        """Take all effects out."""
        effects, self._effects = self._effects, ()
        return effects

    def effects(self) -> tuple[Effect, ...]:
        """All effects, for a snapshot."""
        return self._effects


class State:
    """The observed cluster, and what was answered to which pod."""

    def __init__(self, settings: PlacingSettings, parse: Parse) -> None:
        self.settings: Final = settings
        self.cluster: Final = Cluster(settings, parse)
        self.policies: Final = policies_with(settings)
        self.offers: Final = OfferBook()
        self.unschedulable: Final = UnschedulablePods()
        self.writer: Final = GrantWriter()
        self.groups: Final = GroupRegistry(self.cluster.shared.completed)
        self.hosts: Final = Hosts()
        self.runs: dict[str, Run] = {}
        """plans that are being made, by group"""
        self.asked: dict[str, PodView] = {}
        """pods that asked for nodes, as they asked: a bind names only their UID"""
        self.unobserved: Final = UnobservedPods()
        self.outbox: Final = Outbox()

    def uids(self) -> set[str]:
        """All pods that are known in any way: observed, asked about, or in the ledger."""
        return {*self.cluster.pods, *self.asked, *(entry.pod for entry in self.cluster.ledger.entries())}

    def pod(self, uid: str) -> PodView | None:
        """The pod as observed, or as it asked."""
        return self.cluster.pods.get(uid) or self.asked.get(uid)

    def name_of(self, uid: str) -> str:
        """Namespace and name of the pod with that UID; the UID if it is unknown."""
        pod = self.pod(uid)
        return pod_name(pod) if pod else uid

    def request(self, pod: PodView) -> PodRequest:
        """What the pod requests, read once per template."""
        return self.cluster.requests.of(pod)

    def query(self, pod: PodView) -> Query | None:
        """The pod's request as nodes are queried for it; None if it requests no devices, or its request is invalid."""
        return self.query_of(self.request(pod))

    def query_of(self, request: PodRequest) -> Query | None:
        """The same for a caller that has the request already."""
        if request.ask is None:
            return None
        word = request.ask.resource if BY_NAME[request.dialect].by_resource else request.dialect
        return Query(request.ask, word, self.policies[request.policy])

    def note_ask(self, pod: PodView, now: float) -> None:
        """Remember a pod that asks for nodes."""
        self.asked[pod.uid] = pod
        if pod.uid not in self.cluster.pods:
            self.unobserved.note(pod.uid, now)

    def note_refused(self, refused: UnschedulablePod) -> None:
        """Remember an unschedulable pod; it is woken when something fits, once it is observed."""
        if refused.pod in self.unobserved.asked:
            self.unobserved.refused[refused.pod] = refused
        else:
            self.unschedulable.put(refused)

    def forget(self, uid: str) -> None:
        """Drop what was answered to a pod that is bound or deleted."""
        self.offers.forget(uid)
        self.unschedulable.remove(uid)
        self.asked.pop(uid, None)
        self.unobserved.drop(uid)
