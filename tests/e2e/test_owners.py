"""Pods that a real Job controller creates are planned as one group, in namespaces where that is set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.invariants import all_is_well
from support.e2e.node_objects import machine
from support.e2e.processes import wait_for
from support.e2e.service import GRANT, grant, running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.api_client import Raw
    from support.e2e.cluster import Cluster
    from support.e2e.scheduler import Serve
    from support.e2e.service import Granted, Placing

GPU: Final = "nvidia.com/gpu"
SECONDS: Final = 20.0
OWNERS: Final = {"owners-group": "group", "owners-gang*": "gang"}


@pytest.fixture(scope="module")
def answering(kubernetes: Cluster) -> Iterator[Serve]:
    settings = {"placing": {"group": {"owners": OWNERS}}}
    with running_service(kubernetes, "owners", configuration=settings) as serve:
        yield serve


def named(placing: Placing, name: str) -> str:
    """A namespace of that name, as soon as the one of an earlier test is gone."""
    api, path = placing.cluster.api, f"/api/v1/namespaces/{name}"
    wait_for(lambda: not api.answers(path), 30, f"namespace {name} is gone")
    placing.cluster.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    return name


def job(namespace: str, name: str, pods: int, devices: int, mode: str = "Indexed") -> Raw:
    amounts = {GPU: str(devices)}
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": amounts, "requests": amounts}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": mode, "backoffLimit": 100, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": name}, "spec": spec}


def pods_of(placing: Placing, namespace: str) -> list[Raw]:
    return [
        pod
        for pod in placing.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        if not pod["metadata"].get("deletionTimestamp")
    ]


def uids(placing: Placing, namespace: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods_of(placing, namespace)}


def placed(placing: Placing, namespace: str, count: int) -> list[Granted]:
    """What the pods hold, once so many have a node."""

    def all_bound() -> list[Raw] | None:
        found = [pod for pod in pods_of(placing, namespace) if pod["spec"].get("nodeName")]
        return found if len(found) == count else None

    return [grant(pod) for pod in wait_for(all_bound, SECONDS, f"{count} pods of {namespace} have a node")]


def plans(found: list[Granted]) -> set[tuple[str, int] | None]:
    records = [json.loads(one.annotations[GRANT]) for one in found]
    return {(record["plan"], record["generation"]) if record.get("plan") else None for record in records}


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
def test_the_pods_of_a_job_are_planned_as_one_group(placing: Placing, mode: str) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    namespace = named(placing, "owners-group")
    made = placing.cluster.api.create(job(namespace, "train", 8, 2, mode))
    found = placed(placing, namespace, 8)
    assert plans(found) == {(f"{namespace}/train.{made['metadata']['uid']}", 1)}
    assert len({one.node for one in found}) == 2
    all_is_well(placing)


def test_the_pods_of_a_job_in_another_namespace_are_placed_one_by_one(placing: Placing) -> None:
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "measured")))
    namespace = placing.namespace()
    placing.cluster.api.create(job(namespace, "train", 8, 2))
    assert plans(placed(placing, namespace, 8)) == {None}
    all_is_well(placing)


@pytest.mark.rule("001.gang", level="R")
def test_a_job_starts_whole_or_not_at_all_where_that_is_set(placing: Placing) -> None:
    placing.nodes(*machine("a", "measured"))
    namespace = named(placing, "owners-gang")
    placing.cluster.api.create(job(namespace, "train", 4, 4))
    wait_for(lambda: len(pods_of(placing, namespace)) == 4, SECONDS, "the Job has its pods")
    first = pods_of(placing, namespace)[0]["metadata"]["name"]
    placing.wait_for_event(namespace, first, "GroupDoesNotFit")
    assert not [pod for pod in pods_of(placing, namespace) if pod["spec"].get("nodeName")]
    placing.nodes(*machine("b", "measured"))
    found = placed(placing, namespace, 4)
    assert len(plans(found)) == 1
    all_is_well(placing)


def test_a_recreated_pod_of_a_job_joins_its_siblings(placing: Placing) -> None:
    placing.nodes(*(thing for name in "ab" for thing in machine(name, "measured")))
    namespace = named(placing, "owners-gang-retry")
    placing.cluster.api.create(job(namespace, "train", 2, 2))  # the old pod has its devices until it is gone
    (node,) = {one.node for one in placed(placing, namespace, 2)}
    lost = pods_of(placing, namespace)[0]["metadata"]
    placing.cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{lost['name']}")
    wait_for(lambda: lost["uid"] not in uids(placing, namespace), SECONDS, "the pod is gone")
    assert {one.node for one in placed(placing, namespace, 2)} == {node}
    all_is_well(placing)


def test_a_suspended_job_has_no_pods_and_is_planned_when_it_goes_on(placing: Placing) -> None:
    placing.nodes(*(thing for name in "ab" for thing in machine(name, "measured")))
    namespace = named(placing, "owners-gang-suspended")
    made = job(namespace, "train", 4, 2)
    made["spec"]["suspend"] = True
    placing.cluster.api.create(made)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/train"
    wait_for(lambda: "Suspended" in str(placing.cluster.api.get(path).get("status")), SECONDS, "it is suspended")
    assert pods_of(placing, namespace) == []
    placing.cluster.api.patch(path, {"spec": {"suspend": False}})
    assert len({one.node for one in placed(placing, namespace, 4)}) == 1
    all_is_well(placing)
