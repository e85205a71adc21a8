"""Stage: an embedded cluster with a pool of machines per story, as the stories use it to send pods and read results.

Everything a story prints or checks is read through this class from the API server, the service or a node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar

import yaml

from linkwise.assembly.local_cluster import LocalCluster
from linkwise.broker.watch_events import NodeObject
from linkwise.config.settings import HttpSettings, ServeSettings
from linkwise.dialects.aliyun import COUNT, MEMORY
from linkwise.dialects.kubernetes.claims.objects import PLAN
from linkwise.dialects.registry import held_by
from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.cluster import ClusterSettings
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.embedded.nodes.slices import with_slice
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.scheduler.scheduler import SchedulerSettings
from linkwise.embedded.users import ADMIN
from linkwise.embedded.writes.claim_rules import CLAIMS
from linkwise.embedded.writes.pod_claims import claims_named_by
from linkwise.errors import LinkwiseError
from linkwise.explain.group.group import explain_group
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.pod import explain_pod
from linkwise.explain.published.lists import named
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import PlacingSettings
from linkwise.model.topology import Topology, numbered
from linkwise.model.views import NodeView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import MachineProfile, profile
from linkwise.wire.kubernetes.objects import pod_view
from linkwise.wire.kubernetes.to_objects import node_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw
    from linkwise.explain.inspect import NodeInspection
    from linkwise.explain.reports import Explanation, GroupExplanation, GroupStage
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.node import Mode

__all__ = ["FAULTY", "POOL", "PodPlacement", "Stage", "StageError", "manifest", "open_stage", "tour_nodes"]

T = TypeVar("T")

TIMEOUT: Final = 20.0  # seconds
POLL_INTERVAL: Final = 0.005  # seconds
NAMESPACE: Final = "default"
INVENTORIES: Final = "deviceinventories.linkwise.dev"
VOLCANO_JOBS: Final = "jobs.batch.volcano.sh"
_FAST: Final = ClusterSettings(
    scheduler=SchedulerSettings(queue=QueueSettings(initial_backoff=0.05, max_backoff=0.5)),
    simulation=SimulationSettings(start_delay=0.02, stop_seconds=0.02, job_seconds=24 * 3600.0, restart_delay=1.0),
)
"""containers start within milliseconds, and jobs run for longer than anyone watches"""
POOL: Final = "pool"
"""node label by which the pods of a story select its nodes"""
FAULTY: Final = ("atlas-2", 7)
"""node and device that is unhealthy from the start"""
_GPU_MEMORY: Final = 16276  # MiB
_DESK: Final = MachineProfile("desk", "nvidia", "Tesla K80", 11441, Topology(numbered(2)), cpus=16, host_memory=64)
"""two GPUs without link data"""
_HOST: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


class StageError(LinkwiseError):
    """The cluster is not in the state that a story needs, or did not reach it in time."""


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Node and devices of a pod, read from its object on the API server."""

    node: str
    devices: tuple[int, ...]
    """indices"""
    annotations: dict[str, str]


