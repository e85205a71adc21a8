"""Volcano Jobs on Ascend 910 nodes, placed by a real Volcano with seed 003's own file in extender-only mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.invariants import chips_are_single
from support.e2e.processes import wait_for
from support.e2e.ring_table import GROUPS, STATES, elsewhere, idle, make, rank
from support.e2e.volcano_objects import pod_names, volcano_job
from support.e2e.volcano_placing import chips, seed_conf

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Granted
    from support.e2e.volcano_placing import VolcanoPlacing

NPU = "huawei.com/Ascend910"


def one(volcano: VolcanoPlacing, namespace: str, name: str, size: int, **spec: Any) -> Granted:  # noqa: ANN401 - as `volcano_job` has them
    """What the only pod of a Job was given."""
    (granted,) = volcano.run(volcano_job(namespace, name, {NPU: size}, **spec))
    return granted


@pytest.mark.rule("003.one", "003.two", "003.four", "003.eight", "003.groups", level="R")
@pytest.mark.rule("003.full", "003.ring", "003.order", "003.record", level="R")
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_jobs_take_nodes_in_the_order_of_the_table(volcano: VolcanoPlacing, size: int) -> None:
    states = {name: state for name, state in STATES.items() if rank(state, size) is not None}
    namespace = make(volcano, {name: idle(*state) for name, state in states.items()})
    taken: list[str] = []
    for number in range(len(states)):
        granted = one(volcano, namespace, f"j{number}", size, **elsewhere(taken))
        taken.append(granted.node)
        given = chips(granted)
        assert len(given) == size
        assert set(given) <= idle(*states[granted.node])
        if size < 8:
            (ring,) = {chip // 4 for chip in given}
            assert GROUPS[size].index(states[granted.node][ring]) == (rank(states[granted.node], size) or (9, 9))[0]
        assert int(granted.annotations["predicate-time"]) > 10**18
    assert taken == sorted(states, key=lambda name: rank(states[name], size) or (9, 9))
    chips_are_single(volcano.cluster.api.list("/api/v1/pods"))


@pytest.mark.rule("003.eight", "003.one-pod", "003.full", level="R")
def test_a_job_of_sixteen_chips_gets_two_whole_nodes(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(4, 4), "b": idle(4, 3), "c": idle(4, 4)})
    granted = volcano.run(volcano_job(namespace, "train", {NPU: 8}, 2))
    assert sorted(found.node for found in granted) == ["a", "c"]
    assert [chips(found) for found in granted] == [tuple(range(8))] * 2


@pytest.mark.rule("003.one-pod", level="R")
def test_members_without_chips_do_not_count(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(4, 4)})
    worker, master = volcano.run(volcano_job(namespace, "train", {NPU: 4}, others=1))
    assert chips(worker) == (0, 1, 2, 3)
    assert not chips(master)


def ours(events: list[str]) -> list[str]:
    return [text for text in events if text.startswith("JobRefused: ")]


@pytest.mark.rule("003.count", "003.valid-job", level="R")
@pytest.mark.parametrize("size", [3, 5, 6, 7])
def test_a_job_of_an_impossible_count_is_not_enqueued(volcano: VolcanoPlacing, size: int) -> None:
    namespace = make(volcano, {"a": idle(4, 4)})
    volcano.submit(volcano_job(namespace, "odd", {NPU: size}))
    volcano.wait_phase(namespace, "Pending")
    volcano.volcano.pass_sessions(5)
    volcano.wait_phase(namespace, "Pending")
    assert not volcano.cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    (group,) = volcano.phases(namespace)
    said = wait_for(lambda: ours(volcano.cluster.events(namespace, group)), 10, "the refusal is on the PodGroup")
    assert said == [f"JobRefused: {size} devices can't be allocated on ascend-910; request 1, 2, 4 or 8"]


@pytest.mark.rule("003.one-pod", "003.valid-job", level="R")
def test_a_job_of_up_to_eight_chips_in_two_pods_is_not_enqueued(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(4, 4)})
    volcano.submit(volcano_job(namespace, "split", {NPU: 2}, 2))
    volcano.volcano.pass_sessions(5)
    volcano.wait_phase(namespace, "Pending")


@pytest.mark.rule("003.count", "003.valid-job", "003.predicate", level="R")
def test_without_the_action_enqueue_an_impossible_count_is_refused_on_every_node(volcano: VolcanoPlacing) -> None:
    scheduler = volcano.volcano
    before = scheduler.configuration.read_text()
    namespace = make(volcano, {"a": idle(4, 4)})
    scheduler.run(seed_conf(volcano.cluster, volcano.serve.url, "allocate, backfill"))
    try:
        job = volcano_job(namespace, "odd", {NPU: 3})
        volcano.submit(job)
        said = refused(volcano, job)
        assert "request 1, 2, 4 or 8" in said
        assert chips(one(volcano, namespace, "even", 4)) == (0, 1, 2, 3)
    finally:
        scheduler.run(before)


@pytest.mark.rule("003.predicate", "003.ring", level="R")
def test_too_few_chips_in_each_ring_are_refused_with_both_counts(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(1, 1)})
    job = volcano_job(namespace, "pair", {NPU: 2})
    volcano.submit(job)
    assert "ring 0 has 1 idle, ring 1 has 1 idle" in refused(volcano, job)


@pytest.mark.rule("003.faulty", level="R")
def test_a_sound_node_comes_before_one_with_a_faulty_chip_whatever_the_group(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"sound": idle(4, 4), "faulty": {0, 4, 5, 6}}, {"faulty": {7}})
    assert one(volcano, namespace, "first", 1).node == "sound"


@pytest.mark.rule("003.faulty", level="R")
def test_a_node_of_seven_chips_comes_before_one_of_six(volcano: VolcanoPlacing) -> None:
    unhealthy = {"seven": {7}, "six": {6, 7}}
    namespace = make(volcano, {"seven": idle(4, 3), "six": {0}}, unhealthy)
    assert [one(volcano, namespace, f"j{number}", 1).node for number in range(8)] == ["seven"] * 7 + ["six"]


@pytest.mark.rule("003.full", "003.in-session", level="R")
def test_jobs_submitted_together_pack(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {name: idle(4, 4) for name in "abcd"})
    jobs = [volcano_job(namespace, f"j{number}", {NPU: 2}) for number in range(8)]
    volcano.submit(*jobs)
    granted = [found for job in jobs for found in volcano.ran(job)]
    assert len({found.node for found in granted}) == 2
    volcano.settled()


def refused(volcano: VolcanoPlacing, job: Raw) -> str:
    """What the events of a Job, its PodGroup and its pods say as soon as they say why it does not fit."""
    namespace = job["metadata"]["namespace"]
    (name,) = pod_names(job)

    def said() -> str:
        events = "\n".join(volcano.cluster.events(namespace, name))
        assert "Linkwise" in events or "ring" in events or "request" in events, events or volcano.phases(namespace)
        return events

    found = wait_for(said, 20, f"{name} is refused")
    pod = volcano.find(namespace, name)
    assert pod is not None
    assert not pod["spec"].get("nodeName"), found
    return found
