"""Volcano Jobs are completed and validated when they are written, with messages that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.store import Store
from support.embedded.volcano import JOBS, volcano_job, volcano_task


@pytest.fixture
def store() -> Store:
    return Store()


def refusal(store: Store, job: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as error:
        store.create(JOBS, job, "default")
    return error.value.message


def test_what_a_job_leaves_out_is_set(store: Store) -> None:
    task = volcano_task("", 2)
    del task["name"]
    spec = store.create(JOBS, volcano_job("job", task, volcano_task("b", 3, minAvailable=1)), "default").read()["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        "volcano",
        3,
        3,
    )
    assert [(task["name"], task["minAvailable"]) for task in spec["tasks"]] == [("default0", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (volcano_job("job", minAvailable=2), "must not be greater than the total replicas of all tasks"),
        (volcano_job("job", volcano_task("a"), volcano_task("a")), 'spec.tasks: Duplicate value: "a"'),
        (volcano_job("job", minAvailable="two"), "spec.minAvailable in body must be of type integer"),
        (
            volcano_job("job", volcano_task("a", -1)),
            "spec.tasks[0].replicas in body should be greater than or equal to 0",
        ),
        (volcano_job("job", {"name": "a", "replicas": 1}), "spec.tasks[0].template.spec.containers: Required value"),
        (volcano_job("job", {**volcano_task("a"), "template": "x"}), "spec.tasks[0].template in body must be of type"),
        (volcano_job("job", volcano_task("a", 1, {"huawei.com/Ascend910": "two"})), "quantities must match"),
        (volcano_job("job", volcano_task("a", 2, minAvailable=3)), "must not be greater than replicas (2)"),
        (volcano_job("job", volcano_task("Worker_1")), "spec.tasks[0].name in body should match"),
        (volcano_job("job" * 19, volcano_task("worker")), "the name of its pods must be no more than 63 characters"),
        (volcano_job("job", policies=[{"event": "PodFailed", "action": "Restart"}]), 'Unsupported value: "Restart"'),
        (volcano_job("job", policies=[{"event": "Fire", "action": "RestartJob"}]), 'Unsupported value: "Fire"'),
        (volcano_job("job", policies=[{"action": "RestartJob"}]), "either event or exitCode must be set"),
        (volcano_job("job", plugins=["ssh"]), "spec.plugins in body must be of type object"),
        ({"metadata": {"name": "job"}, "spec": {"tasks": []}}, "No task specified in job spec"),
        ({"metadata": {"name": "job"}, "spec": {"tasks": [5]}}, "spec.tasks[0] in body must be of type object"),
        ({"metadata": {"name": "job"}, "spec": "x"}, "spec: Required value"),
        ({"metadata": {"name": "job"}}, "spec: Required value"),
    ],
)
def test_an_invalid_job_is_refused_with_the_field(store: Store, job: dict[str, Any], message: str) -> None:
    assert message in refusal(store, job)
    assert not store.list(JOBS).items


def test_only_sizes_and_the_priority_of_a_job_can_be_changed(store: Store) -> None:
    made = store.create(JOBS, volcano_job("job", volcano_task("a", 2)), "default").read()
    task = made["spec"]["tasks"][0]
    store.patch(JOBS, "job", {"spec": {"tasks": [{**task, "replicas": 3}], "priorityClassName": "high"}}, "default")
    for patch, message in (
        ({"queue": "other"}, "job updates may not change fields other than `minAvailable`"),
        ({"tasks": [task, {**task, "name": "b"}]}, "job updates may not add or remove tasks"),
        ({"tasks": [{**task, "replicas": 1}]}, "must not be greater than replicas (1)"),
    ):
        with pytest.raises(ApiError) as error:
            store.patch(JOBS, "job", {"spec": patch}, "default")
        assert message in error.value.message
    assert store.get(JOBS, "job", "default").read()["spec"]["tasks"][0]["replicas"] == 3
