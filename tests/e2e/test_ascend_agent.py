"""Ascend chips on a real kubelet: containers have the chips on record, Huawei's tools can read them, faults take them out."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from support.dcmi_stub.machine import atlas_800
from support.e2e.ascend_agent import ASCEND, CONSUMED, AscendAgent, chips
from support.e2e.config_files import AGENT
from support.e2e.processes import wait_for
from support.e2e.real_node.node import container_pod, scheduled_pod
from support.e2e.service import grant, printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

REAL = "huawei.com/AscendReal"
KUBELET = "huawei.com/kltDev"
RANKS = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


def names(*numbers: int) -> str:
    return ",".join(f"Ascend910-{number}" for number in numbers)


@pytest.fixture
def starting(request: pytest.FixtureRequest, real_node: RealNode, tmp_path: Path) -> Iterator[AscendAgent]:
    """The agent of a machine of chips, to be started."""
    request.getfixturevalue("agents_role")
    made = AscendAgent(real_node, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def npus(starting: AscendAgent, placing: Placing) -> AscendAgent:
    """The agent serves eight chips in two rings, and the scheduler knows."""
    starting.start_npus(atlas_800())
    starting.node.wait_allocatable(ASCEND, 8)
    starting.wait_seen(placing)
    return starting


def annotations_of(pod: Raw) -> dict[str, str]:
    return dict(pod["metadata"]["annotations"])


@pytest.mark.rule("000.agree", "003.record")
def test_a_container_has_exactly_the_chips_on_record(npus: AscendAgent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "train", {ASCEND: 2})
    held = grant(real_node.run(pod))
    own = chips(annotations_of(npus.served(pod))[ASCEND])
    assert held.devices == tuple(f"Ascend910-{number}" for number in own)
    assert npus.in_container(pod) == npus.by_kubelet(pod) == own == [0, 1]
    assert real_node.environment(pod)["ASCEND_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.rule("003.record")
def test_huaweis_tools_find_what_is_mounted_on_the_pod(npus: AscendAgent, real_node: RealNode, namespace: str) -> None:
    pod = scheduled_pod(namespace, "train", {ASCEND: 4})
    real_node.run(pod)
    found = annotations_of(npus.served(pod))
    assert found[ASCEND] == found[REAL] == found[KUBELET] == names(0, 1, 2, 3)
    assert found["predicate-time"] == CONSUMED
    address = next(one["address"] for one in real_node.object()["status"]["addresses"] if one["type"] == "InternalIP")
    assert json.loads(found[RANKS]) == {
        "pod_name": "train",
        "server_id": address,
        "host_ip": address,
        "devices": [{"device_id": str(n), "device_ip": f"192.168.100.{101 + n}"} for n in range(4)],
    }
    npus.wait_node_annotation(ASCEND, names(4, 5, 6, 7))
    details = json.loads(annotations_of(real_node.object())["baseDeviceInfos"])
    assert details["Ascend910-7"] == {"IP": "192.168.100.108", "SuperDeviceID": 0}


@pytest.mark.rule("000.agree")
def test_pods_of_one_and_two_rings_and_the_whole_node_have_what_was_chosen(
    npus: AscendAgent, real_node: RealNode, namespace: str
) -> None:
    whole = scheduled_pod(namespace, "whole", {ASCEND: 8})
    real_node.run(whole)
    assert npus.in_container(whole) == list(range(8))
    assert annotations_of(npus.served(whole))[REAL] == names(*range(8))
    real_node.remove(whole)
    pods = [scheduled_pod(namespace, f"part-{size}", {ASCEND: size}) for size in (2, 4, 1)]
    for pod in pods:
        real_node.run(pod)
    mounted = [npus.in_container(pod) for pod in pods]
    assert mounted == [[0, 1], [4, 5, 6, 7], [2]]
    assert [chips(annotations_of(npus.served(pod))[REAL]) for pod in pods] == mounted


def test_the_runtime_of_huawei_is_given_the_chips_by_the_environment(
    starting: AscendAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    starting.start_npus(atlas_800(), ascend_runtime="always")
    real_node.wait_allocatable(ASCEND, 8)
    starting.wait_seen(placing)
    first, second = (scheduled_pod(namespace, name, {ASCEND: 4}) for name in ("first", "second"))
    real_node.run(first)
    real_node.run(second)
    environment = real_node.environment(second)
    assert environment["ASCEND_VISIBLE_DEVICES"] == "4,5,6,7"
    assert environment["ASCEND_RUNTIME_OPTIONS"] == ""
    assert real_node.devices(second) == {}


@pytest.mark.rule("000.agree")
def test_a_pod_that_no_scheduler_has_chosen_chips_for_gets_them_in_one_ring(
    npus: AscendAgent, real_node: RealNode, namespace: str
) -> None:
    first = container_pod(namespace, "first", {ASCEND: 2})
    second = container_pod(namespace, "second", {ASCEND: 4})
    real_node.run(first)
    real_node.run(second)
    assert (npus.in_container(first), npus.in_container(second)) == ([0, 1], [4, 5, 6, 7])
    assert annotations_of(npus.served(second))[REAL] == names(4, 5, 6, 7)


@pytest.mark.rule("003.faulty")
def test_a_faulty_chip_leaves_the_pool_and_returns(
    npus: AscendAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    npus.has_npus(atlas_800().faulty(1, 0x80E01801))
    real_node.wait_allocatable(ASCEND, 7)
    assert real_node.object()["status"]["capacity"][ASCEND] == "8"
    assert "0x80E01801" in npus.wait_condition("DevicesHealthy", "False")["message"]
    npus.wait_node_annotation(f"{ASCEND}-Unhealthy", names(1))
    npus.wait_node_annotation(ASCEND, names(0, 2, 3, 4, 5, 6, 7))
    npus.wait_seen(placing)
    pods = [scheduled_pod(namespace, f"pod-{size}", {ASCEND: size}) for size in (4, 2, 1)]
    for pod in pods:
        real_node.run(pod)
    assert [npus.in_container(pod) for pod in pods] == [[4, 5, 6, 7], [0, 2], [3]]
    npus.has_npus(atlas_800())
    real_node.wait_allocatable(ASCEND, 8)
    npus.wait_node_annotation(ASCEND, names(1))
    npus.wait_seen(placing)
    last = scheduled_pod(namespace, "last", {ASCEND: 1})
    real_node.run(last)
    assert npus.in_container(last) == [1]


def test_a_chip_that_others_can_not_reach_stays_allocatable_and_is_listed(
    npus: AscendAgent, real_node: RealNode
) -> None:
    npus.has_npus(atlas_800().unreachable(6))
    npus.wait_node_annotation(f"{ASCEND}-NetworkUnhealthy", names(6))
    assert real_node.object()["status"]["allocatable"][ASCEND] == "8"


@pytest.mark.rule("000.agree")
def test_an_agent_that_is_killed_and_restarted_serves_the_next_pod_beside_the_first(
    npus: AscendAgent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    first = scheduled_pod(namespace, "first", {ASCEND: 4})
    real_node.run(first)
    before = annotations_of(npus.served(first))
    npus.restart()
    real_node.wait_allocatable(ASCEND, 8)
    npus.wait_seen(placing)
    second = scheduled_pod(namespace, "second", {ASCEND: 4})
    real_node.run(second)
    assert (npus.in_container(first), npus.in_container(second)) == ([0, 1, 2, 3], [4, 5, 6, 7])
    npus.served(second)
    after = real_node.cluster.pod(namespace, "first")
    assert annotations_of(after)[REAL] == before[REAL]


def test_the_config_map_of_huaweis_plugin_shows_the_chips_on_request(
    starting: AscendAgent, real_node: RealNode, namespace: str
) -> None:
    cluster = real_node.cluster
    role = printed("manifests", "rbac", "--agent", "--device-info", "--user", AGENT, "--name", "e2e-device-info")
    cluster.apply(role, "kube-system")
    try:
        starting.start_npus(atlas_800().faulty(5), ascend_device_info="true")
        real_node.wait_allocatable(ASCEND, 7)
        real_node.run(container_pod(namespace, "train", {ASCEND: 2}))
        path = f"/api/v1/namespaces/kube-system/configmaps/mindx-dl-deviceinfo-{real_node.name}"

        def shown() -> dict[str, str]:
            config = json.loads(cluster.api.get(path)["data"]["DeviceInfoCfg"])
            text = json.dumps(config["DeviceInfo"], separators=(",", ":"))
            assert config["CheckCode"] == hashlib.sha256(text.encode()).hexdigest()
            lists: dict[str, str] = config["DeviceInfo"]["DeviceList"]
            assert len(chips(lists[ASCEND])) == 5, lists
            return lists

        lists = wait_for(shown, 20.0, "the ConfigMap shows the free chips")
        assert lists[f"{ASCEND}-Unhealthy"] == names(5)
        assert cluster.api.get(path)["metadata"]["labels"] == {"mx-consumer-cim": "true", "mx-consumer-volcano": "true"}
    finally:
        starting.stop()
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)
        cluster.kubectl(
            "delete", "--ignore-not-found", "-n", "kube-system", "configmap", f"mindx-dl-deviceinfo-{real_node.name}"
        )


def test_the_rank_table_of_a_job_is_completed_when_all_its_pods_have_chips(
    npus: AscendAgent, real_node: RealNode, namespace: str, serve: Callable[..., Serve]
) -> None:
    cluster = real_node.cluster
    cluster.grant_printed("linkwise", printed("manifests", "rbac", "--rank-tables"))
    tables = serve(configuration={"placing": {"rank_tables": True}})
    tables.start()
    about = {"name": "rings-config-llm", "namespace": namespace}
    state = {"hccl.json": '{"status":"initializing"}'}
    cluster.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": state})
    labels = {"ring-controller.atlas": "ascend-910", "job-name": "llm"}
    for rank in (1, 0):
        pod = scheduled_pod(namespace, f"llm-{rank}", {ASCEND: 4}, labels=labels)
        pod["metadata"]["annotations"] = {"hccl/rankIndex": str(rank)}
        npus.served(real_node.run(pod))

    def completed() -> Raw:
        path = f"/api/v1/namespaces/{namespace}/configmaps/rings-config-llm"
        table: Raw = json.loads(cluster.api.get(path)["data"]["hccl.json"])
        assert table["status"] == "completed", table
        assert len(table["server_list"][0]["device"]) == 8, table
        return table

    table = wait_for(completed, 30.0, "the rank table is complete")
    (server,) = table["server_list"]
    assert [chip["rank_id"] for chip in server["device"]] == [str(rank) for rank in range(8)]
    assert [chip["device_id"] for chip in server["device"]] == ["4", "5", "6", "7", "0", "1", "2", "3"]
    assert (table["server_count"], table["version"]) == ("1", "1.0")
