"""Where the stories happen: a cluster with the service beside it, what is sent to it, and what it shows of that.

The stage of the tour, raised and taken down.
"""
# Joined from stage, raising: one docstring for all.

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar

import yaml

from linkwise.assembly.cluster_reader import named
from linkwise.assembly.local_cluster import LocalCluster
from linkwise.cli.tour.nodes import tour_nodes
from linkwise.config.settings import HttpSettings, ServeSettings
from linkwise.dialects.registry import held_by
from linkwise.embedded.cluster import ClusterSettings
from linkwise.embedded.nodes.kubelet import SimulationSettings
from linkwise.embedded.scheduler.queue import QueueSettings
from linkwise.embedded.scheduler.scheduler import SchedulerSettings
from linkwise.errors import LinkwiseError
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.settings import PlacingSettings
from linkwise.wire.kubernetes.objects import pod_view

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from linkwise.embedded.storage.collection import Raw
    from linkwise.explain.inspect import NodeInspection
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation
    from linkwise.model.inventory import NodeInventory
    from linkwise.model.topology import Topology

__all__ = ["Given", "Stage", "StageError", "manifest", "raised_stage"]

T = TypeVar("T")

SECONDS: Final = 20.0
"""in which anything on the stage has happened, or never will"""
LOOK: Final = 0.005
SPACE: Final = "default"
INVENTORIES: Final = "deviceinventories.linkwise.dev"


class StageError(LinkwiseError):
    """The cluster is not as a story needs it, or something that was waited for did not happen."""


@dataclass(frozen=True, slots=True)
class Given:
    """Where a pod is and what it has there, as its object on the API server tells it."""

    node: str
    devices: tuple[int, ...]
    """by their indices"""
    annotations: dict[str, str]


