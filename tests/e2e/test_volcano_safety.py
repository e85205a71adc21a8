"""No device twice and none lost with a real Volcano, in both modes: sessions, gangs, restarts, two schedulers."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.machines import profile
from support.e2e.api_client import ApiError
from support.e2e.brute_force_picks import NEAR, by_bottleneck
from support.e2e.invariants import nothing_is_sold_twice
from support.e2e.node_objects import KINDS as MACHINES, ascend, device_ids, machine
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.volcano_objects import pod_names, volcano_job, volcano_pod
from support.e2e.volcano_placing import chips

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.config.volcano import Mode
    from support.e2e.api_client import Raw
    from support.e2e.volcano_placing import VolcanoPlacing

NPU, GPU = "huawei.com/Ascend910", "nvidia.com/gpu"
VOLCANO = {"controller-manager", "scheduler"}
"""names by which Volcano's programs appear in managedFields"""


@pytest.fixture(scope="module", params=["extender", "gated"])
def volcano_mode(request: pytest.FixtureRequest) -> Mode:
    """Every claim of this file holds in both modes."""
    mode: Mode = request.param
    return mode


def nodes(volcano: VolcanoPlacing, count: int) -> str:
    """So many empty Ascend nodes; a new namespace."""
    volcano.nodes(*(thing for number in range(count) for thing in ascend(f"a{number}")))
    return volcano.namespace()


def two_of_three(volcano: VolcanoPlacing) -> str:
    """Two empty nodes and one with a chip in use: by count a Job of three times eight chips fits; a new namespace."""
    nodes(volcano, 3)
    return volcano.idle({"a0": set(range(8)), "a1": set(range(8)), "a2": set(range(7))})


def all_placed(volcano: VolcanoPlacing, namespace: str, count: int, seconds: float = 60.0) -> list[Raw]:
    """The pods of a namespace as soon as so many are bound; no device is twice at any moment on the way."""
    api, path = volcano.cluster.api, f"/api/v1/namespaces/{namespace}/pods"

    def placed() -> list[Raw] | None:
        found = api.list(path)
        nothing_is_sold_twice(api, found)
        bound = [one for one in found if one["spec"].get("nodeName")]
        assert len(bound) >= count, f"{len(bound)} of {count} are bound"
        return bound

    return wait_for(placed, seconds, f"{count} pods of {namespace} are bound")


def burst(namespace: str, count: int, seed: int, budget: int) -> list[Raw]:
    """Jobs of one pod each with 1, 2 or 4 chips, at most so many chips in total."""
    chance, left = Random(seed), budget
    made: list[Raw] = []
    for number in range(count):
        size = min(chance.choice([1, 1, 2, 4]), max(1, left - (count - number)))
        size = 2 if size == 3 else size
        left -= size
        made.append(volcano_job(namespace, f"j{number}", {NPU: size}))
    return made


@pytest.mark.rule("003.in-session", "003.allocate", level="R")
def test_jobs_of_one_session_never_get_one_chip(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 1)
    volcano.volcano.kill()  # all of them wait for its first session
    jobs = [volcano_job(namespace, f"j{number}", {NPU: 1}) for number in range(8)]
    volcano.submit(*jobs)
    volcano.seen_groups(namespace, 8)
    volcano.volcano.start()
    given = [chip for job in jobs for granted in volcano.ran(job, 30) for chip in chips(granted)]
    assert sorted(given) == list(range(8))
    volcano.settled()


@pytest.mark.rule("003.between", level="R")
def test_chips_of_a_leaving_pod_are_not_given_before_it_is_gone(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 1)
    leaving = volcano_pod(namespace, "leaving", {NPU: 8}, terminationGracePeriodSeconds=300)
    volcano.submit(leaving)
    volcano.placed(namespace, "leaving")
    job = volcano_job(namespace, "next", {NPU: 4})
    volcano.submit(job)
    path = f"/api/v1/namespaces/{namespace}/pods/leaving"
    volcano.cluster.api.call("DELETE", f"{path}?gracePeriodSeconds=300")
    volcano.volcano.pass_sessions(5)
    waiting = volcano.find(namespace, *pod_names(job))
    assert waiting is None or not waiting["spec"].get("nodeName")
    volcano.cluster.api.delete(path)
    (granted,) = volcano.ran(job)
    assert len(chips(granted)) == 4
    volcano.settled()


