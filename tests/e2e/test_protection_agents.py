"""A node agent changes its own node only, by the node that its token is bound to: real tokens, a real agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.kubernetes.claims.driver import slice_object
from support.e2e.agent import MEMORY, Agent
from support.e2e.api_client import MERGE, Api, marked
from support.e2e.cluster import RBAC
from support.e2e.config_files import NODE, kubeconfig
from support.e2e.node_objects import machine, node
from support.e2e.pod_objects import device_definition, pod
from support.e2e.processes import wait_for
from support.e2e.protection import AGENT, AGENTS, GRANT, bind_token, pod_path, protected, refusal
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import printed
from support.nvml_stub.machine import two_pcie

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.own_cluster import OwnCluster
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

INVENTORIES = "/apis/linkwise.dev/v1alpha1/deviceinventories"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@pytest.fixture(scope="module", autouse=True)
def shipped_role(kubernetes: Cluster) -> Iterator[None]:
    """Policies, the agents' account with the role that is shipped, and Koordinator's Device."""
    role = printed("manifests", "rbac", "--agent", "--koordinator", "--device-info", "--dra", "--namespace", AGENTS)
    kubernetes.kubectl("apply", "--filename", "-", stdin=role)
    kubernetes.define(device_definition())
    try:
        with protected(kubernetes):
            yield
    finally:
        kubernetes.undefine(device_definition())
        kubernetes.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)


@pytest.fixture
def agent_of_n1(cluster: Cluster) -> Iterator[Api]:
    """The agent of node n1, by a token that is bound to its pod there; node n2 is another."""
    cluster.create([node("n1"), node("n2")])
    made = cluster.api.create(pod(AGENTS, "agent-n1", nodeName="n1", serviceAccountName=AGENT))
    opened = cluster.api.another(bind_token(cluster, AGENT, {**made, "kind": "Pod"}))
    yield opened
    opened.close()


def everything_allowed(cluster: Cluster) -> None:
    """Give the agents all rights, so that only the policies hold them back."""
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "e2e-agent-all"}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "e2e-agent-all"}
    subject = {"kind": "ServiceAccount", "name": AGENT, "namespace": AGENTS}
    cluster.api.create(marked({**about, "kind": "ClusterRole", "rules": ALL}))
    cluster.api.create(marked({**about, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}))


def inventory(name: str) -> Raw:
    found = machine(name, "nvlink")[1]
    assert found["kind"] == "DeviceInventory"
    return {**found, "status": {}}


def device(name: str) -> Raw:
    about = {"name": name}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": about,
        "spec": {"devices": []},
    }


def test_an_agent_publishes_its_own_inventory_and_no_other(cluster: Cluster, agent_of_n1: Api) -> None:
    agent_of_n1.call("POST", INVENTORIES, inventory("n1"))
    status = {"status": {"allocations": [{"podUID": "u", "devices": []}]}}
    agent_of_n1.patch(f"{INVENTORIES}/n1/status", status)
    text = refusal(agent_of_n1, "POST", INVENTORIES, inventory("n2"))
    assert "the agent of node n1 may change this node, its DeviceInventory, its Device and its ConfigMap" in text
    assert "and not deviceinventories/n2; check the NODE_NAME of the agent" in text
    cluster.api.create(inventory("n2"))
    for path in (f"{INVENTORIES}/n2", f"{INVENTORIES}/n2/status"):
        refusal(agent_of_n1, "PATCH", path, {"metadata": {"labels": {"a": "b"}}, **status}, MERGE)


def test_an_agent_publishes_slices_of_its_own_node_and_driver_and_no_others(cluster: Cluster, agent_of_n1: Api) -> None:
    own: Raw = slice_object("n1", 0, {"devices": [{"name": "gpu-0"}]}, 1, 1)
    made = agent_of_n1.call("POST", SLICES, own)
    other, foreign = (
        {**own, "metadata": {"name": "other"}, "spec": {**own["spec"], **change}}
        for change in ({"nodeName": "n2"}, {"driver": "gpu.example.com"})
    )
    for slice_ in (other, foreign):
        text = refusal(agent_of_n1, "POST", SLICES, slice_)
        assert "the agent of node n1 may change this node" in text
    cluster.api.call("POST", SLICES, other)
    refusal(agent_of_n1, "DELETE", f"{SLICES}/other")
    agent_of_n1.call("PUT", f"{SLICES}/{made['metadata']['name']}", made)
    agent_of_n1.call("DELETE", f"{SLICES}/{made['metadata']['name']}")


def test_an_agent_labels_its_own_node_and_no_other(agent_of_n1: Api) -> None:
    for way in ("", "/status"):
        change = {"metadata": {"labels": {"linkwise.dev/accelerator-count": "8"}}}
        agent_of_n1.patch(f"/api/v1/nodes/n1{way}", change)
        assert "and not nodes/n2" in refusal(agent_of_n1, "PATCH", f"/api/v1/nodes/n2{way}", change, MERGE)


NOT_ITS_OWN: list[Raw] = [
    {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    {"metadata": {"labels": {"gpushare": None}}},
    {"metadata": {"labels": {"linkwise.dev/network-block": "a"}}},
    {"metadata": {"annotations": {"linkwise.dev/cordoned": "all"}}},
    {"metadata": {"finalizers": ["example.com/never"]}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]}},
    {"spec": {"taints": [{"key": "example.com/a", "effect": "NoExecute"}]}},
    {"spec": {"taints": [{"key": "linkwise.dev/idle-accelerators", "effect": "NoExecute"}]}},
    {"spec": {"unschedulable": True}},
    {"spec": {"providerID": "x"}},
]
OF_THE_KUBELET: list[Raw] = [
    {"status": {"capacity": {"nvidia.com/gpu": "100"}}},
    {"status": {"allocatable": {"cpu": "1000"}}},
    {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r", "message": "m"}]}},
    {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
]


def test_an_agent_changes_nothing_of_its_own_node_but_what_it_publishes(cluster: Cluster, agent_of_n1: Api) -> None:
    path = "/api/v1/nodes/n1"
    cluster.api.patch(path, {"metadata": {"labels": {"gpushare": "true"}}})
    for change in NOT_ITS_OWN:
        assert "as" in refusal(agent_of_n1, "PATCH", path, change, MERGE)
    for change in (*OF_THE_KUBELET, *NOT_ITS_OWN[:4]):
        refusal(agent_of_n1, "PATCH", f"{path}/status", change, MERGE)
    taints = cluster.api.get(path)["spec"].get("taints", [])
    own = {"key": "linkwise.dev/idle-accelerators", "effect": "PreferNoSchedule"}
    agent_of_n1.patch(path, {"spec": {"taints": [*taints, own]}})
    agent_of_n1.patch(
        path, {"metadata": {"annotations": {"huawei.com/Ascend910-Unhealthy": "", "baseDeviceInfos": "{}"}}}
    )
    count = {"aliyun.com/gpu-count": "2"}
    agent_of_n1.patch(f"{path}/status", {"status": {"capacity": count, "allocatable": count}})
    assert cluster.api.get(path)["status"]["allocatable"]["aliyun.com/gpu-count"] == "2"


def test_an_agent_changes_records_of_a_pod_on_its_node_and_nothing_else(
    cluster: Cluster, agent_of_n1: Api, namespace: str
) -> None:
    cluster.api.create(pod(namespace, "here", scheduler="another-scheduler", nodeName="n1", labels={"app": "a"}))
    path = pod_path(namespace, "here")
    changes: list[Raw] = [
        {"metadata": {"labels": {"app": "b"}}},
        {"metadata": {"annotations": {"example.com/a": "b"}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "main", "image": "example.com/other"}]}},
    ]
    for change in changes:
        text = refusal(agent_of_n1, "PATCH", path, change, MERGE)
        assert "the agent may change records in the annotations of pods" in text
    agent_of_n1.patch(path, {"metadata": {"annotations": {GRANT: "{}", INDEX: "1", "hami.io/vgpu-node": "n1"}}})


def event(space: str, name: str, kind: str = "Pod", component: str = "linkwise-agent") -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": space},
        "involvedObject": {"kind": kind, "name": "a", "namespace": space, "apiVersion": "v1"},
        "reason": "RecordCorrected",
        "message": "m",
        "type": "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    }


def test_an_agent_writes_events_about_pods_in_its_own_name_alone(
    cluster: Cluster, agent_of_n1: Api, namespace: str
) -> None:
    events = f"/api/v1/namespaces/{namespace}/events"
    agent_of_n1.call("POST", events, event(namespace, "own"))
    agent_of_n1.patch(f"{events}/own", {"count": 2})
    cluster.api.call("POST", events, event(namespace, "foreign", component="kubelet"))
    for wrong in (event(namespace, "a", component="kubelet"), event(namespace, "b", kind="Secret")):
        assert "name linkwise-agent as their source" in refusal(agent_of_n1, "POST", events, wrong)
    refusal(agent_of_n1, "PATCH", f"{events}/foreign", {"message": "x"}, MERGE)
    refusal(agent_of_n1, "PATCH", f"{events}/own", {"reportingComponent": "kubelet"}, MERGE)


def test_an_agent_writes_the_device_object_of_its_own_node_and_no_other(cluster: Cluster, agent_of_n1: Api) -> None:
    agent_of_n1.call("POST", DEVICES, device("n1"))
    agent_of_n1.patch(f"{DEVICES}/n1", {"metadata": {"labels": {"a": "b"}}})
    refusal(agent_of_n1, "POST", DEVICES, device("n2"))
    cluster.api.create(device("n2"))
    assert "and not devices/n2" in refusal(agent_of_n1, "PATCH", f"{DEVICES}/n2", {"spec": {"devices": []}}, MERGE)


def config_map(name: str, space: str = "kube-system") -> Raw:
    about = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"DeviceInfoCfg": "{}"}}


def test_an_agent_writes_the_config_map_of_its_own_node_and_no_other(cluster: Cluster, agent_of_n1: Api) -> None:
    maps, own = "/api/v1/namespaces/kube-system/configmaps", "mindx-dl-deviceinfo-n1"
    cluster.api.create(config_map("mindx-dl-deviceinfo-n2"))
    try:
        agent_of_n1.call("POST", maps, config_map(own))
        agent_of_n1.patch(f"{maps}/{own}", {"data": {"DeviceInfoCfg": "{ }"}})
        refusal(agent_of_n1, "POST", maps, config_map("mindx-dl-deviceinfo-n3"))
        change = {"data": {"DeviceInfoCfg": "{ }"}}
        text = refusal(agent_of_n1, "PATCH", f"{maps}/mindx-dl-deviceinfo-n2", change, MERGE)
        assert "and not configmaps/mindx-dl-deviceinfo-n2" in text
        refusal(agent_of_n1, "PATCH", f"{maps}/kube-root-ca.crt", {"data": {"ca.crt": "x"}}, MERGE)
    finally:
        cluster.kubectl("delete", "-n", "kube-system", "configmap", own, "mindx-dl-deviceinfo-n2", "--ignore-not-found")


def test_an_agent_with_all_rights_writes_no_config_map_in_other_namespaces(
    cluster: Cluster, agent_of_n1: Api, namespace: str
) -> None:
    everything_allowed(cluster)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_for(lambda: agent_of_n1.answers(maps), 10, "the agent has all rights")
    refusal(agent_of_n1, "POST", maps, config_map("mindx-dl-deviceinfo-n1", namespace))


def test_an_agent_corrects_pods_on_its_own_node_and_no_others(
    cluster: Cluster, agent_of_n1: Api, namespace: str
) -> None:
    for name, there in (("here", "n1"), ("there", "n2"), ("nowhere", None)):
        cluster.api.create(pod(namespace, name, scheduler="another-scheduler", nodeName=there))
    record = {"metadata": {"annotations": {GRANT: "{}", INDEX: "1"}}}
    agent_of_n1.patch(pod_path(namespace, "here"), record)
    for name in ("there", "nowhere"):
        assert f"and not pods/{name}" in refusal(agent_of_n1, "PATCH", pod_path(namespace, name), record, MERGE)


def test_an_agents_token_reads_all_pods_and_no_secrets(cluster: Cluster, agent_of_n1: Api, namespace: str) -> None:
    """The API server can't restrict reads to a node: security.md says so."""
    cluster.api.create(pod(namespace, "there", scheduler="another-scheduler", nodeName="n2"))
    assert [one["metadata"]["name"] for one in agent_of_n1.list(f"/api/v1/namespaces/{namespace}/pods")] == ["there"]
    for path in ("/api/v1/secrets", f"/api/v1/namespaces/{namespace}/configmaps"):
        assert not agent_of_n1.answers(path)


