"""Gangs with constraints that only kube-scheduler knows: a planned node that it leaves out is replaced within seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
SECONDS: Final = 15.0
CLASS: Final = "kept-in-place"


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    placing.nodes(*(thing for number in range(4) for thing in machine(f"n{number}", "nvlink")))
    made = placing.namespace()
    yield made
    for number in range(2):
        placing.cluster.api.delete(f"/api/v1/persistentvolumes/{made}-{number}")


def gang(name: str, members: int) -> dict[str, str]:
    return {f"{GANG}/name": name, f"{GANG}/min-available": str(members)}


def test_members_whose_volumes_are_on_other_nodes_than_planned_start_in_seconds(
    placing: Placing, namespace: str
) -> None:
    homes = ["n3", "n2"]
    for number, node in enumerate(homes):
        volume(placing, namespace, number, node)
    pods = [member(namespace, number, volumes=[claimed(number)]) for number in range(2)]
    placing.cluster.create(pods)
    assert [placing.placed(namespace, f"g-{number}", SECONDS).node for number in range(2)] == homes
    all_is_well(placing)


def test_members_that_must_be_on_different_nodes_start_in_seconds(placing: Placing, namespace: str) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"gang": "spread"}},
    }
    words: dict[str, Any] = {"labels": {"gang": "spread"}, "topologySpreadConstraints": [spread]}
    placing.cluster.create(
        pod(namespace, f"g-{number}", {GPU: 2}, annotations=gang("g", 4), **words) for number in range(4)
    )
    nodes = {placing.placed(namespace, f"g-{number}", SECONDS).node for number in range(4)}
    assert nodes == {"n0", "n1", "n2", "n3"}
    all_is_well(placing)


def member(namespace: str, number: int, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - as `pod` has them
    return pod(namespace, f"g-{number}", {GPU: 8}, annotations=gang("g", 2), **spec)


def claimed(number: int) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}


def volume(placing: Placing, namespace: str, number: int, node: str) -> None:
    """A volume on one node, and the claim that is bound to it."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS}
    spec = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        "claimRef": {"namespace": namespace, "name": f"data-{number}"},
    }
    name = f"{namespace}-{number}"
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    own = {"name": f"data-{number}", "namespace": namespace}
    for thing in (
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": claim},
    ):
        placing.cluster.api.create(marked(thing))
