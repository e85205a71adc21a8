"""The test cluster itself: a real Kubernetes whose parts can be asked, granted, killed and emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.api_client import ApiError
from support.e2e.node_objects import node
from support.e2e.pod_objects import pod
from support.e2e.processes import free_ports, wait_for

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster
    from support.e2e.own_cluster import OwnCluster

GPU = "nvidia.com/gpu"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: example.com/none}]}
"""


def status_of(cluster: Cluster, user: str, path: str) -> int:
    return cluster.connect(user).raw("GET", path)[0]


def test_the_api_server_is_a_kubernetes_1_36(own_cluster: OwnCluster) -> None:
    assert own_cluster.api.get("/version")["gitVersion"] == "v1.36.4"


def test_a_user_without_a_role_may_do_nothing(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="pods is forbidden") as refused:
        cluster.connect("linkwise").list("/api/v1/pods")
    assert refused.value.status == 403


def test_a_role_opens_what_it_names_and_nothing_else(cluster: Cluster) -> None:
    cluster.grant("linkwise", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    wait_for(lambda: status_of(cluster, "linkwise", "/api/v1/pods") == 200, 5, "the role is in force")
    assert status_of(cluster, "linkwise", "/api/v1/nodes") == 403
    assert status_of(cluster, "tenant", "/api/v1/pods") == 403


def test_five_hundred_nodes_are_there_for_kube_scheduler(cluster: Cluster, namespace: str) -> None:
    cluster.scheduler.run(cluster.scheduling(names=["e2e"]))
    cluster.create(node(f"gpu-{number}", {GPU: 8}) for number in range(500))
    cluster.create([pod(namespace, "train", {GPU: 8}, scheduler="e2e")])
    assert cluster.wait_bound(namespace, "train")["spec"]["nodeName"].startswith("gpu-")


def test_a_restarted_api_server_still_has_everything(own_cluster: OwnCluster, namespace: str) -> None:
    own_cluster.create([node("gpu-1", {GPU: 8}), pod(namespace, "train", {GPU: 1}, scheduler="another-scheduler")])
    uid = own_cluster.pod(namespace, "train")["metadata"]["uid"]
    own_cluster.restart_api_server()
    assert own_cluster.pod(namespace, "train")["metadata"]["uid"] == uid
    assert own_cluster.kubectl("get", "nodes", "--output=name").split() == ["node/gpu-1"]


def test_the_scheduler_goes_on_after_the_api_server_was_killed(own_cluster: OwnCluster, namespace: str) -> None:
    own_cluster.scheduler.run(own_cluster.scheduling())
    own_cluster.restart_api_server()
    own_cluster.create([node("gpu-1", {GPU: 8}), pod(namespace, "train", {GPU: 1})])
    assert own_cluster.wait_bound(namespace, "train", 30)["spec"]["nodeName"] == "gpu-1"


def test_the_scheduler_runs_with_the_configuration_it_is_given(cluster: Cluster, namespace: str) -> None:
    (unused,) = free_ports(1)
    cluster.create([node("gpu-1", {GPU: 8})])
    cluster.scheduler.run(cluster.scheduling(f"http://127.0.0.1:{unused}", names=["e2e"]))
    cluster.create([pod(namespace, "train", {GPU: 1}, scheduler="e2e")])
    wait_for(lambda: "connection refused" in " ".join(cluster.events(namespace, "train")), 30, "the extender is asked")
    cluster.scheduler.run(cluster.scheduling(names=["e2e"]))
    assert cluster.wait_bound(namespace, "train", 30)["spec"]["nodeName"] == "gpu-1"


def test_clearing_leaves_neither_pods_nor_nodes(own_cluster: OwnCluster) -> None:
    own_cluster.create([node("cpu-1")])
    own_cluster.apply(DEPLOYMENT)
    made = "/api/v1/pods?labelSelector=app%3Dweb"
    wait_for(lambda: len(own_cluster.api.list(made)) == 3, 60, "the controllers make three pods")
    own_cluster.clear()
    what = "a controller that was making a pod has noticed"
    wait_for(lambda: not own_cluster.api.list("/api/v1/pods") + own_cluster.api.list("/api/v1/nodes"), 20, what)