def test_an_agent_with_all_rights_still_changes_its_own_node_only(
    cluster: Cluster, agent_of_n1: Api, namespace: str
) -> None:
    everything_allowed(cluster)
    cluster.api.create(pod(namespace, "p", scheduler="another-scheduler"))
    cluster.api.create(inventory("n2"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wait_for(lambda: agent_of_n1.answers(pods), 10, "the agent has all rights")
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": {GRANT: "{}"}},
        "target": target,
    }
    refusal(agent_of_n1, "POST", pods, pod(namespace, "mine", nodeName="n1", annotations={GRANT: "{}"}))
    refusal(agent_of_n1, "POST", f"{pods}/p/binding", binding)
    refusal(agent_of_n1, "POST", f"/api/v1/namespaces/{namespace}/bindings", binding)
    refusal(agent_of_n1, "PATCH", f"{pods}/p/status", {"metadata": {"annotations": {GRANT: "{}"}}}, MERGE)
    refusal(agent_of_n1, "DELETE", f"{pods}/p")
    refusal(agent_of_n1, "DELETE", f"{INVENTORIES}/n2")
    for name in ("n1", "n2"):
        refusal(agent_of_n1, "DELETE", f"/api/v1/nodes/{name}")
    assert cluster.api.answers("/api/v1/nodes/n2")


def test_a_token_that_is_bound_to_no_node_changes_nothing(cluster: Cluster, namespace: str) -> None:
    cluster.create([node("n1")])
    cluster.api.create(pod(namespace, "here", nodeName="n1"))
    unbound = cluster.api.another(bind_token(cluster, AGENT, None))
    text = refusal(unbound, "POST", INVENTORIES, inventory("n1"))
    assert f"the token of system:serviceaccount:{AGENTS}:{AGENT} is not bound to a node" in text
    assert "projected service account token of its pod" in text
    refusal(unbound, "PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    refusal(unbound, "PATCH", pod_path(namespace, "here"), {"metadata": {"annotations": {GRANT: "{}"}}}, MERGE)
    unbound.close()


def test_a_token_of_another_account_on_the_node_is_no_agents(cluster: Cluster, namespace: str) -> None:
    cluster.create([node("n1")])
    about = {"name": "other", "namespace": AGENTS}
    account = marked({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    cluster.api.create(account)
    rules = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}
    subject = {"kind": "ServiceAccount", **about}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "e2e-other"}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "e2e-other"}
    cluster.api.create(marked({**head, "kind": "ClusterRole", "rules": [rules]}))
    cluster.api.create(marked({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}))
    here = cluster.api.create(pod(AGENTS, "other", nodeName="n1", serviceAccountName="other"))
    other = cluster.api.another(bind_token(cluster, "other", {**here, "kind": "Pod"}))
    cluster.api.create(pod(namespace, "here", nodeName="n1"))
    path = pod_path(namespace, "here")
    wait_for(lambda: other.answers(path), 10, "the account has its rights")
    assert GRANT in refusal(other, "PATCH", path, {"metadata": {"annotations": {GRANT: "{}"}}}, MERGE)
    other.close()
    cluster.api.delete(f"/api/v1/namespaces/{AGENTS}/serviceaccounts/other")


def test_a_real_agent_publishes_and_corrects_under_the_policies(
    own_cluster: OwnCluster, real_node: RealNode, placing: Placing, tmp_path: Path
) -> None:
    token = bind_token(own_cluster, AGENT, {**real_node.object(), "kind": "Node"})
    own_cluster.kubectl("label", "node", NODE, "gpushare=true")
    file = kubeconfig(tmp_path / "bound.kubeconfig", own_cluster.server, token, own_cluster.certificate)
    agent, namespace = Agent(real_node, tmp_path, file), placing.namespace()
    try:
        agent.start(two_pcie())
        real_node.wait_allocatable(MEMORY, 2 * 15)
        agent.wait_seen(placing)
        share = scheduled_pod(namespace, "share", {MEMORY: 2})
        before = real_node.run(share)["metadata"]["annotations"]
        path = pod_path(namespace, "share")
        wrong = "1" if before[INDEX] == "0" else "0"
        own_cluster.connect("linkwise").patch(path, {"metadata": {"annotations": {INDEX: wrong, GRANT: None}}})
        wait_for(
            lambda: placing.cluster.pod(namespace, "share")["metadata"]["annotations"].get(INDEX) == before[INDEX],
            15,
            "corrected",
        )
        assert agent.metric("linkwise_agent_records_corrected_total") >= 1
    finally:
        agent.stop()