class Stage:
    """A cluster that runs; pods are in the namespace `default`."""

    def __init__(self, local: LocalCluster) -> None:
        self.local: Final = local
        self.store: Final = local.cluster.store
        self.names: Final[list[str]] = []
        """of the nodes, in the order of the stories"""

    # doing

    def apply(self, file: str, *names: str) -> None:
        """Send the objects of a manifest, or those of these names."""
        for document in yaml.safe_load_all(manifest(file)):
            kind = self.store.shelves.kinds.of(document["apiVersion"], document["kind"])
            if kind is None:
                raise StageError(f"{file}: {document['kind']} is not served")
            if not names or document["metadata"]["name"] in names:
                self.store.create(kind, document, SPACE)

    def delete(self, *names: str) -> None:
        """Delete pods that are there; they go when their containers have stopped."""
        for name in names:
            if self.phase(name):
                self.store.delete("pods", name, SPACE)

    def kill_device(self, node: str, index: int) -> None:
        """A device dies, with the containers that use it."""
        self.local.cluster.nodes.kill_device(node, index)

    # waiting

    async def until(self, condition: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
        """What a condition gives, as soon as that is true; StageError if it never is."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise StageError(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(LOOK)
        return found

    async def placed(self, *names: str) -> list[Given]:
        """What pods are given, as soon as all of them run."""
        await self.until(lambda: {"Running"} == {*map(self.phase, names)}, f"{', '.join(names)} run")
        return [self.given(name) for name in names]

    async def refused(self, name: str) -> str:
        """Why a pod has no node, as the scheduler tells it in an event."""
        return await self.until(lambda: self.event(name, "FailedScheduling"), f"pod {name} is told why it waits")

    async def explained(self, name: str) -> Explanation:
        """What the service says of a pod, when it has heard from its node."""
        uid = self.store.get("pods", name, SPACE).uid
        broker = self.local.broker

        def told() -> Explanation | None:
            found = broker.explain(uid, time.time())
            return None if found is None or found.record == "enforced" else found

        return await self.until(told, f"the service knows pod {name}")

    def explained_node(self, name: str) -> NodeExplanation:
        """What the service says of a node."""
        found = self.local.broker.explain_node(name, time.time())
        if found is None:
            raise StageError(f"nothing is known of node {name}")
        return found

    async def group(self, name: str, *stages: str) -> GroupExplanation:
        """What the service says of a group, as soon as it has come so far."""
        broker = self.local.broker

        def told() -> GroupExplanation | None:
            keys = [key for key in [*broker.state.groups.keys()] if named(key) == (SPACE, name)]
            found = broker.explain_group(keys[0], time.time()) if keys else None
            return found if found and found.stage in stages else None

        return await self.until(told, f"group {name} is {' or '.join(stages)}")

    async def seen(self) -> None:
        """Wait until the service and the scheduler know all nodes, and what tells of them, as they are."""
        await self.until(self._has_seen_nodes, "the nodes are seen")

    # looking

    def pods(self, start: str) -> set[str]:
        """The names of pods that start so."""
        return {one.name for one in self.store.list("pods").items if one.name.startswith(start)}

    def pod(self, name: str) -> Raw:
        """A pod as it is."""
        return self.store.get("pods", name, SPACE).read()

    def phase(self, name: str) -> str:
        """How far it has come; empty if it is not there."""
        found = self.store.find("pods", name, SPACE)
        return found.fields.get("status.phase", "") if found else ""

    def given(self, name: str) -> Given:
        """What it has."""
        pod = self.pod(name)
        node = pod["spec"].get("nodeName", "")
        held = held_by(pod_view(pod)).grant
        index = {device.id: device.index for device in self.inspect(node).devices} if node else {}
        devices = tuple(sorted({index[device] for device in held.offer.devices})) if held else ()
        return Given(node, devices, pod["metadata"].get("annotations") or {})

    def event(self, name: str, reason: str) -> str:
        """The last event of that reason about an object; empty if there is none."""
        told = [one for one in self.store.list("events").items if one.fields.get("involvedObject.name") == name]
        said = [one.read() for one in sorted(told, key=lambda one: one.version)]
        return next((str(one["message"]) for one in reversed(said) if one["reason"] == reason), "")

    def node(self, name: str) -> Raw:
        """A node as it is."""
        return self.store.get("nodes", name).read()

    def inventory(self, name: str) -> Raw:
        """What the agent of a node tells of its devices."""
        return self.store.get(INVENTORIES, name).read()

    def stock(self, name: str) -> NodeInventory:
        """A node's devices and links, as the service has read them."""
        return self.local.broker.state.cluster.stocks[name]

    def topology(self, name: str) -> Topology:
        """How a node's devices are linked; StageError if nobody tells."""
        found = self.stock(name).topology
        if found is None:
            raise StageError(f"nobody tells how the devices of node {name} are linked")
        return found

    def inspect(self, name: str) -> NodeInspection:
        """Who has which of a node's devices, as the service counts it."""
        (found,) = self.local.broker.inspect(name, time.time())
        return found

    def lines(self, told: Explanation | GroupExplanation | NodeExplanation) -> list[str]:
        """An explanation in sentences, as `linkwise explain` prints them."""
        return explanation_lines(told)

    def _has_seen_nodes(self) -> bool:
        known, hosts = self.local.broker.state.cluster, self.local.cluster.scheduler.hosts
        names = {found.name for found in self.store.list("nodes").items}
        told = self.store.list(INVENTORIES).items
        return names == set(known.nodes) == set(hosts.nodes) and all(
            known.objects.get(one.name, {}).get("DeviceInventory") == one.data for one in told
        )


def manifest(file: str) -> str:
    """The text of a manifest of the tour."""
    return (files("linkwise.cli.tour") / "manifests" / file).read_text("utf-8")


_QUICK: Final = ClusterSettings(
    scheduler=SchedulerSettings(queue=QueueSettings(first=0.05, most=0.5)),
    simulation=SimulationSettings(start=0.02, stop=0.02, job=24 * 3600.0, restart=1.0),
)
"""a cluster whose containers start at once, and whose jobs run for as long as anybody looks at them"""


@contextlib.asynccontextmanager
async def raised_stage(placing: PlacingSettings | None = None) -> AsyncIterator[Stage]:
    """The fleet of the tour, with the chip that is faulty from the start; `placing` is how the service answers."""
    service = ServeSettings(http=HttpSettings(port=0), placing=placing or PlacingSettings())
    async with LocalCluster({}, service, _QUICK) as local:
        stage = Stage(local)
        stage.names.extend(local.cluster.nodes.add_node(objects) for objects in tour_nodes())
        stage.kill_device("atlas-2", 7)
        await stage.seen()
        yield stage
