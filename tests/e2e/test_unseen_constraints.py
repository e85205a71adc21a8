"""Gangs with constraints that only kube-scheduler knows: a planned node that it leaves out is replaced within seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.volumes import claimed, local_volume

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
SECONDS: Final = 15.0


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
        local_volume(placing.cluster, namespace, number, node)
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
