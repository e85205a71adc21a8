"""Nodes that only a real Volcano excludes: the pod that replaces a pinned one goes elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.node_objects import ascend
from support.e2e.processes import wait_for
from support.e2e.volcano_objects import pod_names, volcano_job
from support.e2e.volumes import claimed, local_volume

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.config.volcano import Mode
    from support.e2e.volcano_placing import VolcanoPlacing

NPU = "huawei.com/Ascend910"


@pytest.fixture(scope="module")
def volcano_mode() -> Mode:
    return "gated"


@pytest.fixture(scope="module")
def volcano_settings() -> Mapping[str, Mapping[str, Any]]:
    """Plans expire soon."""
    return {"placing": {"group": {"hold": 4}}}


@pytest.fixture
def namespace(volcano: VolcanoPlacing) -> Iterator[str]:
    """Two empty nodes, and a claim whose volume is on the second."""
    volcano.nodes(*ascend("a"), *ascend("b"))
    made = volcano.namespace()
    local_volume(volcano.cluster, made, 0, "b")
    yield made
    volcano.cluster.api.delete(f"/api/v1/persistentvolumes/{made}-0")


def expiry(volcano: VolcanoPlacing, namespace: str, name: str) -> str:
    return next((text for text in volcano.cluster.events(namespace, name) if text.startswith("PlanExpired")), "")


@pytest.mark.rule("001.replan", level="R")
def test_a_pod_whose_volume_is_elsewhere_is_replaced_on_another_node(volcano: VolcanoPlacing, namespace: str) -> None:
    job = volcano_job(namespace, "train", {NPU: 8}, volumes=[claimed(0)])
    volcano.submit(job)
    (name,) = pod_names(job)
    wait_for(lambda: expiry(volcano, namespace, name), 30, "the plan expires")
    assert "pods that replace them avoid node a, which Volcano refused" in expiry(volcano, namespace, name)
    volcano.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")  # its Job creates another one
    assert volcano.placed(namespace, name, 30).node == "b"
    volcano.settled()
