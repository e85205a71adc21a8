"""Gangs with constraints beyond devices: volumes, which kube-scheduler alone knows in full, and topology spread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service
from support.e2e.volumes import claimed, local_volume

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
SECONDS: Final = 15.0
SPREAD_SECONDS: Final = 2.0
FIRST_BACKOFF: Final = 1.0  # seconds
"""of kube-scheduler, for members that it has tried before the gang was complete"""
GATE: Final = "linkwise.dev/gang"
HOLD: Final = {"placing": {"group": {"hold": 3.0}}}
"""seconds until members that do not start are looked at"""


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    """A service that soon looks at members that do not start."""
    with running_service(kubernetes, "constraints", configuration=HOLD) as made:
        yield made


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    placing.nodes(*(thing for number in range(4) for thing in machine(f"n{number}", "nvlink")))
    made = placing.namespace()
    yield made
    for number in range(2):
        placing.cluster.api.delete(f"/api/v1/persistentvolumes/{made}-{number}")
    placing.cluster.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{made}")


def gang(name: str, members: int) -> dict[str, str]:
    return {f"{GANG}/name": name, f"{GANG}/min-available": str(members)}


def test_members_whose_volumes_are_on_other_nodes_than_planned_start_in_seconds(
    placing: Placing, namespace: str
) -> None:
    homes = ["n3", "n2"]
    for number, node in enumerate(homes):
        local_volume(placing.cluster, namespace, number, node)
    pods = [member(namespace, number, volumes=[claimed(number)]) for number in range(2)]
    placing.cluster.create(pods)
    assert [placing.placed(namespace, f"g-{number}", SECONDS).node for number in range(2)] == homes
    all_is_well(placing)


@pytest.mark.parametrize(
    ("gates", "limit"), [((), SPREAD_SECONDS + FIRST_BACKOFF), ((GATE,), SPREAD_SECONDS)], ids=["plain", "gated"]
)
def test_members_that_must_be_on_different_nodes_start_within_two_seconds(
    placing: Placing, namespace: str, gates: tuple[str, ...], limit: float
) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"gang": "spread"}},
    }
    words: dict[str, Any] = {"labels": {"gang": "spread"}, "topologySpreadConstraints": [spread]}
    words["schedulingGates"] = [{"name": gate} for gate in gates]
    placing.cluster.create(
        pod(namespace, f"g-{number}", {GPU: 2}, annotations=gang("g", 4), **words) for number in range(4)
    )
    created = time.monotonic()
    nodes = {placing.placed(namespace, f"g-{number}", SECONDS).node for number in range(4)}
    seconds = time.monotonic() - created
    assert nodes == {"n0", "n1", "n2", "n3"}
    assert seconds < limit
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
@pytest.mark.parametrize("gates", [(), (GATE,)], ids=["plain", "gated"])
def test_no_member_starts_before_the_claim_of_another_is_bound(
    placing: Placing, namespace: str, gates: tuple[str, ...]
) -> None:
    words = {"schedulingGates": [{"name": gate} for gate in gates]}
    placing.cluster.create([member(namespace, 0, **words), member(namespace, 1, **words, volumes=[claimed(0)])])
    missing = "PersistentVolumeClaim data-0 of pod"
    wait_for(lambda: missing in placing.explain(namespace, "g-0"), SECONDS, "the gang waits for the claim")
    assert placing.entries() == []
    local_volume(placing.cluster, namespace, 0, "n2")
    found = [placing.placed(namespace, f"g-{number}", SECONDS).node for number in range(2)]
    assert found[1] == "n2"
    all_is_well(placing)


@pytest.mark.rule("001.hold", level="R")
def test_devices_are_released_if_a_volume_is_not_provisioned(placing: Placing, namespace: str) -> None:
    on_demand = {
        "metadata": {"name": namespace},
        "provisioner": "example.com/absent",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    amount = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    own = {"name": "data-0", "namespace": namespace}
    for thing in (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **on_demand},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": own,
            "spec": {**amount, "storageClassName": namespace},
        },
    ):
        placing.cluster.api.create(marked(thing))
    pods = [member(namespace, 0), member(namespace, 1, volumes=[claimed(0)])]
    for one in pods:
        one["metadata"]["annotations"][f"{GANG}/waiting-time"] = "1h"
    placing.cluster.create(pods)
    placing.placed(namespace, "g-0", SECONDS)
    assert "PersistentVolumeClaim data-0 of pod g-1 is not bound" in placing.wait_for_event(
        namespace, "g-1", "PlanExpired", SECONDS
    )
    assert not any(entry["state"] == "PLANNED" for entry in placing.entries())
    wait_for(
        lambda: "is to be provisioned for node" in placing.explain(namespace, "g-1"),
        SECONDS,
        "explain names the reason",
    )


def member(namespace: str, number: int, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - as `pod` has them
    return pod(namespace, f"g-{number}", {GPU: 8}, annotations=gang("g", 2), **spec)
