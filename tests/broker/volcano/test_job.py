"""Jobs that Volcano is about to enqueue: invalid shapes are refused before their pods exist."""

from __future__ import annotations

from typing import Final

import pytest

from linkwise.broker.volcano.callbacks import Job
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import ASCEND, NVIDIA, FakeNode, broker_of
from support.builders.volcano import volcano_pod

RING: Final = FakeNode("n", "ring", 8)


def job(total: int | str, resource: str = ASCEND, **members: int) -> Job:
    """A job of which only the PodGroup is there."""
    return Job("default", "j", (), {resource: str(total), f"requests.{resource}": str(total), "cpu": "2"}, members)


@pytest.mark.parametrize(("total", "pods"), [(1, 1), (2, 1), (4, 1), (8, 1), (16, 2), (24, 3)])
@pytest.mark.rule("003.valid-job")
def test_the_sums_of_valid_jobs_are_accepted(total: int, pods: int) -> None:
    broker = broker_of(RING)
    assert broker.invalid_job(job(total, w=pods), 0.0) == ""
    assert broker.invalid_job(job(total), 0.0) == ""
    assert broker.invalid_job(job(total, master=1, w=pods), 0.0) == ""


@pytest.mark.parametrize("total", [3, 5, 6, 7, 9, 12, 20])
@pytest.mark.rule("003.valid-job")
def test_a_sum_that_no_job_can_have_is_refused_before_its_pods_exist(total: int) -> None:
    broker = broker_of(RING)
    assert str(total) in broker.invalid_job(job(total), 0.0)
    assert str(total) in broker.invalid_job(job(total, master=1, w=1), 0.0)


@pytest.mark.rule("003.valid-job")
def test_a_sum_is_refused_while_no_node_is_known() -> None:
    assert "3" in broker_of().invalid_job(job(3, w=1), 0.0)


@pytest.mark.rule("003.valid-job")
def test_pods_of_one_task_are_equal_so_their_shape_is_known() -> None:
    broker = broker_of(RING)
    assert "one pod" in broker.invalid_job(job(8, w=2), 0.0)
    assert broker.invalid_job(job(16, w=4), 0.0)
    per_pod = broker_of(RING, settings=PlacingSettings(job_shape="per-pod"))
    assert per_pod.invalid_job(job(16, w=4), 0.0) == ""
    assert per_pod.invalid_job(job(9, w=3), 0.0)


@pytest.mark.rule("003.valid-job")
def test_pods_that_exist_are_judged_one_by_one() -> None:
    broker = broker_of(RING)
    master, worker = volcano_pod("m", 0, "g", task="master"), volcano_pod("w", 8, "g")
    assert broker.invalid_job(Job("default", "j", (("master", master), ("w", worker))), 0.0) == ""
    three = volcano_pod("x", 3, "g")
    assert "3" in broker.invalid_job(Job("default", "j", (("master", master), ("w", three))), 0.0)
    two = tuple(("w", volcano_pod(name, 2, "g")) for name in "ab")
    assert "one pod" in broker.invalid_job(Job("default", "j", two), 0.0)


@pytest.mark.parametrize("text", ["", "many", "-3", "1.5", "3Gi!"])
def test_amounts_that_are_not_numbers_are_left_to_others(text: str) -> None:
    assert broker_of(RING).invalid_job(job(text), 0.0) == ""


def test_other_devices_have_no_such_rules() -> None:
    broker = broker_of(FakeNode("g", count=8))
    assert [broker.invalid_job(job(total, NVIDIA, w=1), 0.0) for total in (3, 7, 8)] == [""] * 3


def test_a_job_without_sums_is_left_to_its_queue() -> None:
    assert broker_of(RING).invalid_job(Job("default", "j"), 0.0) == ""
