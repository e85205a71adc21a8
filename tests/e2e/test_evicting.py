"""Gangs that are stuck halfway in a real cluster: bound members that never ran are evicted, if the service may do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.service import printed, running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Placing

GPU: Final = "nvidia.com/gpu"
GANG: Final = "gang.scheduling.koordinator.sh"
WORDS: Final = {f"{GANG}/name": "pair", f"{GANG}/min-available": "2"}
QUICKLY: Final = {
    "placing": {"group": {"evict_half_bound": True, "hold": 2.0, "longest_hold": 2.0}},
    "kube": {"without": ["volumes"]},
}
"""how many seconds a gang waits; it starts though a member's volume is missing"""
LONG: Final = 60.0  # seconds; longer than a group rests that was planned in vain a few times


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    """A service that evicts, under the role that does not let it."""
    with running_service(kubernetes, "evicting", configuration=QUICKLY, without=("leader", "tenants", "evict")) as made:
        yield made


@pytest.fixture
def allowed(placing: Placing) -> Placing:
    """The same under the role that lets it."""
    placing.cluster.grant_printed("linkwise", printed("manifests", "rbac"))
    return placing


def halve(placing: Placing, namespace: str) -> Raw:
    """The second member of a pair waits for a volume that is not there; the first, of a ReplicaSet, is bound."""
    placing.nodes(*machine("a", "measured"))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    placing.create(namespace, "late", {GPU: 4}, annotations=WORDS, volumes=[volume])
    placing.refused(namespace, "late", "persistentvolumeclaim")
    template = pod(namespace, "unnamed", {GPU: 4})
    template["metadata"] = {"labels": {"app": "pair"}, "annotations": WORDS}
    del template["apiVersion"], template["kind"]
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "pair"}}, "template": template}
    about = {"name": "pair", "namespace": namespace}
    placing.cluster.api.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": about, "spec": spec})
    return wait_for(lambda: next(iter(bound(placing, namespace)), None), 20, "the first is bound")


def members(placing: Placing, namespace: str) -> list[Raw]:
    """The pods that the ReplicaSet made and that are there."""
    found = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return [one for one in found if one["metadata"]["name"] != "late" and "deletionTimestamp" not in one["metadata"]]


def bound(placing: Placing, namespace: str) -> list[Raw]:
    return [one for one in members(placing, namespace) if one["spec"].get("nodeName")]


def claim(placing: Placing, namespace: str) -> None:
    """Make the volume that the second member waits for."""
    name, amount, modes = f"data-{namespace}", {"storage": "1Gi"}, ["ReadWriteOnce"]
    about: dict[str, Any] = {"name": name, "labels": {"linkwise.dev/e2e": "true"}}
    volume = {"capacity": amount, "accessModes": modes, "hostPath": {"path": "/data"}}
    wanted = {"storageClassName": "", "volumeName": name, "accessModes": modes, "resources": {"requests": amount}}
    own = {"name": "data", "namespace": namespace}
    for kind, meta, spec in (("PersistentVolume", about, volume), ("PersistentVolumeClaim", own, wanted)):
        placing.cluster.api.create({"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec})


@pytest.mark.rule("001.gang", level="R")
def test_an_evicted_member_comes_back_and_its_gang_is_placed_as_a_whole(allowed: Placing) -> None:
    namespace = allowed.namespace()
    first = halve(allowed, namespace)["metadata"]
    assert "evicted: 1 member of its gang is bound" in allowed.wait_for_event(
        namespace, first["name"], "GangEvicted", LONG
    )
    wait_for(lambda: other(allowed, namespace, first["uid"]), LONG, "another one comes in its place")
    wait_for(lambda: allowed.metric('linkwise_effects_total{effect="evict",result="written"}'), 5, "it is counted")
    claim(allowed, namespace)
    try:
        allowed.placed(namespace, "late", LONG)
        wait_for(lambda: bound(allowed, namespace), LONG, "the other is bound too")
        all_is_well(allowed)
    finally:
        allowed.cluster.api.delete(f"/api/v1/persistentvolumes/data-{namespace}")


def other(placing: Placing, namespace: str, uid: str) -> bool:
    return any(one["metadata"]["uid"] != uid for one in members(placing, namespace))


@pytest.mark.rule("001.gang", level="R")
def test_a_member_that_has_begun_to_run_stays(allowed: Placing) -> None:
    namespace = allowed.namespace()
    first = halve(allowed, namespace)["metadata"]
    path = f"/api/v1/namespaces/{namespace}/pods/{first['name']}/status"
    running = {"name": "main", "state": {"running": {}}, "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    allowed.cluster.api.patch(path, {"status": {"containerStatuses": [running]}})
    said = allowed.wait_for_event(namespace, first["name"], "GangHalfBound", LONG)
    assert "has started, so none is evicted" in said
    assert [one["metadata"]["uid"] for one in members(allowed, namespace)] == [first["uid"]]


@pytest.mark.rule("001.gang", level="R")
def test_a_service_that_may_not_evict_says_what_it_lacks(placing: Placing) -> None:
    namespace = placing.namespace()
    first = halve(placing, namespace)["metadata"]
    lack = "grant create on pods/eviction (`linkwise manifests rbac` prints the role)"
    wait_for(lambda: lack in placing.text("/readyz"), LONG, "the service says what it lacks")
    assert [one["metadata"]["uid"] for one in members(placing, namespace)] == [first["uid"]]
