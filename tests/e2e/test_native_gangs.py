"""Native PodGroups under a kube-scheduler that starts gangs itself: it tries all members, then binds all or none.

The gates are alpha in the Kubernetes of these tests and off, so that they have a cluster of their own, with PodGroups of
scheduling.k8s.io/v1alpha2, whose minCount can't be changed. Later versions, and changes of minCount, are tested from
objects alone, in tests/broker/groups/test_native_groups.py.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.own_cluster import OwnCluster
from support.e2e.processes import wait_for
from support.e2e.service import GRANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.service import Granted, Placing

GPU: Final = "nvidia.com/gpu"
RACK: Final = "example.com/rack"
GATES: Final = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
API: Final = "scheduling.k8s.io/v1alpha2"


@pytest.fixture(scope="module")
def kubernetes(programs: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """A cluster with the gates on, in place of the one that other files share."""
    if os.environ.get("LINKWISE_E2E_KUBECONFIG"):
        pytest.skip("this needs a cluster of our own: leave out KUBECONFIG")
    flags = (f"--feature-gates={GATES}", f"--runtime-config={API}=true")
    folder = tmp_path_factory.mktemp("native")
    made = OwnCluster(programs, folder, *flags, scheduler_flags=(f"--feature-gates={GATES}",))
    try:
        made.start()
        made.install(root / "deploy/crds/deviceinventories.linkwise.dev.yaml")
        yield made
    finally:
        made.close()


@pytest.fixture
def namespace(placing: Placing) -> str:
    return placing.namespace()


def pod_group(namespace: str, name: str, minimum: int, level: str = "") -> Raw:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    return {"apiVersion": API, "kind": "PodGroup", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def create(placing: Placing, namespace: str, name: str, members: int, devices: int) -> None:
    for number in range(members):
        placing.create(namespace, f"{name}-{number}", {GPU: devices}, schedulingGroup={"podGroupName": name})


def placed(placing: Placing, namespace: str, name: str, members: int) -> list[Granted]:
    return [placing.placed(namespace, f"{name}-{number}") for number in range(members)]


def nodes_of(placing: Placing, namespace: str) -> list[str]:
    pods = placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]


def generations(found: list[Granted]) -> set[tuple[str, int]]:
    records = [json.loads(one.annotations[GRANT]) for one in found]
    return {(record["plan"], record["generation"]) for record in records}


def racks(*names: str, kind: str = "measured") -> list[Raw]:
    """Two machines in each rack."""
    return [thing for rack in names for end in "ab" for thing in machine(f"{rack}{end}", kind, labels={RACK: rack})]


@pytest.mark.rule("001.gang", "001.siblings", level="R")
def test_a_native_gang_starts_whole_with_the_devices_of_one_plan(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    placing.cluster.api.create(pod_group(namespace, "train", 4))
    create(placing, namespace, "train", 4, 4)
    found = placed(placing, namespace, "train", 4)
    assert len({one.node for one in found}) == 2
    assert len(generations(found)) == 1
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
def test_a_native_gang_that_does_not_fit_starts_none_until_there_is_room(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    placing.cluster.api.create(pod_group(namespace, "train", 2))
    create(placing, namespace, "train", 2, 8)
    placing.refused(namespace, "train-0", "the gang")
    assert nodes_of(placing, namespace) == []
    assert placing.entries() == [], "nothing is reserved"
    placing.nodes(*machine("b", "measured"))
    assert {one.node for one in placed(placing, namespace, "train", 2)} == {"a", "b"}
    all_is_well(placing)


def test_a_native_gang_with_a_topology_constraint_starts_in_one_domain(placing: Placing, namespace: str) -> None:
    placing.nodes(*racks("r1", "r2", "r3", "r4"))
    placing.place(namespace, "single", {GPU: 1}, nodeSelector={"kubernetes.io/hostname": "r1a"})
    placing.cluster.api.create(pod_group(namespace, "train", 4, RACK))
    create(placing, namespace, "train", 4, 4)
    found = placed(placing, namespace, "train", 4)
    assert len({one.node[:2] for one in found}) == 1
    assert len(generations(found)) == 1, "candidate domains do not make new plans"
    all_is_well(placing)


def test_two_native_gangs_that_fit_one_domain_each_both_start(placing: Placing, namespace: str) -> None:
    placing.nodes(*racks("r1", "r2"))
    for name in ("first", "second"):
        placing.cluster.api.create(pod_group(namespace, name, 4, RACK))
    for name in ("first", "second"):
        create(placing, namespace, name, 4, 4)
    homes = [{one.node[:2] for one in placed(placing, namespace, name, 4)} for name in ("first", "second")]
    assert sorted(homes, key=sorted) == [{"r1"}, {"r2"}]
    all_is_well(placing)


def test_a_domain_that_only_kube_scheduler_rules_out_is_not_planned_for_ever(placing: Placing, namespace: str) -> None:
    placing.nodes(*racks("r1", "r2", "r3"))
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
    for node in ("r1a", "r1b"):
        placing.place(
            namespace, f"near-{node}", labels={"app": "spread"}, nodeSelector={"kubernetes.io/hostname": node}
        )
    placing.cluster.api.create(pod_group(namespace, "train", 2, RACK))
    for number in range(2):
        placing.create(
            namespace,
            f"train-{number}",
            {GPU: 8},
            labels={"app": "spread"},
            schedulingGroup={"podGroupName": "train"},
            topologySpreadConstraints=spread,
        )
    homes = {one.node[:2] for one in placed(placing, namespace, "train", 2)}
    assert len(homes) == 1
    assert homes != {"r1"}
    all_is_well(placing)


def test_members_above_the_minimum_start_as_far_as_they_fit(placing: Placing, namespace: str) -> None:
    placing.nodes(*machine("a", "measured"))
    placing.cluster.api.create(pod_group(namespace, "train", 1))
    create(placing, namespace, "train", 3, 4)
    wait_for(lambda: len(nodes_of(placing, namespace)) == 2, 15, "two of three members fit")
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
def test_a_native_gang_waits_until_its_minimum_of_members_exists(placing: Placing, namespace: str) -> None:
    placing.nodes(*(thing for name in "ab" for thing in machine(name, "measured")))
    placing.cluster.api.create(pod_group(namespace, "train", 3))
    create(placing, namespace, "train", 2, 4)
    placing.seen_pods(namespace, 2)
    assert nodes_of(placing, namespace) == []
    placing.create(namespace, "train-2", {GPU: 4}, schedulingGroup={"podGroupName": "train"})
    found = placed(placing, namespace, "train", 3)
    assert len(generations(found)) == 1
    all_is_well(placing)
