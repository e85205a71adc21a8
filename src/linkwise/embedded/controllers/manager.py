"""Controller manager: enqueues the owner of every changed object and reconciles it, with backoff after failures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.controllers.owned import Client
from linkwise.embedded.controllers.resource_claims import sync_claim, sync_claims_of_pod
from linkwise.embedded.controllers.volcano.jobs import sync_volcano_job
from linkwise.embedded.controllers.volcano.objects import CONTROLLERS, JOBS, POD_GROUPS, QUEUES, SCHEDULER_USER
from linkwise.embedded.controllers.volcano.pod_groups import (
    create_default_queues,
    group_of_pod,
    needs_pod_group,
    queue_of,
    sync_pod_group,
    sync_pod_without_group,
    sync_queue,
)
from linkwise.embedded.controllers.workloads import (
    sync_daemon_set,
    sync_deployment,
    sync_job,
    sync_operator_job,
    sync_replica_set,
    sync_stateful_set,
)
from linkwise.embedded.kinds.crds import OPERATOR_JOBS
from linkwise.embedded.runtime import follow
from linkwise.embedded.users import controller
from linkwise.embedded.writes.claim_rules import CLAIMS
from linkwise.embedded.writes.pod_claims import claims_named_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.embedded.admission import Admission
    from linkwise.embedded.storage.collection import Stored
    from linkwise.embedded.storage.list_watch import WatchEvent
    from linkwise.embedded.store import Store
    from linkwise.model.access_policy import Requester

__all__ = ["Controllers"]

_FIRST_RETRY: Final = 0.01  # seconds; each further one takes twice as long
_LAST_RETRY: Final = 30.0  # seconds
_VOLCANO: Final = "vc-controller-manager"
_CLAIM_CONTROLLER: Final = "resource-claim-controller"
_CLAIMS_OF_PODS: Final = "claims of pods"
_STATEFUL_SETS: Final = "statefulsets.apps"
_DAEMON_SETS: Final = "daemonsets.apps"


@dataclass(frozen=True, slots=True)
class _Controller:
    """A controller: the component that its events name, its function, and its user."""

    component: str
    sync: Callable[[Client, Stored], Awaitable[float | None]]
    """takes an object one step further; may return the seconds until it is due again"""
    requester: Requester
    kind: str = ""
    """the resource, if several controllers reconcile its objects"""
    sees_deleting: bool = False
    """whether it reconciles objects that are being deleted, too"""


def _built_in(name: str, sync: Callable[[Client, Stored], Awaitable[float | None]]) -> _Controller:
    return _Controller(name, sync, controller(name))


_CONTROLLERS: Final = {
    "deployments.apps": _built_in("deployment-controller", sync_deployment),
    "replicasets.apps": _built_in("replicaset-controller", sync_replica_set),
    "replicationcontrollers": _built_in("replication-controller", sync_replica_set),
    _STATEFUL_SETS: _built_in("statefulset-controller", sync_stateful_set),
    _DAEMON_SETS: _built_in("daemon-set-controller", sync_daemon_set),
    "jobs.batch": _built_in("job-controller", sync_job),
    **dict.fromkeys(OPERATOR_JOBS, _built_in("job-operators", sync_operator_job)),
    "pods": _Controller(_VOLCANO, sync_pod_without_group, CONTROLLERS),
    QUEUES: _Controller(_VOLCANO, sync_queue, CONTROLLERS),
    POD_GROUPS: _Controller("volcano", sync_pod_group, SCHEDULER_USER),
    JOBS: _Controller(_VOLCANO, sync_volcano_job, CONTROLLERS),
    _CLAIMS_OF_PODS: _Controller(_CLAIM_CONTROLLER, sync_claims_of_pod, controller(_CLAIM_CONTROLLER), "pods"),
    CLAIMS: _Controller(_CLAIM_CONTROLLER, sync_claim, controller(_CLAIM_CONTROLLER), sees_deleting=True),
}
"""by the resource whose objects they reconcile"""
_Key = tuple[str, str, str]
"""controller, namespace and name"""
_OWNERS: Final = {
    ("apps/v1", "Deployment"): "deployments.apps",
    ("apps/v1", "ReplicaSet"): "replicasets.apps",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "StatefulSet"): _STATEFUL_SETS,
    ("apps/v1", "DaemonSet"): _DAEMON_SETS,
    ("batch/v1", "Job"): "jobs.batch",
    ("batch.volcano.sh/v1alpha1", "Job"): JOBS,
}
_WATCHED: Final = tuple(dict.fromkeys(entry.kind or name for name, entry in _CONTROLLERS.items()))
_OPERATOR_JOBS: Final = {(job.group, job.kind): name for name, job in OPERATOR_JOBS.items()}


class Controllers:
    """Kubernetes' controllers of workloads, Volcano's, and those of job operators; `run` them next to the other components."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store = store
        self._clients = {
            kind: Client(store, admission, entry.component, entry.requester) for kind, entry in _CONTROLLERS.items()
        }
        self._queue: dict[_Key, None] = {}
        """keys to reconcile, in order and without duplicates"""
        self._failures: dict[_Key, int] = {}
        """failed attempts in a row"""
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        create_default_queues(self._store)
        async with asyncio.TaskGroup() as tasks:
            for kind in _WATCHED:
                tasks.create_task(follow(self._store, kind, partial(self._on_event, kind)), name=f"controllers {kind}")
            tasks.create_task(follow(self._store, "nodes", self._on_node), name="controllers nodes")
            tasks.create_task(self._process_queue(), name="controllers")

    def _on_event(self, kind: str, event: WatchEvent) -> None:
        stored = event.stored
        if kind == "pods":
            self._on_pod(stored, deleted=event.type == "DELETED")
        elif event.type != "DELETED":
            self._queue[kind, *stored.key] = None
        if kind == CLAIMS:
            self._on_claim(event)
        if kind == QUEUES:
            self._enqueue_groups(stored.name)
        if b'"ownerReferences"' in stored.data:
            for owner in event.object["metadata"].get("ownerReferences") or ():
                api = (owner["apiVersion"], owner["kind"])
                resource = _OWNERS.get(api) or _operator_job(*api)
                if owner.get("controller") and resource:
                    self._queue[resource, stored.namespace, owner["name"]] = None
        self._wakeup.set()

    def _on_pod(self, stored: Stored, *, deleted: bool) -> None:
        if group := group_of_pod(stored):
            self._queue[POD_GROUPS, stored.namespace, group] = None
        elif not deleted and needs_pod_group(stored):
            self._queue["pods", *stored.key] = None
        if b"esourceClaim" in stored.data:
            if not deleted:
                self._queue[_CLAIMS_OF_PODS, *stored.key] = None
            for name in claims_named_by(stored.read()):
                self._queue[CLAIMS, stored.namespace, name] = None

    def _on_claim(self, event: WatchEvent) -> None:
        """Reconcile the pod that owns a claim: it may need another one, or its claim may have been replaced."""
        for owner in event.object["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "Pod":
                self._queue[_CLAIMS_OF_PODS, event.stored.namespace, owner["name"]] = None

    def _on_node(self, _: WatchEvent) -> None:
        """Reconcile all DaemonSets: they may have a pod to create or to delete on this node."""
        for stored in self._store.list(_DAEMON_SETS).items:
            self._queue[_DAEMON_SETS, *stored.key] = None
            self._wakeup.set()

    def _enqueue_groups(self, queue: str) -> None:
        """Reconcile the PodGroups of a queue: it may have been opened."""
        for stored in self._store.list(POD_GROUPS).items:
            if queue_of(stored.read()) == queue:
                self._queue[POD_GROUPS, *stored.key] = None

    async def _process_queue(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._queue:
                key = next(iter(self._queue))
                del self._queue[key]
                await self._sync(key)
                await asyncio.sleep(0)

    async def _sync(self, key: _Key) -> None:
        name, namespace, object_name = key
        entry = _CONTROLLERS[name]
        stored = self._store.find(entry.kind or name, object_name, namespace)
        if stored is None or (b'"deletionTimestamp"' in stored.data and not entry.sees_deleting):
            self._failures.pop(key, None)
            return
        try:
            again = await entry.sync(self._clients[name], stored)
        except ApiError:
            # A conflicting write, or pods that the API server rejects: an admission webhook may accept them later.
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            again = min(_FIRST_RETRY * 2**failures, _LAST_RETRY)
        else:
            self._failures.pop(key, None)
        if again is not None:
            asyncio.get_running_loop().call_later(again, self._retry, key)

    def _retry(self, key: _Key) -> None:
        self._queue[key] = None
        self._wakeup.set()


def _operator_job(api_version: str, kind: str) -> str:
    """The resource of a kind that an operator reconciles, in any version; empty for others."""
    return _OPERATOR_JOBS.get((api_version.partition("/")[0], kind), "")
