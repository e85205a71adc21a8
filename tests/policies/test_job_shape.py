from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise import Reason
from linkwise.policies.ring_profiles import Task, job_refused, ring_profile

if TYPE_CHECKING:
    from linkwise.model.settings import JobShape

PROFILE = ring_profile("ascend-910")


def refused(*tasks: tuple[int, int], shape: JobShape = "strict") -> Reason | None:
    return job_refused([Task(f"t{i}", pods, devices) for i, (pods, devices) in enumerate(tasks)], PROFILE, shape)


@pytest.mark.rule("003.one-pod", "003.count")
@pytest.mark.parametrize("tasks", [[(1, 1)], [(1, 2)], [(1, 4)], [(1, 8)], [(2, 8)], [(1, 8), (3, 8)], [(100, 8)]])
def test_the_shapes_of_the_seed_are_allowed(tasks: list[tuple[int, int]]) -> None:
    assert refused(*tasks) is None


@pytest.mark.rule("003.one-pod")
def test_up_to_eight_chips_are_one_pod() -> None:
    assert refused((2, 2)) == Reason("003.one-pod", asked=(4, 2), found=8, kind="one pod")
    assert refused((1, 4), (1, 4)) == Reason("003.one-pod", asked=(8, 2), found=8, kind="one pod")


@pytest.mark.rule("003.one-pod")
def test_more_than_eight_chips_are_eight_a_pod() -> None:
    assert refused((4, 4)) == Reason("003.one-pod", asked=4, found=8, kind="full pods", noun="t0")
    assert refused((1, 8), (2, 4)) == Reason("003.one-pod", asked=4, found=8, kind="full pods", noun="t1")


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("size", [3, 5, 6, 7, -2])
def test_a_pod_of_an_odd_count_is_refused(size: int) -> None:
    assert refused((1, size)) == Reason("003.count", asked=size, found=(1, 2, 4, 8), noun="ascend-910")


@pytest.mark.rule("003.count")
@pytest.mark.parametrize(("pods", "size"), [(1, 9), (1, 12), (3, 4), (5, 2)])
def test_a_job_that_is_not_eight_times_n_is_refused(pods: int, size: int) -> None:
    assert refused((pods, size)) == Reason("003.count", asked=pods * size, found=8, kind="multiple")


@pytest.mark.rule("003.one-pod")
def test_per_pod_allows_any_number_of_pods_and_checks_every_task() -> None:
    assert refused((3, 4), (2, 1), shape="per-pod") is None
    assert refused((3, 4), (2, 3), shape="per-pod") == Reason(
        "003.count", asked=3, found=(1, 2, 4, 8), noun="ascend-910"
    )


def test_pods_without_chips_are_ignored() -> None:
    assert refused((1, 0), (4, 8)) is None
    assert refused((5, 0)) is None
    assert refused() is None


def test_a_generation_without_a_job_rule_checks_pods_only() -> None:
    tasks = [Task("w", 3, 3)]
    assert job_refused(tasks, ring_profile("ascend-910b")) is None
    assert job_refused([Task("w", 3, 9)], ring_profile("ascend-910b")) is not None
