"""The watches of one node's agent: its own objects alone, and what does not exist is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import NodeGone, NodeObject, PodDeleted, PodListComplete, WatchEvent
from linkwise.kube.watch.kinds import node_sources
from linkwise.kube.watch.watcher import Watching
from linkwise.model.views import NodeView, PodView
from support.e2e.pod_objects import pod
from support.embedded.single_node_cluster import DEVICES, INVENTORIES, NODE, SingleNodeCluster, on_node
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, listed, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from support.e2e.api_client import Raw


def inventory(name: str) -> Raw:
    return {"metadata": {"name": name}, "spec": {"mode": "any", "enforced": False, "devices": []}}


def bound(name: str, node: str) -> Raw:
    made = pod("default", name)
    made["spec"]["nodeName"] = node
    return made


def test_only_the_objects_of_the_node_are_watched() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.create("nodes", {"metadata": {"name": "other"}})
        cluster.store.create(INVENTORIES, inventory(NODE))
        cluster.store.create(INVENTORIES, inventory("other"))
        for name, node in (("own", NODE), ("foreign", "other")):
            cluster.store.create("pods", bound(name, node))
        cluster.start_agent()
        await cluster.until(
            lambda: any(isinstance(event, PodListComplete) for event in cluster.events), "pods are listed"
        )
        cluster.store.create("pods", bound("late", NODE))
        cluster.store.create("pods", bound("elsewhere", "other"))
        cluster.store.patch("nodes", "other", {"metadata": {"labels": {"a": "b"}}})
        cluster.store.patch("nodes", NODE, {"metadata": {"labels": {"a": "b"}}})
        await cluster.until(
            lambda: {event.name for event in cluster.events if isinstance(event, PodView)} >= {"late"}, "late"
        )
        await cluster.until(
            lambda: sum(isinstance(event, NodeView) for event in cluster.events) == 2, "the label is seen"
        )
        named = {event.name for event in cluster.events if isinstance(event, NodeView | PodView)}
        assert named == {NODE, "own", "late"}
        assert {event.node for event in cluster.events if isinstance(event, NodeObject)} == {NODE}

    on_node(story)


def test_a_pod_that_is_gone_is_known_by_its_uid() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        uid = cluster.store.create("pods", bound("own", NODE)).uid
        cluster.start_agent()
        await cluster.until(lambda: any(isinstance(event, PodView) for event in cluster.events), "the pod is seen")
        cluster.store.delete("pods", "own", "default")
        await cluster.until(lambda: cluster.events[-1] == PodDeleted(uid), "it is gone")

    on_node(story)


def test_an_inventory_that_does_not_exist_is_reported_as_deleted() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.start_agent(koordinator=True)
        missing = {("DeviceInventory", None), ("Device", None)}
        await cluster.until(lambda: missing <= shown(cluster), "both were looked for")

    on_node(story)


def test_a_kind_that_is_not_installed_is_reported_as_deleted() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.uninstall()
        await cluster.uninstall(DEVICES)
        cluster.start_agent(koordinator=True)
        await cluster.until(
            lambda: {("DeviceInventory", None), ("Device", None)} <= shown(cluster), "both were looked for"
        )

    on_node(story)


def test_a_node_that_is_not_registered_is_reported_as_gone() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.delete("nodes", NODE)
        cluster.start_agent()
        await cluster.until(lambda: NodeGone(NODE) in cluster.events, "the node was looked for")

    on_node(story)


def test_koordinators_object_is_watched_on_request_only() -> None:
    assert [source.resource for source in node_sources("n")] == ["nodes", "deviceinventories", "pods"]
    assert [source.resource for source in node_sources("n", koordinator=True)][2:] == ["devices", "pods"]


def test_lists_and_watches_have_the_field_selector() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/pods", listed())
        api.script("GET /api/v1/nodes", listed())
        watching = Watching(connection, list[WatchEvent]().extend, timing=FakeTime().timing, sources=node_sources("n1"))
        task = asyncio.create_task(watching.run())
        await until(lambda: api.asked("WATCH", "/api/v1/pods") and api.asked("WATCH", "/api/v1/nodes"))
        task.cancel()
        for path, selector in (("/api/v1/pods", "spec.nodeName=n1"), ("/api/v1/nodes", "metadata.name=n1")):
            asked = api.asked("GET", path) + api.asked("WATCH", path)
            assert {request.query["fieldSelector"] for request in asked} == {selector}

    play(scenario)


def test_a_missing_permission_names_the_role_of_the_agent() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/pods", Reply(403, {"message": "no"}))
        api.script("GET /api/v1/nodes", listed())
        watching = Watching(connection, list[WatchEvent]().extend, timing=FakeTime().timing, sources=node_sources("n1"))
        task = asyncio.create_task(watching.run())
        await until(lambda: watching.problems)
        task.cancel()
        assert "`linkwise manifests rbac --agent` prints the role" in watching.problems[0]

    play(scenario)


def shown(cluster: SingleNodeCluster) -> set[tuple[str, object]]:
    return {(event.kind, event.document) for event in cluster.events if isinstance(event, NodeObject)}
