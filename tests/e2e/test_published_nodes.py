"""What a node's agent publishes, on a real API server and with the role that is shipped for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.dialects.nvidia import TOPOLOGY, matrix_annotation
from linkwise.kube.client.api import connect
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.node.publishing import IDLE_ACCELERATORS, device_of
from support.builders.discoveries import SHARED, box, dgx1, state_of
from support.e2e.api_client import ApiError
from support.e2e.node_objects import node
from support.e2e.pod_objects import device_definition, pod
from support.e2e.processes import wait_for
from support.e2e.service import printed
from support.publishing_agent import PublishingAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.own_cluster import OwnCluster

NODE = "gpu-1"
NODE_PATH = f"/api/v1/nodes/{NODE}"
INVENTORY = f"/apis/linkwise.dev/v1alpha1/deviceinventories/{NODE}"
DEVICE = f"/apis/scheduling.koordinator.sh/v1alpha1/devices/{NODE}"
COUNT = "aliyun.com/gpu-count"
SECONDS = 20.0


@pytest.fixture
def permitted(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with one node, whose agent has its role; what it writes goes with the node."""
    cluster.grant_printed("linkwise", printed("manifests", "rbac", "--agent", "--koordinator"))
    cluster.create([node(NODE)])
    yield cluster
    cluster.api.delete(NODE_PATH)
    wait_for(lambda: not found(cluster, INVENTORY), SECONDS, "the inventory goes with its node")


@asynccontextmanager
async def agent(cluster: Cluster, *, koordinator: bool = False) -> AsyncIterator[PublishingAgent]:
    """The publishing half of an agent, as the user linkwise."""
    connection = connect(cluster.kubeconfig("linkwise"), environ={})
    made = PublishingAgent(connection, NODE, koordinator=koordinator)
    try:
        yield made
    finally:
        await made.kill()
        await connection.close()


async def until(made: PublishingAgent, holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not (made.settled and holds()):
            await made.check()
            await asyncio.sleep(0.01)


def found(cluster: Cluster, path: str) -> Raw:
    try:
        return dict(cluster.api.get(path))
    except ApiError as error:
        if error.status == 404:
            return {}
        raise


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


@pytest.mark.rule("000.publish", "001.report", "002.inventory", "004.count")
def test_everything_is_published_with_the_role_of_the_agent_and_once(permitted: Cluster) -> None:
    async def story() -> None:
        async with agent(permitted) as made:
            made.publisher.publish(state_of(dgx1(), SHARED))
            await until(made, lambda: found(permitted, INVENTORY).get("status"))
        before = {path: found(permitted, path) for path in (NODE_PATH, INVENTORY)}
        async with agent(permitted) as made:
            made.publisher.publish(state_of(dgx1(), SHARED))
            await until(made, lambda: True)
            assert not made.publisher.writes
        assert {path: found(permitted, path) for path in before} == before

    run(story())
    topology, shown, inventory = dgx1().topology, found(permitted, NODE_PATH), found(permitted, INVENTORY)
    assert topology
    assert shown["metadata"]["annotations"][TOPOLOGY] == matrix_annotation(topology)
    assert shown["metadata"]["labels"]["linkwise.dev/accelerator-count"] == "8"
    assert shown["status"]["capacity"][COUNT] == shown["status"]["allocatable"][COUNT] == "8"
    assert inventory["spec"]["bandwidth"] == [list(row) for row in topology.bandwidth]
    assert [one["status"] for one in inventory["status"]["conditions"]] == ["True"] * 3
    assert inventory["metadata"]["ownerReferences"][0]["uid"] == shown["metadata"]["uid"]


@pytest.mark.rule("002.inventory")
def test_what_others_change_comes_back_and_what_is_gone_is_removed(permitted: Cluster) -> None:
    async def story() -> None:
        async with agent(permitted) as made:
            made.publisher.publish(state_of(dgx1(), SHARED))
            await until(made, lambda: found(permitted, INVENTORY).get("status"))
            await asyncio.to_thread(
                permitted.kubectl, "label", "node", NODE, "linkwise.dev/accelerator-count=3", "--overwrite"
            )
            await asyncio.to_thread(permitted.kubectl, "delete", "deviceinventory", NODE)
            await until(made, lambda: found(permitted, INVENTORY).get("status"))
            await until(made, lambda: labels(permitted)["linkwise.dev/accelerator-count"] == "8")
            made.publisher.publish(state_of(box(65, model="")))
            await until(made, lambda: "linkwise.dev/accelerator-model" not in labels(permitted))
            await until(made, lambda: COUNT not in found(permitted, NODE_PATH)["status"]["capacity"])
            await until(made, lambda: found(permitted, INVENTORY)["spec"]["deviceCount"] == 64)

    run(story())


@pytest.mark.rule("002.stranded")
def test_pods_without_devices_prefer_nodes_without_idle_devices(permitted: Cluster, namespace: str) -> None:
    async def story() -> None:
        connection = connect(permitted.kubeconfig("linkwise"), environ={})
        written = await NodeWriter(connection, NODE).set_taint(IDLE_ACCELERATORS, present=True)
        await connection.close()
        assert written.outcome == "done"

    run(story())
    permitted.create([node("plain")])
    permitted.scheduler.run(permitted.scheduling())
    try:
        permitted.create([pod(namespace, f"web-{number}") for number in range(3)])
        nodes = {permitted.wait_bound(namespace, f"web-{number}")["spec"]["nodeName"] for number in range(3)}
    finally:
        permitted.scheduler.stop()
    assert nodes == {"plain"}


@pytest.fixture
def pruning(own_cluster: OwnCluster) -> Iterator[OwnCluster]:
    """Koordinator's kind as its releases define it, which forgets links."""
    own_cluster.define(device_definition(prunes=True))
    yield own_cluster
    own_cluster.undefine(device_definition(prunes=True))


@pytest.mark.rule("001.report")
@pytest.mark.usefixtures("pruning")
def test_koordinators_object_is_written_once_though_its_kind_forgets_links(permitted: Cluster) -> None:
    async def story() -> None:
        async with agent(permitted, koordinator=True) as made:
            made.publisher.publish(replace(state_of(dgx1()), device=device_of(NODE, dgx1())))
            await until(made, lambda: found(permitted, DEVICE))
            await until(made, lambda: made.publisher.problems)
            assert made.publisher.writes["device", "done"] == 1
            assert made.publisher.problems == (
                "the API server did not store the device as written; check its CRD and webhooks",
            )

    run(story())
    device = found(permitted, DEVICE)
    assert ("topologies" in device["spec"], len(device["spec"]["devices"])) == (False, 8)


@pytest.mark.usefixtures("pruning")
def test_an_object_that_somebody_else_writes_is_left_alone(permitted: Cluster) -> None:
    state = replace(state_of(dgx1()), device=device_of(NODE, dgx1()))

    async def story() -> None:
        async with agent(permitted, koordinator=True) as made:
            made.publisher.publish(state)
            await until(made, lambda: found(permitted, DEVICE))
            patch = '{"spec": {"devices": [{"type": "gpu", "minor": 7, "health": true}]}}'
            await asyncio.to_thread(
                permitted.kubectl, "patch", "devices.scheduling.koordinator.sh", NODE, "--type=merge", "--patch", patch
            )
            await until(made, lambda: any("written by kubectl-patch" in one for one in made.publisher.problems))

    run(story())
    assert [one["minor"] for one in found(permitted, DEVICE)["spec"]["devices"]] == [7]


def labels(cluster: Cluster) -> dict[str, str]:
    return dict(found(cluster, NODE_PATH)["metadata"]["labels"])
