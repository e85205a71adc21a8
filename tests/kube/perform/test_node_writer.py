"""What one node writes: no more than differs, nothing of others, and failures are values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.dialects.ascend.node import DeviceInfo, config_map
from linkwise.embedded.apiserver.faults import Fault
from linkwise.kube.perform.node_writer import NodeWriter
from linkwise.node.publishing import IDLE_ACCELERATORS
from linkwise.node.writes import Written
from support.builders.discoveries import box, state_of
from support.e2e.pod_objects import pod
from support.embedded.single_node_cluster import DEVICES, INVENTORIES, NODE, SingleNodeCluster, on_node
from support.fakes.scripted_api import Reply, ScriptedApi, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkwise.kube.client.api import Connection

PATH = f"/apis/linkwise.dev/v1alpha1/deviceinventories/{NODE}"
NODE_PATH = f"/api/v1/nodes/{NODE}"
DOCUMENT = {**state_of(box(2)).inventory, "status": {"allocations": []}}
DEVICE: dict[str, Any] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Device",
    "metadata": {"name": NODE, "labels": {"linkwise.dev/managed-by": "linkwise-agent"}},
    "spec": {"devices": []},
}
NO_EXECUTE = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def test_a_new_inventory_is_created_and_gets_its_status_and_its_node_as_owner() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        written = await cluster.writer.write_inventory(DOCUMENT, None)
        assert written.outcome == "done"
        assert written.document == cluster.inventory()
        assert cluster.inventory()["status"] == {"allocations": []}
        owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": cluster.node()["metadata"]["uid"]}
        assert cluster.inventory()["metadata"]["ownerReferences"] == [owner]

    on_node(story)


def test_only_the_parts_that_differ_are_written() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.writer.write_inventory(DOCUMENT, None)
        before = len(cluster.written())
        await cluster.writer.write_inventory(DOCUMENT, cluster.inventory())
        assert cluster.written()[before:] == []
        allocated = {"allocations": [{"podUID": "u", "devices": ["GPU-0"]}]}
        await cluster.writer.write_inventory({**DOCUMENT, "status": allocated}, cluster.inventory())
        assert cluster.written()[before:] == [f"PATCH {PATH}/status"]
        await cluster.writer.write_inventory(
            {**DOCUMENT, "status": allocated, "spec": changed("unit", "GiB")}, cluster.inventory()
        )
        assert cluster.bodies("PATCH", NODE) == [{"spec": {"unit": "GiB"}}]

    on_node(story)


def test_the_config_map_of_huaweis_plugin_keeps_the_keys_of_others() -> None:
    lists = {"huawei.com/Ascend910": "Ascend910-0"}
    name = f"mindx-dl-deviceinfo-{NODE}"

    async def story(cluster: SingleNodeCluster) -> None:
        first = config_map(DeviceInfo(NODE, lists), 1000)
        assert (await cluster.writer.write_device_info(first, None)).outcome == "done"
        own = cluster.store.get("configmaps", name, "kube-system").read()
        assert own["metadata"]["ownerReferences"][0]["name"] == NODE
        cluster.store.patch("configmaps", name, {"data": {"ManuallySeparateNPU": "Ascend910-3"}}, "kube-system")
        known = cluster.store.get("configmaps", name, "kube-system").read()
        assert (await cluster.writer.write_device_info(config_map(DeviceInfo(NODE, {}), 2000), known)).outcome == "done"
        data = cluster.store.get("configmaps", name, "kube-system").read()["data"]
        assert data["ManuallySeparateNPU"] == "Ascend910-3"
        assert '"UpdateTime":2000' in data["DeviceInfoCfg"]

    on_node(story)


def test_an_inventory_that_somebody_else_created_or_deleted_meanwhile_is_written() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.create(INVENTORIES, {"metadata": {"name": NODE}, "spec": changed("mode", "any")})
        assert (await cluster.writer.write_inventory(DOCUMENT, None)).outcome == "done"
        assert cluster.inventory()["spec"]["mode"] == "whole"
        known = cluster.inventory()
        cluster.store.delete(INVENTORIES, NODE)
        assert (
            await cluster.writer.write_inventory({**DOCUMENT, "spec": changed("mode", "any")}, known)
        ).outcome == "done"
        assert cluster.inventory()["spec"]["mode"] == "any"

    on_node(story)


def test_without_the_crd_the_sentence_says_how_to_install_it() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.uninstall()
        written = await cluster.writer.write_inventory(DOCUMENT, None)
        assert (written.outcome, written.wait) == ("refused", 60.0)
        assert "`linkwise manifests crd | kubectl apply --server-side -f -` installs it" in written.sentence

    on_node(story)


def test_what_the_schema_forbids_is_refused_with_a_reason() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        written = await cluster.writer.write_inventory({**DOCUMENT, "spec": changed("mode", "both")}, None)
        assert written.outcome == "refused"
        assert "spec.mode" in written.sentence

    on_node(story)


def test_a_status_that_is_not_written_leaves_the_spec_known() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("answer", on="PATCH", path="/status$", code=503))
        written = await cluster.writer.write_inventory(DOCUMENT, None)
        assert (written.outcome, written.document) == ("unreachable", cluster.inventory())

    on_node(story)


def test_labels_and_annotations_are_set_and_removed_beside_those_of_others() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.writer.patch_node({"a": "1", "b": "2"}, {"c": "3"})
        written = await cluster.writer.patch_node({"a": None}, {})
        assert cluster.node()["metadata"]["labels"] == {"zone": "a", "b": "2"}
        assert cluster.node()["metadata"]["annotations"] == {"c": "3"}
        assert written.view
        assert written.view.labels == {"zone": "a", "b": "2"}

    on_node(story)


def test_resources_are_set_and_removed_beside_those_of_the_kubelet() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.writer.patch_node_status({"aliyun.com/gpu-count": "2"}, {"aliyun.com/gpu-count": "2"})
        assert cluster.node()["status"]["capacity"] == {"cpu": "8", "memory": "32Gi", "aliyun.com/gpu-count": "2"}
        await cluster.writer.patch_node_status({"aliyun.com/gpu-count": None}, {"aliyun.com/gpu-count": None})
        assert cluster.node()["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi"}

    on_node(story)


def test_a_taint_is_added_and_removed_and_others_stay_as_they_are() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        assert (await cluster.writer.set_taint(IDLE_ACCELERATORS, present=True)).outcome == "done"
        own = {"key": IDLE_ACCELERATORS.key, "effect": "PreferNoSchedule"}
        assert cluster.node()["spec"]["taints"] == [NO_EXECUTE, own]
        await cluster.writer.set_taint(IDLE_ACCELERATORS, present=True)
        assert len(cluster.written()) == 1
        await cluster.writer.set_taint(IDLE_ACCELERATORS, present=False)
        assert cluster.node()["spec"]["taints"] == [NO_EXECUTE]

    on_node(story, taints=[NO_EXECUTE])


def test_the_last_taint_leaves_no_list() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.writer.set_taint(IDLE_ACCELERATORS, present=True)
        await cluster.writer.set_taint(IDLE_ACCELERATORS, present=False)
        assert "taints" not in cluster.node()["spec"]

    on_node(story)


def test_taints_that_change_meanwhile_are_not_overwritten() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("delay", on="PATCH", path=f"/nodes/{NODE}$", seconds=0.2))
        writing = asyncio.create_task(cluster.writer.set_taint(IDLE_ACCELERATORS, present=True))
        await cluster.until(cluster.written, "the patch is on its way")
        cluster.store.patch("nodes", NODE, {"spec": {"taints": [NO_EXECUTE]}})
        assert (await writing).outcome == "done"
        assert [taint["key"] for taint in cluster.node()["spec"]["taints"]] == [
            NO_EXECUTE["key"],
            IDLE_ACCELERATORS.key,
        ]
        assert len(cluster.written()) == 2

    on_node(story)


def test_a_node_that_always_changes_is_left_for_later() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("answer", on="PATCH", path=f"/nodes/{NODE}$", code=409, times=0))
        written = await cluster.writer.set_taint(IDLE_ACCELERATORS, present=True)
        assert (written.outcome, len(cluster.written())) == ("refused", 3)

    on_node(story)


def test_a_pod_is_annotated_if_it_is_the_one_that_is_meant() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        uid = cluster.store.create("pods", pod("default", "p")).uid
        assert await cluster.writer.annotate_pod("default", "p", uid, {"a": "1"}) == Written("done")
        assert (await cluster.writer.annotate_pod("default", "p", "another", {"a": "2"})).outcome == "refused"
        assert (await cluster.writer.annotate_pod("default", "q", uid, {"a": "2"})).outcome == "refused"
        assert cluster.store.get("pods", "p", "default").read()["metadata"]["annotations"] == {"a": "1"}

    on_node(story)


def test_the_pods_of_the_node_are_listed_as_they_are_now() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        for name, node in (("own", NODE), ("foreign", "other")):
            made = pod("default", name, {"nvidia.com/gpu": 1})
            made["spec"]["nodeName"] = node
            cluster.store.create("pods", made)
        listed = await cluster.writer.pods()
        assert ([view.name for view in listed.pods], listed.problem) == (["own"], "")

    on_node(story)


def test_a_list_of_pods_that_takes_too_long_is_a_problem() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/pods", Reply(ending="silence"))
        started = asyncio.get_running_loop().time()
        listed = await NodeWriter(connection, "n1").pods()
        assert asyncio.get_running_loop().time() - started < 3.0
        assert (listed.pods, listed.problem != "") == ((), True)

    play(scenario)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"items": [{"metadata": 5}]}'])
def test_a_list_of_pods_that_can_t_be_read_is_a_problem(body: bytes) -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script("GET /api/v1/pods", Reply(200, body))
        assert (await NodeWriter(connection, "n1").pods()).problem

    play(scenario)


def test_koordinators_object_is_created_and_changed() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        assert (await cluster.writer.write_device(DEVICE, None)).outcome == "done"
        changed_device = {**DEVICE, "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True}]}}
        known = cluster.store.get(DEVICES, NODE).read()
        assert (await cluster.writer.write_device(changed_device, known)).outcome == "done"
        assert cluster.store.get(DEVICES, NODE).read()["spec"] == changed_device["spec"]

    on_node(story)


def test_the_object_of_another_writer_is_left_alone() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.store.create(DEVICES, {"metadata": {"name": NODE}, "spec": {"devices": [{"minor": 7}]}})
        written = await cluster.writer.write_device(DEVICE, None)
        assert (written.outcome, cluster.store.get(DEVICES, NODE).read()["spec"]) == (
            "refused",
            {"devices": [{"minor": 7}]},
        )
        assert written.sentence == "the Device object of this node is written by an unknown writer"

    on_node(story)


def test_an_object_that_another_writer_took_over_meanwhile_is_left_alone() -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        await cluster.writer.write_device(DEVICE, None)
        known = cluster.store.get(DEVICES, NODE).read()
        cluster.store.patch(DEVICES, NODE, {"spec": {"devices": [{"minor": 7}]}})
        written = await cluster.writer.write_device({**DEVICE, "spec": {"devices": [{"minor": 0}]}}, known)
        assert (written.outcome, cluster.store.get(DEVICES, NODE).read()["spec"]) == (
            "refused",
            {"devices": [{"minor": 7}]},
        )

    on_node(story)


CALLS: dict[str, Callable[[NodeWriter], Awaitable[Written]]] = {
    "inventory": lambda writer: writer.write_inventory(DOCUMENT, None),
    "known inventory": lambda writer: writer.write_inventory(DOCUMENT, {}),
    "device": lambda writer: writer.write_device(DEVICE, None),
    "node": lambda writer: writer.patch_node({"a": "1"}, {}),
    "status": lambda writer: writer.patch_node_status({"a": "1"}, {}),
    "taint": lambda writer: writer.set_taint(IDLE_ACCELERATORS, present=True),
    "pod": lambda writer: writer.annotate_pod("ns", "p", "u", {"a": "1"}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("code", "outcome"), [(403, "refused"), (422, "refused"), (429, "unreachable"), (500, "unreachable")]
)
def test_whatever_the_server_answers_is_a_result(
    call: Callable[[NodeWriter], Awaitable[Written]], code: int, outcome: str
) -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("answer", code=code, times=0, retry_after=7 if code == 429 else 0))
        written = await call(cluster.writer)
        assert (written.outcome, written.wait) == (outcome, 7.0 if code == 429 else 0.0)
        assert ("`linkwise manifests rbac --agent`" in written.sentence) is (code == 403)

    on_node(story)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_server_that_resets_connections_is_unreachable(call: Callable[[NodeWriter], Awaitable[Written]]) -> None:
    async def story(cluster: SingleNodeCluster) -> None:
        cluster.api.faults.add(Fault("reset", times=0))
        assert (await call(cluster.writer)).outcome == "unreachable"

    on_node(story)


@pytest.mark.parametrize("call", [CALLS[name] for name in ("inventory", "device", "node", "status", "taint")])
@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"metadata": 5}'])
def test_no_response_can_raise(call: Callable[[NodeWriter], Awaitable[Written]], body: bytes) -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        for asked in ("GET", "PATCH"):
            for path in (NODE_PATH, f"{NODE_PATH}/status", PATH, f"{PATH}/status"):
                api.script(f"{asked} {path}", Reply(200, body))
        for path in (PATH, "/apis/scheduling.koordinator.sh/v1alpha1/devices/x"):
            api.script(f"POST {path.rpartition('/')[0]}", Reply(201, body))
        await call(NodeWriter(connection, NODE))

    play(scenario)


def changed(name: str, value: object) -> dict[str, object]:
    spec: Any = DOCUMENT["spec"]
    return {**spec, name: value}
