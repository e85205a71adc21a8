"""Everything that the broker keeps between two verbs.

Data only: `reconcile` observes events and derives what follows from them; `groups` and `scheduling` hold the verbs.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from linkwise.broker.cluster.cluster import Cluster
from linkwise.broker.cluster.pod_request import group_said, is_volcano
from linkwise.broker.effects import Wake
from linkwise.broker.grant_writer import GrantWriter
from linkwise.broker.records.access import Access
from linkwise.broker.records.bookings import Bookings, Preemptions
from linkwise.broker.records.groups import Groups
from linkwise.dialects.kubernetes.claims.objects import by_claim
from linkwise.dialects.kubernetes.claims.requests import CLAIM_REQUEST, group_of_one
from linkwise.dialects.registry import BY_NAME
from linkwise.engine.index.node_index import Query
from linkwise.engine.planning.hosts import Hosts
from linkwise.engine.queue.reservation import Reservations
from linkwise.engine.queue.scheduling_queue import QueuedPod, SchedulingQueue
from linkwise.engine.reasons.phrases import OTHER_GROUP, OTHER_POD
from linkwise.model.requirement import Requirement
from linkwise.model.verdict import pods_of
from linkwise.policies.policy import AcrossNodes
from linkwise.policies.registry import policies_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from linkwise.broker.cluster.objects import Parse
    from linkwise.broker.cluster.pod_request import PodRequest
    from linkwise.broker.effects import Effect
    from linkwise.model.ask import Group
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.verdict import Key, Problem
    from linkwise.model.views import PodView

__all__ = ["Outbox", "State", "pod_name"]

T = TypeVar("T")


def pod_name(pod: PodView) -> str:
    """Namespace and name of a pod."""
    return f"{pod.namespace}/{pod.name}"


def _go_on() -> None:
    """Continue without a pause."""


VENDOR_TIME: Final = 10.0  # seconds
"""for which the vendor of a group is remembered if no member is observed"""
ITEMS_PER_PAUSE: Final = 32
"""items between two pauses of a loop: a few take less than a millisecond"""


class Outbox:
    """Effects that came up in the middle of a verb; the next verb that returns effects returns them too."""

    def __init__(self, useful: Callable[[Effect], bool] = lambda _: True) -> None:
        self._effects: tuple[Effect, ...] = ()
        self._useful = useful

    def __bool__(self) -> bool:
        return bool(self._effects)

    def add(self, effects: Iterable[Effect]) -> None:
        """Keep effects behind those that are there."""
        added = tuple(filter(self._useful, effects))  # what makes them may add some itself
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
        self._across_nodes: Final = {name: AcrossNodes(policy) for name, policy in self.policies.items()}
        self.queue: Final = SchedulingQueue(self.cluster.changes.pods, self.cluster.changes.untaken)
        self.reservations: Final = Reservations()
        self.writer: Final = GrantWriter()
        self.groups: Final = Groups(self.cluster.changes, self.cluster.shared.completed, self.cluster.ledger)
        self.preemptions: Final = Preemptions()
        self.access: Final = Access(self.cluster, self.pod)
        self.cluster.find_pod = self.pod
        self.hosts: Final = Hosts()
        self.bookings: Final = Bookings()
        self.vendors: Final[dict[str, tuple[str, float | None]]] = {}
        """resources that were chosen for the first members of groups, until one is observed, and when that is forgotten"""
        self.outbox: Final = Outbox(self._is_useful)
        self.recovering = False
        """whether plans on members are still being restored after a restart: until then nothing is written about them"""
        self.pause: Callable[[], None] = _go_on
        """called by explanations between small pieces of work; the service answers calls meanwhile if one takes long"""
        self.readable: frozenset[str] | None = None
        """the namespaces whose pods, groups and claims are named to the reader; None for all"""

    @property
    def has_policies(self) -> bool:
        """Whether the cluster has AcceleratorPolicies."""
        return bool(self.cluster.shared.access.policies)

    def for_reader(self, namespaces: frozenset[str] | None) -> State:
        """The same state for a reader that may see pods of these namespaces only: it has no names for those of others."""
        if namespaces is None:
            return self
        view = copy(self)
        view.readable = namespaces
        return view

    def within(self, namespace: str) -> State:
        """The same state for readers of one namespace, to which something is written."""
        return self.for_reader(frozenset({namespace}))

    def hides(self, namespace: str) -> bool:
        """Whether objects of a namespace are not named to the reader."""
        return self.readable is not None and namespace not in self.readable

    def hides_group(self, key: str) -> bool:
        """Whether a group, whose key begins with its namespace, is not named to the reader."""
        return self.hides(key.partition("/")[0])

    def _is_useful(self, effect: Effect) -> bool:
        """Return whether an effect is carried out: Volcano tries its pods every second, so a wake-up is a write for nothing."""
        pod = self.pod(effect.uid) if isinstance(effect, Wake) else None
        return pod is None or not is_volcano(self.settings, pod)

    def pausing(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, with a pause before every few of them."""
        for number, item in enumerate(items):
            if number % ITEMS_PER_PAUSE == 0:
                self.pause()
            yield item

    def uids(self) -> set[str]:
        """All pods that are known in any way: observed, asked about, or in the ledger."""
        queued = (queued.uid for queued in self.queue)
        return {*self.cluster.pods, *queued, *pods_of(entry.key for entry in self.cluster.ledger.entries())}

    def pod(self, uid: str) -> PodView | None:
        """The pod as observed, or as it asked."""
        return self.cluster.pods.get(uid) or self.queue.pod(uid)

    def name_of(self, key: Key) -> str:
        """Namespace and name of the pod with that UID, or of the pod that a ledger entry is for; the UID if it is unknown."""
        pod, entry = self.pod(key if isinstance(key, str) else key.pod), self.cluster.ledger.get(key)
        known = pod or entry
        if known and self.hides(known.namespace):
            return OTHER_POD
        return pod_name(pod) if pod else str(key)

    def uid_of(self, uid: str) -> str:
        """The UID of a pod as the reader may see it; empty if it may not."""
        return "" if self.name_of(uid) == OTHER_POD else uid

    def group_name(self, key: str) -> str:
        """The key of a group, which begins with its namespace, as the reader may see it."""
        return OTHER_GROUP if self.hides_group(key) else key

    def request(self, pod: PodView) -> PodRequest:
        """What the pod requests, read once per template."""
        return self.cluster.requests.of(pod)

    def group_said(self, pod: PodView) -> tuple[Group | None, tuple[Problem, ...]]:
        """The group of a pod, by its own words or by its owner, and its problems; every reader of groups uses this one."""
        group, problems = group_said(pod, by_owner=self.cluster.by_owner)
        if group is None and CLAIM_REQUEST in pod.annotations and not is_volcano(self.settings, pod):
            return group_of_one(pod), problems  # Volcano names a PodGroup for each of its pods
        return group, problems

    def query(self, pod: PodView) -> Query | None:
        """The pod's request as nodes are queried for it; None if it requests no devices, or its request is invalid."""
        return self.query_of(self.request(pod), pod)

    def query_of(self, request: PodRequest, pod: PodView) -> Query | None:
        """The same for a caller that has the request already."""
        ask = request.ask
        if ask is None:
            return None
        word = ask.resource if BY_NAME[request.dialect].by_resource else request.dialect
        if request.claimed:
            word = by_claim(ask.resource)
        if not ask.devices and (sharing := self.cluster.sharing_of(pod)):
            ask = replace(ask, sharing=sharing)
        permitted = rule.requirement if self.has_policies and (rule := self.access.rule_of(pod)) else None
        if permitted:
            own = ask.requirement.clauses if ask.requirement else ()
            ask = replace(ask, requirement=Requirement((*permitted.clauses, *own)))
        policy = self.policies[request.policy]
        if self.cluster.unreachable and ask.devices and self._has_other_members(pod, request.group):
            policy = self._across_nodes[request.policy]
        return Query(ask, word, policy)

    def _has_other_members(self, pod: PodView, group: Group | None) -> bool:
        """Whether the pod's group has several pods with devices; members that are not observed yet count by their number."""
        view = self.groups.view(self.groups.key_of(pod.uid))
        group = view.group if view else group
        if group is None:
            return False
        others = (each for each in (*view.waiting, *view.bound) if each.uid != pod.uid) if view else ()
        without = 0
        for other in others:
            if self.request(other).ask is not None:
                return True
            without += 1
        return bool(group.bundle) or max(group.total or 0, group.minimum or 0) - without > 1

    def forget_vendors(self, now: float) -> None:
        """Forget choices whose groups have members by now, or that nothing came of."""
        for key, (resource, until) in list(self.vendors.items()):
            # A time further away than it can be set was set before the clock went back.
            if key in self.groups or (until is not None and not now < until <= now + VENDOR_TIME):
                del self.vendors[key]
            elif until is None:
                self.vendors[key] = (resource, now + VENDOR_TIME)

    def asked(self, pod: PodView, query: Query | None, now: float) -> QueuedPod:
        """The record of a pod that asks for the first time."""
        return QueuedPod(pod, now, pod.uid in self.cluster.pods, query=query)

    def leave_to_group(self, uid: str) -> None:
        """From now on the pod's group answers for it; an open offer ends."""
        self.access.forget(uid)
        self.queue.leave_to_group(uid)
        self.withdraw(uid)

    def withdraw(self, uid: str) -> None:
        """End an open offer to the pod."""
        if self.cluster.ledger.offered(uid):
            self.cluster.ledger.drop([uid])

    def forget(self, uid: str) -> None:
        """Remove a pod that is bound or deleted from the queue; an open offer ends."""
        self.access.forget(uid)
        self.queue.forget(uid)
        self.withdraw(uid)