@pytest.mark.rule("003.allocate", level="R")
def test_a_gang_that_fits_in_part_leaves_its_chips_to_another_job(volcano: VolcanoPlacing) -> None:
    namespace = two_of_three(volcano)
    volcano.volcano.queue("second")
    gang = volcano_job(namespace, "gang", {NPU: 8}, 3)
    volcano.submit(gang)
    wait_for(lambda: all(volcano.find(namespace, name) for name in pod_names(gang)), 20, "the pods are there")
    volcano.volcano.pass_sessions(5)
    (granted,) = volcano.run(volcano_job(namespace, "other", {NPU: 8}, queue="second"), 30)
    assert granted.node in {"a0", "a1"}


@pytest.mark.rule("003.allocate", level="R")
def test_chips_of_a_gang_that_volcano_discards_go_to_another_job(volcano: VolcanoPlacing) -> None:
    nodes(volcano, 3)
    namespace = volcano.namespace()
    busy = pod(namespace, "busy", {"cpu": 60}, nodeName="a2")
    volcano.cluster.create([busy])
    volcano.seen_pods(namespace, 1)
    volcano.volcano.queue("second")
    gang = volcano_job(namespace, "gang", {NPU: 8, "cpu": 30}, 3)
    volcano.submit(gang)
    wait_for(lambda: all(volcano.find(namespace, name) for name in pod_names(gang)), 20, "the pods are there")
    volcano.volcano.pass_sessions(5)
    (granted,) = volcano.run(volcano_job(namespace, "other", {NPU: 8}, queue="second"), 60)
    assert len(chips(granted)) == 8
    assert not any(volcano.cluster.pod(namespace, name)["spec"].get("nodeName") for name in pod_names(gang))


@pytest.mark.rule("003.allocate", level="R")
def test_a_gang_that_does_not_fit_causes_no_pod_write_but_one_condition(volcano: VolcanoPlacing) -> None:
    namespace = two_of_three(volcano)
    gang = volcano_job(namespace, "gang", {NPU: 8}, 3)
    volcano.submit(gang)
    names = pod_names(gang)
    wait_for(lambda: all(volcano.find(namespace, name) for name in names), 20, "the pods are there")
    volcano.volcano.pass_sessions(60, 60)  # as many as in a minute of Volcano's default period
    before = [volcano.cluster.pod(namespace, name) for name in names]
    volcano.volcano.pass_sessions(20, 60)
    for found, then in zip([volcano.cluster.pod(namespace, name) for name in names], before, strict=True):
        assert not found["spec"].get("nodeName")
        assert NPU not in found["metadata"].get("annotations", {})
        writers = {entry["manager"] for entry in found["metadata"]["managedFields"] if "subresource" not in entry}
        assert writers <= VOLCANO, writers
        assert conditions_of_ours(found) == conditions_of_ours(then)


def conditions_of_ours(found: Raw) -> list[str]:
    """When we wrote to the status of a pod: the condition that says why it waits, and no more."""
    return [entry["time"] for entry in found["metadata"]["managedFields"] if entry["manager"] == "linkwise"]


@pytest.mark.rule("003.in-session", "003.allocate", level="R")
def test_fifty_jobs_at_once_are_all_placed_and_no_chip_is_given_twice(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 16)
    volcano.submit(*burst(namespace, 50, 50, 128))
    all_placed(volcano, namespace, 50)
    volcano.settled()


@pytest.mark.rule("003.in-session", level="R")
def test_two_schedulers_at_once_never_give_one_chip_twice(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 8)
    things = burst(namespace, 20, 7, 32) + [pod(namespace, f"k{number}", {NPU: 1}) for number in range(20)]
    volcano.cluster.create(Random(3).sample(things, len(things)))
    all_placed(volcano, namespace, 40)
    schedulers = {found["spec"]["schedulerName"] for found in volcano.settled()}
    assert len(schedulers) == 2
    assert "volcano" in schedulers


