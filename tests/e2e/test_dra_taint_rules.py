"""DeviceTaintRules of a real API server: the devices that they select are out of use, and everybody sees why.

Kubernetes 1.36 does not serve them by default, so that the tests have a cluster of their own with the API and its gate.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from support.builders.dra_objects import device_class, taint_rule
from support.e2e.claim_nodes import GPU, claim_node
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.service import Placing

GATE: Final = "--feature-gates=DRADeviceTaintRules=true"
API: Final = "resource.k8s.io/v1beta2"


@pytest.fixture(scope="module")
def kubernetes(programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """A cluster that serves DeviceTaintRules, in place of the one that other files share."""
    if os.environ.get("LINKWISE_E2E_KUBECONFIG"):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    folder = tmp_path_factory.mktemp("taint-rules")
    made = OwnCluster(programs, folder, GATE, f"--runtime-config={API}=true", scheduler_flags=(GATE,))
    try:
        made.start()
        made.install(root / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        yield made
    finally:
        made.close()


def test_a_rule_takes_a_device_out_of_use_until_it_is_deleted(placing: Placing) -> None:
    node, inventory, published = claim_node("a")
    placing.cluster.create([device_class(), published])
    placing.nodes(node, inventory)
    namespace = placing.namespace()
    rule = taint_rule("repair", {"pool": "a", "device": "gpu-3"}, {"key": "example.com/repair", "effect": "NoSchedule"})
    placing.cluster.api.create(rule)
    try:
        faults = wait_for(lambda: unhealthy(placing), 15, "the rule is seen")
        assert faults[0].startswith("taint example.com/repair:NoSchedule of DeviceTaintRule repair since 20")
        placing.create(namespace, "train", {GPU: 8})
        placing.refused(namespace, "train")
        wait_for(lambda: "DeviceTaintRule repair" in placing.explain(namespace, "train"), 15, "it is explained")
    finally:
        placing.cluster.api.delete(f"/apis/{API}/devicetaintrules/repair")
    assert placing.placed(namespace, "train", 30).node == "a"
    assert unhealthy(placing) == []


def unhealthy(placing: Placing) -> list[str]:
    """The faults of the devices of the node, as kubectl's events of it tell them."""
    events = [text for text in placing.cluster.events("default", "a") if text.startswith(("DeviceFailed", "DeviceRec"))]
    if not events or events[-1].startswith("DeviceRecovered"):
        return []
    return [events[-1].partition("became unhealthy: ")[2]]
