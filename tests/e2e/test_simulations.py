"""Simulations with nodes of a real cluster: an autoscaler's copies of them, and a kube-scheduler that sends them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import Placing

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve

GPU = "nvidia.com/gpu"


def copy_of(node: Raw) -> Raw:
    """What Cluster Autoscaler makes of a node for simulations: another name, and no more that is its own."""
    name = f"template-node-for-{node['metadata']['name']}-1"
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name}
    return {**node, "metadata": {**node["metadata"], "name": name, "uid": name, "labels": labels}}


def asked(placing: Placing, made: Raw, *nodes: Raw, verb: str = "filter") -> Any:  # noqa: ANN401 - JSON
    call = {"Pod": made, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}
    return placing.serve.http.call("POST", f"/{verb}", call)


def test_a_copy_of_a_full_node_takes_the_pod_that_waits(cluster: Cluster, service: Serve) -> None:
    placing = Placing(cluster, service)
    namespace = placing.namespace()
    placing.nodes(*machine("gpu", "nvlink"))
    placing.place(namespace, "first", {GPU: 8})
    waiting = placing.create(namespace, "second", {GPU: 8})
    placing.refused(namespace, "second")
    real = placing.cluster.api.get("/api/v1/nodes/gpu")
    entries, template = placing.entries(), copy_of(real)
    answer = asked(placing, waiting, real, template)
    assert [found["metadata"]["name"] for found in answer["Nodes"]["items"]] == ["template-node-for-gpu-1"]
    assert asked(placing, waiting, real)["Nodes"]["items"] == []
    assert {found["Host"] for found in asked(placing, waiting, real, template, verb="prioritize")} == {
        "gpu",
        "template-node-for-gpu-1",
    }
    assert placing.entries() == entries


def test_a_kube_scheduler_that_sends_whole_nodes_is_answered_and_binds_nothing(
    cluster: Cluster, service: Serve
) -> None:
    placing = Placing(cluster, service)
    namespace = placing.namespace()
    placing.nodes(*machine("gpu", "nvlink"))
    configuration: Raw = cluster.scheduling(placing.serve.url, names=("whole-nodes",))
    configuration["extenders"][0]["nodeCacheCapable"] = False
    before = placing.metric('linkwise_requests_total{code="200",verb="filter"}')
    cluster.scheduler.run(configuration)
    cluster.api.create(pod(namespace, "p", {GPU: 2}, scheduler="whole-nodes"))
    wait_for(
        lambda: "was not filtered" in str(cluster.events(namespace, "p")), 15, "kube-scheduler reports the refused bind"
    )
    assert placing.metric('linkwise_requests_total{code="200",verb="filter"}') > before
    assert not cluster.pod(namespace, "p")["spec"].get("nodeName")
    assert placing.entries() == []
