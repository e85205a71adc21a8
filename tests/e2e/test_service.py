"""A real kube-scheduler places pods through a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import device_ids, machine
from support.e2e.pod_objects import pod

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve


@pytest.mark.usefixtures("service")
def test_a_pod_of_two_lands_on_linked_devices(cluster: Cluster, namespace: str) -> None:
    cluster.create([*machine("linked", "mixed"), *machine("plain", "pcie")])
    cluster.create([pod(namespace, "train", {"nvidia.com/gpu": 2})])
    bound = cluster.wait_bound(namespace, "train")
    assert bound["spec"]["nodeName"] == "linked"
    first, second = device_ids("linked", "a100-bridged")[:2]
    written = str(bound["metadata"]["annotations"])
    assert first in written
    assert second in written


def test_a_pod_that_came_while_the_service_was_dead_is_placed(cluster: Cluster, namespace: str, service: Serve) -> None:
    cluster.create(machine("linked", "nvlink"))
    service.kill()
    cluster.create([pod(namespace, "train", {"nvidia.com/gpu": 1})])
    service.start()
    assert cluster.wait_bound(namespace, "train", 30)["spec"]["nodeName"] == "linked"
