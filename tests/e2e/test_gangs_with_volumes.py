"""Gangs whose members have PersistentVolumeClaims, while the service and kube-scheduler are killed: whole or not at all."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.api_client import marked
from support.e2e.invariants import all_is_well, nothing_is_sold_twice
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import running_service
from support.e2e.volumes import claimed, local_volume
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

log: Final = logging.getLogger(__name__)

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
GATE: Final = "linkwise.dev/gang"
KILLS: Final = rounds(10, 50)
NODES: Final = 4
SIZES: Final = ((4, 4), (2, 3, 3), (2, 2, 4), (2, 2, 2, 2))
"""of the gangs of a round: eight pods with one device each, so that the node of a volume always has a device left"""
SOON: Final = 40.0
"""seconds in which gangs are whole or nothing: that of a member which kube-scheduler retries late, and of its volume"""
HOLD: Final = {"placing": {"group": {"hold": 3.0}}}
"""seconds until members that do not start are looked at"""
KINDS: Final = ("none", "bound", "late", "on demand")
"""of claims: with a volume on one node from the start or a moment later, or bound on the node that is chosen"""


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    with running_service(kubernetes, "volumes", configuration=HOLD) as made:
        yield made


@pytest.fixture
def namespace(placing: Placing) -> Iterator[str]:
    """A namespace, and a StorageClass of its name whose volumes are bound on the node that is chosen."""
    placing.nodes(*(thing for number in range(NODES) for thing in machine(f"n{number}", "nvlink")))
    made = placing.namespace()
    on_demand = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": made}, **on_demand}
    placing.cluster.api.create(marked(kind))
    yield made
    placing.cluster.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{made}")
    for volume in placing.cluster.api.list("/api/v1/persistentvolumes"):
        placing.cluster.api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def free_volume(placing: Placing, namespace: str, number: int) -> None:
    """A volume of the class on one node, that no claim has."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{number % NODES}"]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": namespace,
        "persistentVolumeReclaimPolicy": "Retain",
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
    }
    meta = {"name": f"{namespace}-free-{number}"}
    placing.cluster.api.create(marked({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}))


def claim_on_demand(placing: Placing, namespace: str, number: int) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": namespace,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": f"data-{number}", "namespace": namespace}
    placing.cluster.api.create(
        marked({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
    )


class Round:
    """Gangs of one round, with the claims of their members."""

    def __init__(self, placing: Placing, namespace: str, number: int, chance: Random) -> None:
        self._placing, self._namespace = placing, namespace
        self.pods: list[Raw] = []
        self._late: list[tuple[int, str]] = []
        for each, count in enumerate(chance.choice(SIZES)):
            gated, home = chance.random() < 0.5, f"n{chance.randrange(NODES)}"
            words = {f"{GANG}/name": f"g{number}-{each}", f"{GANG}/min-available": str(count)}
            for member in range(count):
                claim = 100 * number + 10 * each + member
                more: dict[str, Any] = {}
                if gated:
                    more["schedulingGates"] = [{"name": GATE}]
                match chance.choice(KINDS):
                    case "bound":
                        local_volume(placing.cluster, namespace, claim, home)
                        more["volumes"] = [claimed(claim)]
                    case "late":
                        self._late.append((claim, home))
                        more["volumes"] = [claimed(claim)]
                    case "on demand":
                        for node in range(NODES):
                            free_volume(placing, namespace, NODES * claim + node)
                        claim_on_demand(placing, namespace, claim)
                        more["volumes"] = [claimed(claim)]
                self.pods.append(pod(namespace, f"g{number}-{each}-{member}", {GPU: 1}, annotations=words, **more))

    def claim_the_rest(self) -> None:
        """Make the claims that members have waited for."""
        for claim, node in self._late:
            local_volume(self._placing.cluster, self._namespace, claim, node)

    def clear(self) -> None:
        """Remove all pods, claims and volumes."""
        api, path = self._placing.cluster.api, f"/api/v1/namespaces/{self._namespace}"
        api.delete(f"{path}/pods")
        wait_for(lambda: not api.list(f"{path}/pods"), 30, "the pods of the round are gone")
        api.delete(f"{path}/persistentvolumeclaims")
        wait_for(lambda: not api.list(f"{path}/persistentvolumeclaims"), 30, "the claims of the round are gone")
        for volume in api.list("/api/v1/persistentvolumes"):
            api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def partial(pods: Sequence[Raw]) -> list[str]:
    """Gangs of which some members are bound and others are not."""
    gangs: dict[str, list[bool]] = defaultdict(list)
    for found in pods:
        gangs[found["metadata"]["annotations"][f"{GANG}/name"]].append(bool(found["spec"].get("nodeName")))
    return [name for name, bound in gangs.items() if any(bound) and not all(bound)]


@pytest.mark.soak
@pytest.mark.timeout(120 + 45 * KILLS)
@pytest.mark.rule("001.gang", "001.replan", level="R")
def test_gangs_with_claims_are_whole_or_nothing_after_kills_and_all_start_once_their_claims_are_bound(
    placing: Placing, namespace: str
) -> None:
    chance, api, early, took = Random(700), placing.cluster.api, 0, []
    path = f"/api/v1/namespaces/{namespace}/pods"
    for number in range(KILLS):
        made = Round(placing, namespace, number, chance)
        placing.cluster.create(chance.sample(made.pods, len(made.pods)))
        late = chance.random() < 0.5
        if not late:
            made.claim_the_rest()
        least = chance.randint(1, 4)

        def some_bound(least: int = least) -> bool:
            return sum(bool(found["spec"].get("nodeName")) for found in api.list(path)) >= least

        with suppress(AssertionError):  # of gangs that wait for claims, none may be bound
            wait_for(some_bound, 5)
        placing.serve.process.kill()
        if chance.random() < 0.3:
            placing.cluster.scheduler.kill()
            placing.cluster.scheduler.start()
        early += bool(partial(pods := api.list(path)))
        nothing_is_sold_twice(api, pods)
        if late:
            made.claim_the_rest()
        placing.serve.restart()
        began = time.monotonic()
        wait_for(lambda: whole(placing, path), SOON, "all gangs start")
        took.append(time.monotonic() - began)
        all_is_well(placing)
        made.clear()
        placing.counted(0)
    log.info("%d kills, %d in the middle of gangs; seconds until all were whole: %s", KILLS, early, [*map(round, took)])
    assert early >= KILLS / 10, "too few kills came in the middle of a gang"


def whole(placing: Placing, path: str) -> bool:
    """Whether all pods are bound; AssertionError with what is said of those that are not."""
    pods = placing.cluster.api.list(path)
    nothing_is_sold_twice(placing.cluster.api, pods)
    waiting = [found["metadata"] for found in pods if not found["spec"].get("nodeName")]
    said = [f"{one['name']}: {placing.cluster.events(one['namespace'], one['name'])[-2:]}" for one in waiting]
    assert not waiting, f"half bound: {partial(pods)}; {said}"
    return True
