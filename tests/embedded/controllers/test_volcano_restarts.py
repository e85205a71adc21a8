"""Controllers of Volcano Jobs that are stopped at any point and started again lose nothing and do nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from support.embedded.volcano import JOBS, OnlyControllers, only_controllers, volcano_job, volcano_task

NAMES = ("job-w-0", "job-w-1", "job-w-2")
EVICTED = {"event": "PodEvicted", "action": "RestartJob"}
ABORT = {"event": "PodFailed", "action": "AbortJob"}


async def step(bed: OnlyControllers, turns: int) -> None:
    """Let the controllers run for some turns of the event loop, and start others."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await bed.restart()


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_job_whose_controllers_restart_all_the_time_gets_each_pod_once(
    bed: OnlyControllers, turns: int
) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    for _ in range(40):
        await step(bed, turns)
    await bed.running(*NAMES)
    assert len(bed.groups()) == 1
    assert "retryCount" not in bed.job()["status"]


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_job_that_is_aborted_while_controllers_restart_is_not_restarted(
    bed: OnlyControllers, turns: int
) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3), policies=[ABORT, EVICTED]))
    await bed.running(*NAMES)
    bed.set_phase("Failed", "job-w-1", code=1)
    for _ in range(40):
        await step(bed, turns)
    await bed.until(lambda: bed.phase() == "Aborted", "it is aborted")
    assert set(bed.pods()) == {"job-w-1"}
    assert "retryCount" not in bed.job()["status"]


@pytest.mark.parametrize("turns", [1, 3, 5, 8, 13, 21])
@only_controllers
async def test_a_restart_of_the_job_counts_once_while_controllers_restart(bed: OnlyControllers, turns: int) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    await bed.running(*NAMES)
    before = {pod["metadata"]["uid"] for pod in bed.pods().values()}
    bed.store.delete("pods", "job-w-1", "default")
    for _ in range(40):
        await step(bed, turns)
    await bed.until(lambda: len(bed.pods()) == 3, "its pods exist")
    await bed.running(*NAMES)
    assert not before & {pod["metadata"]["uid"] for pod in bed.pods().values()}
    assert (bed.job()["status"]["retryCount"], bed.job()["status"]["version"]) == (1, 1)


@only_controllers
async def test_a_pod_that_is_evicted_while_no_controller_runs_restarts_the_job(bed: OnlyControllers) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3), policies=[EVICTED]))
    await bed.running(*NAMES)
    await bed.until(lambda: bed.job()["status"].get("running") == 3, "all are counted")
    await bed.stop()
    bed.store.delete("pods", "job-w-1", "default")
    bed.start()
    await bed.until(lambda: bed.job()["status"].get("retryCount") == 1, "it is restarted")
    await bed.running(*NAMES)


@only_controllers
async def test_what_a_job_deleted_while_no_controller_runs_left_is_removed(bed: OnlyControllers) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3)))
    await bed.running(*NAMES)
    await bed.stop()
    bed.store.delete(JOBS, "job", "default")
    bed.create(volcano_job("job", volcano_task("w", 3)))
    bed.start()
    await bed.until(lambda: {_owner(bed, name) for name in bed.pods()} == {bed.job()["metadata"]["uid"]}, "all are new")
    await bed.running(*NAMES)
    assert len(bed.groups()) == 1


def _owner(bed: OnlyControllers, name: str) -> str:
    return str(bed.pods()[name]["metadata"]["ownerReferences"][0]["uid"])


@only_controllers
async def test_a_finished_job_stays_finished_after_a_restart(bed: OnlyControllers) -> None:
    bed.create(volcano_job("job", volcano_task("w", 3)))
    await bed.running(*NAMES)
    bed.set_phase("Succeeded", *NAMES)
    await bed.until(lambda: bed.phase() == "Completed", "it is completed")
    for name in NAMES:
        bed.store.delete("pods", name, "default")
    await step(bed, 20)
    await step(bed, 20)
    assert bed.phase() == "Completed"
    assert not bed.pods()