@pytest.mark.rule("003.allocate", "003.in-session", level="R")
@pytest.mark.parametrize("victim", ["service", "volcano"])
def test_a_killed_program_loses_no_chip_and_gives_none_twice(volcano: VolcanoPlacing, victim: str) -> None:
    namespace = nodes(volcano, 8)
    restart: Callable[[], None] = {"service": volcano.serve.restart, "volcano": volcano.volcano.restart}[victim]
    jobs = burst(namespace, 24, 24, 64)
    volcano.submit(*jobs[:12])
    all_placed(volcano, namespace, 3)
    restart()
    volcano.submit(*jobs[12:])
    all_placed(volcano, namespace, 8)
    restart()
    all_placed(volcano, namespace, 24)
    volcano.settled()


@pytest.mark.rule("001.gang", "001.bottleneck", "001.fewest-nodes", level="R")
def test_members_of_a_gpu_job_share_a_machine_and_each_has_the_widest_bottleneck(volcano: VolcanoPlacing) -> None:
    measured = profile(MACHINES["measured"])
    volcano.nodes(*machine("g0", "measured"), *machine("g1", "measured"))
    namespace = volcano.namespace()
    granted = volcano.run(volcano_job(namespace, "train", {GPU: 4}, 3))
    assert sorted(Counter(found.node for found in granted).values()) == [1, 2]
    widest, _ = by_bottleneck(measured, 4, range(8))
    for found in granted:
        chosen = found.positions(device_ids(found.node, measured))
        assert by_bottleneck(measured, 4, chosen)[0] >= NEAR * widest
    volcano.settled()


@pytest.mark.rule("003.in-session", level="R")
def test_backfilled_pods_beside_jobs_take_no_chip_and_keep_none_from_a_job(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 6)
    plain = [volcano_pod(namespace, f"b{number}", {}) for number in range(20)]
    things = [*burst(namespace, 12, 11, 24), volcano_job(namespace, "whole", {NPU: 8}), *plain]
    volcano.cluster.create(Random(11).sample(things, len(things)))
    bound = all_placed(volcano, namespace, 33)
    backfilled = [found for found in bound if found["metadata"]["name"].startswith("b")]
    assert len(backfilled) == 20
    assert {found["status"]["qosClass"] for found in backfilled} == {"BestEffort"}
    assert not any(NPU in found["metadata"].get("annotations", {}) for found in backfilled)
    volcano.settled()


@pytest.mark.rule("003.allocate", level="R")
def test_a_job_beyond_the_capability_of_its_queue_holds_no_chips(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 2)
    volcano.volcano.queue("small", {"cpu": "64", "memory": "64Gi", NPU: 4})
    large = volcano_job(namespace, "large", {NPU: 8}, queue="small")
    volcano.submit(large)
    volcano.volcano.pass_sessions(5)
    found = volcano.find(namespace, *pod_names(large))
    assert found is None or not found["spec"].get("nodeName")
    assert not volcano.entries()
    granted = volcano.run(volcano_job(namespace, "other", {NPU: 8}, 2))
    assert sorted(each.node for each in granted) == ["a0", "a1"]


@pytest.mark.rule("003.allocate", level="R")
def test_a_pod_that_is_deleted_while_it_waits_leaves_no_chips_behind(volcano: VolcanoPlacing) -> None:
    namespace = nodes(volcano, 1)
    jobs = [volcano_job(namespace, f"j{number}", {NPU: 4}) for number in range(6)]
    volcano.submit(*jobs)
    all_placed(volcano, namespace, 2)
    for job in jobs:
        with suppress(ApiError):
            volcano.end(job)
    wait_for(lambda: not volcano.entries(), 20, "nothing is held")
    (granted,) = volcano.run(volcano_job(namespace, "last", {NPU: 8}))
    assert len(chips(granted)) == 8