class Stage:
    """A running cluster; all pods are in the namespace `default`."""

    def __init__(self, local: LocalCluster) -> None:
        self.local: Final = local
        self.store: Final = local.cluster.store
        self.names: Final[list[str]] = []
        """of all nodes"""

    # actions

    async def apply(self, file: str, *names: str) -> None:
        """Create the objects of a manifest as the administrator, or only those with these names."""
        for kind, document in self._objects(file, *names):
            begin = partial(self.store.begin_create, kind, document, NAMESPACE)
            await self.local.cluster.api.admission.complete(begin, ADMIN)

    async def refused(self, file: str, name: str) -> str:
        """Create an object of a manifest that the API server refuses; return its message."""
        try:
            await self.apply(file, name)
        except ApiError as error:
            return error.message
        raise StageError(f"{file}: {name} was not refused")

    def restore(self, file: str) -> None:
        """Create the objects of a manifest as from before Linkwise: past its webhook."""
        for kind, document in self._objects(file):
            self.store.create(kind, document, NAMESPACE)

    def _objects(self, file: str, *names: str) -> Iterator[tuple[Resource, Raw]]:
        for document in yaml.safe_load_all(manifest(file)):
            kind = self.store.database.kinds.for_object(document["apiVersion"], document["kind"])
            if kind is None:
                raise StageError(f"{file}: kind {document['kind']} is not served")
            if not names or document["metadata"]["name"] in names:
                yield kind, document

    def delete(self, *names: str) -> None:
        """Delete pods, if they exist; they are gone when their containers have stopped."""
        for name in names:
            if self.phase(name):
                self.store.delete("pods", name, NAMESPACE)

    def fail_device(self, node: str, index: int) -> None:
        """Make a device fail, and with it the containers that use it."""
        self.local.cluster.nodes.kill_device(node, index)

    async def deleted(self, name: str) -> None:
        """Delete a pod, and wait until its ResourceClaims are gone as well."""
        self.delete(name)
        claims = self.claims
        await self.wait_for(
            lambda: not self.phase(name) and not any(claim.startswith(name) for claim in claims()), f"{name} is deleted"
        )

    # waiting

    async def wait_for(self, condition: Callable[[], T | None], what: str, seconds: float = TIMEOUT) -> T:
        """Poll a condition until it is true and return its value.

        Raises:
            StageError: it was not true in time; the message says what was expected.
        """
        end = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > end:
                raise StageError(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(POLL_INTERVAL)
        return value

    async def wait_running(self, *names: str) -> list[PodPlacement]:
        """Wait until all these pods run; return their placements."""
        await self.wait_for(lambda: {"Running"} == {*map(self.phase, names)}, f"{', '.join(names)} running")
        return [self.placement(name) for name in names]

    async def wait_event(self, name: str, reason: str) -> str:
        """Wait for an event about a pod; return its message."""
        return await self.wait_for(lambda: self.event(name, reason), f"event {reason} of pod {name}")

    async def explain_pod(self, name: str) -> Explanation:
        """The service's explanation of a pod, once the pod's node has reported its devices."""
        uid = self.store.get("pods", name, NAMESPACE).uid
        broker = self.local.broker

        def explanation() -> Explanation | None:
            answer = explain_pod(broker, uid, time.time())
            return None if answer is None or answer.record == "enforced" else answer

        return await self.wait_for(explanation, f"explanation of pod {name}")

    async def wait_group(self, name: str, stage: GroupStage) -> GroupExplanation:
        """Wait until a group has reached a stage; return the service's explanation of it."""
        broker = self.local.broker

        def explanation() -> GroupExplanation | None:
            keys = [key for key in broker.group_keys() if named(key) == (NAMESPACE, name)]
            answer = explain_group(broker, keys[0], time.time()) if keys else None
            return answer if answer and answer.stage == stage else None

        return await self.wait_for(explanation, f"group {name} {stage}")

    async def wait_job(self, name: str, phase: str) -> Raw:
        """Wait until a Volcano Job is in a phase; return it."""

        def job() -> Raw | None:
            document = self.store.get(VOLCANO_JOBS, name, NAMESPACE).read()
            return document if document.get("status", {}).get("state", {}).get("phase") == phase else None

        return await self.wait_for(job, f"Job {name} {phase}")

    async def wait_synced(self) -> None:
        """Wait until the service and the scheduler have received all nodes and device inventories."""
        await self.wait_for(self._is_synced, "all nodes known to the service and the scheduler")

    # reading

    def pod_names(self, prefix: str) -> set[str]:
        """The names of pods with this prefix."""
        return {pod.name for pod in self.store.list("pods").items if pod.name.startswith(prefix)}

    def pod_group(self, job: str) -> str:
        """The name of the PodGroup of a Volcano Job."""
        return f"{job}-{self.store.get(VOLCANO_JOBS, job, NAMESPACE).uid}"

    def phase(self, name: str) -> str:
        """The phase of a pod; empty if there is no such pod."""
        pod = self.store.find("pods", name, NAMESPACE)
        return pod.fields.get("status.phase", "") if pod else ""

    def placement(self, name: str) -> PodPlacement:
        """The node and devices of a pod; empty while it is pending."""
        pod = self.store.get("pods", name, NAMESPACE).read()
        node = pod["spec"].get("nodeName", "")
        grant = held_by(pod_view(pod)).grant
        index = {device.id: device.index for device in self.inspect(node).devices} if node else {}
        devices = tuple(sorted({index[device] for device in grant.offer.devices})) if grant else ()
        return PodPlacement(node, devices, pod["metadata"].get("annotations") or {})

    def claims(self) -> dict[str, tuple[int, ...]]:
        """The devices of all allocated ResourceClaims, by name of the claim."""
        found = {}
        for claim in self.store.list(CLAIMS).items:
            allocation = (claim.read().get("status") or {}).get("allocation") or {}
            names = [result["device"] for result in allocation.get("devices", {}).get("results") or ()]
            found[claim.name] = tuple(sorted(int(name.rpartition("-")[2]) for name in names))
        return found

    def claimed(self, name: str) -> tuple[str, tuple[int, ...]]:
        """The ResourceClaim of a pod and its devices, read from the status of the claim."""
        (claim,) = claims_named_by(self.store.get("pods", name, NAMESPACE).read())
        return claim, self.claims()[claim]

    def planned(self, claim: str) -> tuple[int, ...]:
        """The devices that a ResourceClaim of Linkwise's was written for, by its annotation."""
        document = self.store.get(CLAIMS, claim, NAMESPACE).read()
        plan = json.loads((document["metadata"].get("annotations") or {}).get(PLAN, "{}"))
        index = {device.id: device.index for device in self.inspect(plan["node"]).devices} if plan else {}
        return tuple(sorted(index[each] for devices in plan.get("devices", {}).values() for each in devices))

    def environment(self, name: str, container: str = "main") -> dict[str, str]:
        """The variables that a container of a running pod was given with its devices."""
        return self.local.cluster.nodes.environment(self.store.get("pods", name, NAMESPACE).uid, container)

    def event(self, name: str, reason: str) -> str:
        """The message of the last event with this reason about an object; empty if there is none."""
        events = [event for event in self.store.list("events").items if event.fields.get("involvedObject.name") == name]
        newest_first = (event.read() for event in sorted(events, key=lambda event: event.version, reverse=True))
        return next((str(event["message"]) for event in newest_first if event["reason"] == reason), "")

    def node(self, name: str) -> Raw:
        """A node as the API server returns it."""
        return self.store.get("nodes", name).read()

    def inventory(self, name: str) -> NodeInventory:
        """A node's devices and links, as the service reads them."""
        return self.local.broker.inventories[name]

    def topology(self, name: str) -> Topology:
        """The links between a node's devices."""
        topology = self.inventory(name).topology
        if topology is None:
            raise StageError(f"no link data for node {name}")
        return topology

    def inspect(self, name: str) -> NodeInspection:
        """The devices of a node and the pods that use them, as the service counts them."""
        (node,) = inspect_nodes(self.local.broker, name, time.time())
        return node

    def explain_lines(self, explanation: Explanation | GroupExplanation) -> list[str]:
        """An explanation as `linkwise explain` prints it."""
        return explanation_lines(explanation)

    def _is_synced(self) -> bool:
        broker, node_cache = self.local.broker, self.local.cluster.scheduler.node_cache
        names = {node.name for node in self.store.list("nodes").items}
        return names == set(broker.nodes) == set(node_cache.nodes) and all(
            broker.node_object(inventory.name, "DeviceInventory") == inventory.data
            for inventory in self.store.list(INVENTORIES).items
        )


def manifest(file: str) -> str:
    """The text of a manifest of the demo."""
    return (files("linkwise.cli.tour") / "manifests" / file).read_text("utf-8")


@contextlib.asynccontextmanager
async def open_stage(placing: PlacingSettings | None = None) -> AsyncIterator[Stage]:
    """Start the cluster of the demo, with one faulty chip; `placing` are the settings of the service."""
    service = ServeSettings(http=HttpSettings(port=0), placing=placing or PlacingSettings())
    async with LocalCluster({}, service, _FAST) as local:
        stage = Stage(local)
        stage.names.extend(local.cluster.nodes.add_node(objects) for objects in tour_nodes())
        stage.fail_device(*FAULTY)
        await stage.wait_synced()
        yield stage


def tour_nodes() -> Iterator[list[Raw]]:
    """The objects of each node."""
    yield _machine(profile("dgx1-v100-measured"), "dgx-1", "training")
    yield _machine(profile("dgx1-v100"), "dgx-2", "finetuning")
    yield _machine(profile("v100-pcie"), "pcie-1", "finetuning")
    yield _machine(profile("dgx1-v100"), "dgx-3", "research")
    yield _machine(profile("v100-pcie"), "pcie-2", "research")
    measured = profile("dgx1-v100-measured")
    yield with_slice(_machine(measured, "dgx-4", "claims"), measured.vendor)
    yield _machine(profile("atlas-800"), "atlas-1", "ascend")
    yield _machine(profile("atlas-800"), "atlas-2", "ascend", unhealthy=(FAULTY[1],))
    for name in ("atlas-3", "atlas-4"):
        yield _machine(profile("atlas-800"), name, "ascend-large")
    for name in ("share-1", "share-2", "share-3"):
        yield [_shared(name, 2, "team-a")]
    yield [_shared("share-4", 4, "team-b")]
    for number in (1, 2, 3):
        yield _machine(_DESK, f"desk-{number}", "desks")


def _machine(
    machine: MachineProfile, name: str, pool: str, *, mode: Mode = "any", unhealthy: Collection[int] = ()
) -> list[Raw]:
    """A node as Linkwise's agent reports it."""
    objects: list[Raw] = []
    for event in fleet_node(machine, name, mode=mode, unhealthy=unhealthy, labels={POOL: pool}):
        if isinstance(event, NodeView):
            objects.append(node_object(event))
        elif isinstance(event, NodeObject) and isinstance(event.document, dict):
            objects.append(event.document)
    return objects


def _shared(name: str, count: int, pool: str) -> Raw:
    """A node as gpushare's device plugin reports it: total memory and the number of GPUs, nothing about each GPU."""
    amounts = {**_HOST, MEMORY: str(_GPU_MEMORY * count), COUNT: str(count)}
    labels = {"kubernetes.io/hostname": name, "gpushare": "true", POOL: pool}
    return node_object(NodeView(name, labels=labels, capacity=amounts, allocatable=amounts))
