"""Network topology of a real Volcano in both modes: jobs stay within the HyperNode that they require."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import chips_are_single
from support.e2e.node_objects import ascend
from support.e2e.processes import wait_for
from support.e2e.volcano_objects import pod_names, volcano_job
from support.e2e.volcano_placing import seed_conf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.config.volcano import Mode
    from support.e2e.api_client import Raw
    from support.e2e.volcano_placing import VolcanoPlacing

NPU = "huawei.com/Ascend910"
PATH = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
WHOLE, USED = set(range(8)), set(range(1, 8))


@pytest.fixture(scope="module", params=["extender", "gated"])
def volcano_mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


def hyper_node(name: str, tier: int, kind: str, *members: str) -> Raw:
    found = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": found}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def namespace(volcano: VolcanoPlacing, volcano_mode: Mode) -> Iterator[str]:
    """Two switches with two nodes each below a third one; only three nodes are empty, the first one is not."""
    made = [hyper_node("s0", 1, "Node", "a0", "a1"), hyper_node("s1", 1, "Node", "a2", "a3")]
    for thing in (*made, hyper_node("s2", 2, "HyperNode", "s0", "s1")):
        volcano.cluster.api.create(marked(thing))
    before = volcano.volcano.configuration.read_text()
    conf = seed_conf(volcano.cluster, volcano.serve.url, mode=volcano_mode, plugins=["network-topology-aware"])
    volcano.volcano.run(conf)
    volcano.nodes(*(thing for number in range(4) for thing in ascend(f"a{number}")))
    yield volcano.idle({"a0": USED, "a1": WHOLE, "a2": WHOLE, "a3": WHOLE})
    for name in ("s2", "s1", "s0"):
        volcano.cluster.api.delete(f"{PATH}/{name}")
    volcano.volcano.run(before)


def within(job: Raw, tier: int) -> Raw:
    """The Job, restricted to one HyperNode of at most this tier."""
    job["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    return job


@pytest.mark.rule("001.gang", level="R")
def test_a_job_stays_within_one_hyper_node_of_the_tier_that_it_allows(volcano: VolcanoPlacing, namespace: str) -> None:
    granted = volcano.run(within(volcano_job(namespace, "train", {NPU: 8}, 2), 1), 40)
    assert sorted(found.node for found in granted) == ["a2", "a3"]
    chips_are_single(volcano.cluster.api.list("/api/v1/pods"))


def test_a_job_that_allows_a_broader_tier_takes_nodes_of_both_switches(volcano: VolcanoPlacing, namespace: str) -> None:
    granted = volcano.run(within(volcano_job(namespace, "wide", {NPU: 8}, 3), 2), 40)
    assert sorted(found.node for found in granted) == ["a1", "a2", "a3"]
    chips_are_single(volcano.cluster.api.list("/api/v1/pods"))


def test_a_job_that_no_hyper_node_has_room_for_waits_and_holds_no_chip(volcano: VolcanoPlacing, namespace: str) -> None:
    job = within(volcano_job(namespace, "narrow", {NPU: 8}, 3), 1)
    volcano.submit(job)
    wait_for(lambda: all(volcano.find(namespace, name) for name in pod_names(job)), 20, "the pods are there")
    volcano.volcano.pass_sessions(10)
    assert not any(volcano.cluster.pod(namespace, name)["spec"].get("nodeName") for name in pod_names(job))
    assert {entry["grant"]["pod"] for entry in volcano.entries()}.isdisjoint(uids(volcano, namespace))


def uids(volcano: VolcanoPlacing, namespace: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in volcano.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")}
