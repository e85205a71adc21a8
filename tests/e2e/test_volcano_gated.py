"""Gated mode on a real Volcano: pods are planned, pinned and ungated with their devices; invalid Jobs are refused at apply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.e2e.ring_table import STATES, elsewhere, idle, make, rank
from support.e2e.together import refused
from support.e2e.volcano_objects import pod_names, volcano_job
from support.e2e.volcano_placing import chips

if TYPE_CHECKING:
    from linkwise.config.volcano import Mode
    from support.e2e.volcano_placing import VolcanoPlacing

NPU = "huawei.com/Ascend910"
GATE = "linkwise.dev/gang"


@pytest.fixture(scope="module")
def volcano_mode() -> Mode:
    return "gated"


@pytest.mark.rule("003.groups", "003.order", "003.record", level="R")
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_first_node_of_the_table_is_planned(volcano: VolcanoPlacing, size: int) -> None:
    states = {name: state for name, state in STATES.items() if rank(state, size) is not None}
    namespace = make(volcano, {name: idle(*state) for name, state in states.items()})
    order = sorted(states, key=lambda name: rank(states[name], size) or (9, 9))
    for left in (0, 1, 2):
        job = volcano_job(namespace, f"j{left}", {NPU: size}, **elsewhere(order[:left]))
        (granted,) = volcano.run(job)
        assert granted.node == order[left]
        assert len(chips(granted)) == size


@pytest.mark.rule("003.eight", "003.one-pod", level="R")
def test_a_job_of_sixteen_chips_gets_two_whole_nodes(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(4, 4), "b": idle(4, 3), "c": idle(4, 4)})
    granted = volcano.run(volcano_job(namespace, "train", {NPU: 8}, 2))
    assert sorted(found.node for found in granted) == ["a", "c"]


@pytest.mark.rule("003.count", "003.valid-job", level="R")
@pytest.mark.parametrize("size", [3, 5, 6, 7])
def test_a_job_of_an_impossible_count_is_refused_at_apply(volcano: VolcanoPlacing, size: int) -> None:
    namespace = make(volcano, {"a": idle(4, 4)})
    said = refused(volcano, namespace, json.dumps(volcano_job(namespace, "odd", {NPU: size})))
    assert f"{size} devices" in said
    assert "1, 2, 4 or 8" in said


@pytest.mark.rule("003.allocate", level="R")
def test_a_bound_pod_has_the_node_and_the_devices_that_were_planned(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(4, 4), "b": idle(4, 0)})
    job = volcano_job(namespace, "train", {NPU: 4})
    volcano.run(job)
    found = volcano.cluster.pod(namespace, *pod_names(job))
    terms = found["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [field for term in terms["nodeSelectorTerms"] for field in term["matchFields"]]
    assert {(field["key"], *field["values"]) for field in fields} == {("metadata.name", "b")}
    assert found["spec"]["nodeName"] == "b"
    assert found["metadata"]["annotations"][NPU] == "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3"
    assert "schedulingGates" not in found["spec"]


@pytest.mark.rule("003.between", "001.hold", level="R")
def test_a_pod_that_does_not_fit_stays_gated(volcano: VolcanoPlacing) -> None:
    namespace = make(volcano, {"a": idle(1, 1)})
    job = volcano_job(namespace, "pair", {NPU: 2})
    volcano.submit(job)
    volcano.seen_groups(namespace, 1)
    volcano.volcano.pass_sessions(5)
    found = volcano.find(namespace, *pod_names(job))
    assert found is None or [gate["name"] for gate in found["spec"]["schedulingGates"]] == [GATE]
