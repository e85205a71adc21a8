"""Embedded API server with one node and a publisher, with real HTTP, a watch, and a record of all requests."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.embedded.kinds.crds import CRD_RESOURCE
from linkwise.embedded.store import Store
from linkwise.kube.client.api import connect
from linkwise.kube.perform.node_writer import NodeWriter
from support.embedded.recorded_requests import Recording
from support.publishing_agent import PublishingAgent
from support.virtual_clock import loop_timing, run_idle, wall_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from linkwise.agent.publisher import Publisher
    from linkwise.broker.watch_events import WatchEvent
    from support.e2e.api_client import Raw

__all__ = ["DEVICES", "INVENTORIES", "NODE", "SingleNodeCluster", "on_node"]

NODE: Final = "gpu-1"
INVENTORIES: Final = "deviceinventories.linkwise.dev"
DEVICES: Final = "devices.scheduling.koordinator.sh"
_RESOURCES: Final = {"Node": "nodes", "DeviceInventory": INVENTORIES, "Device": DEVICES}
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_SECONDS: Final = 60.0  # of the virtual clock
_POLL: Final = 0.01


class SingleNodeCluster:
    """One node: a publisher that can be stopped and started again, and what it asked the API server for."""

    def __init__(self, api: EmbeddedApi, recording: Recording) -> None:
        self.api, self._recording = api, recording
        self.ahead = 0.0
        """seconds by which its clock differs from that of the API server"""
        self.timing = replace(loop_timing(), now=lambda: wall_time() + self.ahead)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kubeconfig"
            file.write_text(api.kubeconfig(), encoding="utf-8")
            self.connection = connect(file, environ={})
        self.writer = NodeWriter(self.connection, NODE)
        self._agent: PublishingAgent | None = None

    @property
    def store(self) -> Store:
        """All objects."""
        return self.api.store

    def start_agent(self, *, koordinator: bool = False) -> None:
        """Start an agent's publisher and its watches."""
        self._agent = PublishingAgent(self.connection, NODE, self.timing, koordinator=koordinator)

    async def kill_agent(self) -> None:
        """End the publisher in the middle of whatever it does."""
        if self._agent:
            await self._agent.kill()
        self._agent = None

    @property
    def publisher(self) -> Publisher:
        """The publisher that runs."""
        return self._running.publisher

    @property
    def events(self) -> list[WatchEvent]:
        """All that its watches have shown."""
        return self._running.events

    @property
    def _running(self) -> PublishingAgent:
        if self._agent is None:
            raise AssertionError("the agent does not run")
        return self._agent

    def node(self) -> Raw:
        """The Node."""
        return self.store.get("nodes", NODE).read()

    def inventory(self) -> Raw:
        """The DeviceInventory; nothing if there is none."""
        found = self.store.find(INVENTORIES, NODE)
        return found.read() if found else {}

    def written(self) -> list[str]:
        """All writes so far: method and path, without what is the same in all."""
        return [
            f"{note['method']} {note['path'].partition('?')[0]}"
            for note in self._recording.requests
            if note["method"] in _WRITES
        ]

    def used(self) -> set[tuple[str, str, str]]:
        """The permissions that the requests so far need: API group, resource, verb."""
        return {found for note in self._recording.requests if (found := _permission(note["method"], note["path"]))}

    def bodies(self, method: str, end: str) -> list[Any]:
        """The bodies of all requests of a method to paths with this end."""
        return [
            note.get("body")
            for note in self._recording.requests
            if note["method"] == method and note["path"].partition("?")[0].endswith(end)
        ]

    async def settled(self) -> None:
        """Wait until the publisher has seen all there is and has nothing left to write."""
        await self.until(lambda: self._has_seen_all() and self._running.settled, "everything is written")

    def _has_seen_all(self) -> bool:
        stored = {kind: self.store.find(_RESOURCES[kind], NODE) for kind in self._running.kinds}
        versions = {kind: found.version if found else 0 for kind, found in stored.items()}
        return all(self._running.seen.get(kind, -1) >= version for kind, version in versions.items())

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition is true."""
        end = asyncio.get_running_loop().time() + _SECONDS
        while not condition():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not within {_SECONDS:g} s: {what}")
            if self._agent:
                await self._agent.check()
            await asyncio.sleep(_POLL)

    async def uninstall(self, kind: str = INVENTORIES) -> None:
        """Delete a CRD and its objects."""
        self.store.delete(CRD_RESOURCE, kind)
        await self.until(lambda: self.store.find(CRD_RESOURCE, kind) is None, f"{kind} is gone")

    def install(self) -> None:
        """Install the CRD of DeviceInventory as it is shipped, with its schema."""
        text = (files("linkwise.config") / "crds" / "deviceinventories.linkwise.dev.yaml").read_text("utf-8")
        self.store.create(CRD_RESOURCE, yaml.safe_load(text))


def _permission(method: str, target: str) -> tuple[str, str, str] | None:
    """What a request needs; nothing for discovery."""
    path, _, query = target.partition("?")
    parts = path.strip("/").split("/")
    if parts[0] not in {"api", "apis"}:
        return None
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    rest = rest[2:] if rest[:1] == ["namespaces"] else rest
    if not rest:
        return None
    resource = "/".join(rest[::2])
    read = "get" if len(rest) > 1 else "watch" if "watch=1" in query else "list"
    return group, resource, {"GET": read, "POST": "create", "PATCH": "patch"}[method]


def on_node(
    story: Callable[[SingleNodeCluster], Coroutine[Any, Any, None]], *, taints: list[Raw] | None = None
) -> None:
    """Let something happen beside an API server that has one node."""

    async def played() -> None:
        recording = Recording()
        async with EmbeddedApi(
            store=Store(wall_time), tls=False, middleware=recording.before, bookmark_interval=1.0
        ) as api:
            cluster = SingleNodeCluster(api, recording)
            await cluster.uninstall()
            cluster.install()
            spec = {"spec": {"taints": taints}} if taints else {}
            status = {"capacity": {"cpu": "8", "memory": "32Gi"}, "allocatable": {"cpu": "8", "memory": "32Gi"}}
            api.store.create("nodes", {"metadata": {"name": NODE, "labels": {"zone": "a"}}, "status": status, **spec})
            try:
                await story(cluster)
            finally:
                await cluster.kill_agent()
                await cluster.connection.close()

    run_idle(played())
