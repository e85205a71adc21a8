"""Volcano Jobs on the embedded cluster: chips by seed 003's rules, with and without the webhook, and through failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from support.e2e.node_objects import ascend
from support.embedded.cluster import ClusterUnderTest, embedded
from support.embedded.local import Trial, trial
from support.embedded.volcano import GROUPS, JOBS, NPU, volcano_job, volcano_task

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

LONG: Final = {"sim.linkwise.dev/seconds": "3600"}
SHAPES: Final = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8))
"""pods and chips of each"""


def training(name: str, pods: int, chips: int, **more: object) -> Raw:
    task = volcano_task("w", pods, {NPU: chips}, annotations=LONG)
    return volcano_job(name, task, plugins={"env": [], "svc": [], "ssh": []}, **more)


def running(cluster: ClusterUnderTest, name: str) -> bool:
    status = cluster.store.get(JOBS, name, "default").read().get("status") or {}
    return (status.get("state") or {}).get("phase") == "Running"


@embedded()
async def test_fifty_jobs_at_once_all_run_and_share_no_chip(cluster: ClusterUnderTest) -> None:
    for number in range(39):
        await cluster.nodes(*ascend(f"n{number:02}"))
    for number in range(50):
        cluster.store.create(JOBS, training(f"job-{number}", *SHAPES[number % len(SHAPES)]), "default")
    await cluster.until(lambda: all(running(cluster, f"job-{number}") for number in range(50)), "all run")
    assert len(cluster.bound()) == 60
    await cluster.well()


@embedded()
async def test_a_job_that_does_not_fit_starts_no_pod_until_it_does(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    await cluster.place("other", {NPU: 1})
    cluster.store.create(JOBS, training("job", 2, 8), "default")
    await cluster.refused("job-w-1")
    assert cluster.bound() == {"other"}
    await cluster.gone("other")
    await cluster.until(lambda: running(cluster, "job"), "it runs")
    await cluster.well()


@pytest.mark.parametrize("pods", [1, 2])
@embedded()
async def test_a_job_deleted_while_its_pods_start_gives_its_chips_back(cluster: ClusterUnderTest, pods: int) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    for number in range(5):
        cluster.store.create(JOBS, training("job", pods, 8), "default")
        await cluster.until(lambda: len(cluster.bound()) >= number % (pods + 1), "some are bound")  # noqa: B023 - awaited at once
        cluster.store.delete(JOBS, "job", "default")
        await cluster.until(lambda: not cluster.pods(), "its pods are gone")
    await cluster.counted(0)
    assert not cluster.store.list(GROUPS).items
    await cluster.place("all", {NPU: 8})
    await cluster.well()


@embedded()
async def test_jobs_go_on_when_the_service_restarts_in_the_middle(cluster: ClusterUnderTest) -> None:
    for name in "abcde":
        await cluster.nodes(*ascend(name))
    for number in range(5):
        cluster.store.create(JOBS, training(f"job-{number}", *SHAPES[number]), "default")
        await cluster.until(lambda: len(cluster.bound()) > number, "another one is bound")  # noqa: B023 - awaited at once
        await cluster.service.kill()
        await cluster.service.start(cluster.embedded.api.kubeconfig())
    await cluster.until(lambda: all(running(cluster, f"job-{number}") for number in range(5)), "all run")
    await cluster.well()


@embedded()
async def test_a_job_whose_node_fails_is_restarted_on_others(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*ascend("a"), *ascend("b"))
    evicted = [{"event": "PodEvicted", "action": "RestartJob"}]
    cluster.store.create(JOBS, training("job", 2, 8, policies=evicted), "default")
    await cluster.until(lambda: running(cluster, "job"), "it runs")
    await cluster.nodes(*ascend("c"))
    cluster.embedded.nodes.remove("a")
    await cluster.until(
        lambda: {pod["spec"].get("nodeName") for pod in cluster.pods()} == {"b", "c"} and running(cluster, "job"),
        "it runs again",
    )
    assert cluster.store.get(JOBS, "job", "default").read()["status"]["retryCount"] == 1


@pytest.mark.rule("003.valid-job")
@trial(atlas_800=1)
async def test_a_job_with_three_chips_is_refused_when_it_is_created(cluster: Trial) -> None:
    message = await cluster.refused(JOBS, training("odd", 1, 3))
    assert "3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8" in message
    assert not cluster.store.list(JOBS).items


@pytest.mark.rule("003.valid-job")
@trial(atlas_800=2)
async def test_a_job_of_sixteen_chips_starts_whole_on_two_nodes(cluster: Trial) -> None:
    await cluster.create(JOBS, training("large", 2, 8))
    pods = [await cluster.running(f"large-w-{number}") for number in range(2)]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"atlas-800-0", "atlas-800-1"}
    assert all(len(pod["metadata"]["annotations"][NPU].split(",")) == 8 for pod in pods)
    assert all("schedulingGates" not in pod["spec"] for pod in pods)


@pytest.mark.rule("003.groups")
@trial(atlas_800=2)
async def test_jobs_of_one_pod_fill_rings_and_nodes_as_single_pods_do(cluster: Trial) -> None:
    chips = {}
    for number, count in enumerate((1, 1, 2, 2, 2, 4)):
        await cluster.create(JOBS, training(f"job-{number}", 1, count))
        pod = await cluster.running(f"job-{number}-w-0")
        chips[number] = (pod["spec"]["nodeName"], pod["metadata"]["annotations"][NPU].replace("Ascend910-", ""))
    first, second = "atlas-800-0", "atlas-800-1"
    assert list(chips.values()) == [
        (first, "0"),
        (first, "1"),
        (first, "2,3"),
        (first, "4,5"),
        (first, "6,7"),
        (second, "0,1,2,3"),
    ]


@trial(atlas_800=1)
async def test_a_single_pod_of_volcanos_scheduler_waits_for_its_pod_group_and_runs(cluster: Trial) -> None:
    container = {"name": "main", "image": "example.com/none", "resources": {"limits": {NPU: 2}}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    made = await cluster.create("pods", {"metadata": {"name": "alone"}, "spec": spec})
    assert made["spec"]["schedulingGates"] == [{"name": "linkwise.dev/gang"}]
    pod = await cluster.running("alone")
    group = cluster.store.get(GROUPS, f"podgroup-{made['metadata']['uid']}", "default").read()
    assert group["spec"]["minMember"] == 1
    assert pod["metadata"]["annotations"][NPU] == "Ascend910-0,Ascend910-1"
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["atlas-800-0"]}]}
