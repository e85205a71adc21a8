"""Controllers of Volcano Jobs that are stopped at any point and started again lose nothing and do nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from support.embedded.volcano import JOBS, OnlyControllers, only_controllers, volcano_job, volcano_task

NAMES = ("job-w-0", "job-w-1", "job-w-2")
EVICTED = {"event": "PodEvicted", "action": "RestartJob"}
ABORT = {"event": "PodFailed", "action": "AbortJob"}


async def step(cluster: OnlyControllers, turns: int) -> None:
    """Let the controllers run for some turns of the event loop, and start others."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await cluster.restart()


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_job_whose_controllers_restart_all_the_time_gets_each_pod_once(
    cluster: OnlyControllers, turns: int
) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    for _ in range(40):
        await step(cluster, turns)
    await cluster.running(*NAMES)
    assert len(cluster.groups()) == 1
    assert "retryCount" not in cluster.job()["status"]


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_job_that_is_aborted_while_controllers_restart_is_not_restarted(
    cluster: OnlyControllers, turns: int
) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3), policies=[ABORT, EVICTED]))
    await cluster.running(*NAMES)
    cluster.set_phase("Failed", "job-w-1", code=1)
    for _ in range(40):
        await step(cluster, turns)
    await cluster.until(lambda: cluster.phase() == "Aborted", "it is aborted")
    assert set(cluster.pods()) == {"job-w-1"}
    assert "retryCount" not in cluster.job()["status"]


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_restart_of_the_job_counts_once_while_controllers_restart(cluster: OnlyControllers, turns: int) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    await cluster.running(*NAMES)
    before = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    cluster.store.delete("pods", "job-w-1", "default")
    for _ in range(40):
        await step(cluster, turns)
    await cluster.until(lambda: len(cluster.pods()) == 3, "its pods exist")
    await cluster.running(*NAMES)
    assert not before & {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    assert (cluster.job()["status"]["retryCount"], cluster.job()["status"]["version"]) == (1, 1)


@only_controllers
async def test_a_pod_that_is_evicted_while_no_controller_runs_restarts_the_job(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    await cluster.running(*NAMES)
    await cluster.until(lambda: cluster.job()["status"].get("running") == 3, "all are counted")
    await cluster.stop()
    cluster.store.delete("pods", "job-w-1", "default")
    cluster.start()
    await cluster.until(lambda: cluster.job()["status"].get("retryCount") == 1, "it is restarted")
    await cluster.running(*NAMES)


@only_controllers
async def test_what_a_job_deleted_while_no_controller_runs_left_is_removed(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3)))
    await cluster.running(*NAMES)
    await cluster.stop()
    cluster.store.delete(JOBS, "job", "default")
    cluster.create(volcano_job("job", volcano_task("w", 3)))
    cluster.start()
    await cluster.until(
        lambda: {_owner(cluster, name) for name in cluster.pods()} == {cluster.job()["metadata"]["uid"]}, "all are new"
    )
    await cluster.running(*NAMES)
    assert len(cluster.groups()) == 1


def _owner(cluster: OnlyControllers, name: str) -> str:
    return str(cluster.pods()[name]["metadata"]["ownerReferences"][0]["uid"])


@only_controllers
async def test_a_finished_job_stays_finished_after_a_restart(cluster: OnlyControllers) -> None:
    cluster.create(volcano_job("job", volcano_task("w", 3)))
    await cluster.running(*NAMES)
    cluster.set_phase("Succeeded", *NAMES)
    await cluster.until(lambda: cluster.phase() == "Completed", "it is completed")
    for name in NAMES:
        cluster.store.delete("pods", name, "default")
    await step(cluster, 20)
    await step(cluster, 20)
    assert cluster.phase() == "Completed"
    assert not cluster.pods()
