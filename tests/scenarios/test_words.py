"""Errors of scenarios name the file, the step and the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.errors import InputError
from linkwise.testing.scenario import load, run

if TYPE_CHECKING:
    from pathlib import Path

GIVEN = "story: s\ngiven:\n  nodes: [{name: n1, has: {nvidia.com/gpu: 2}}]\nsteps:\n"


def play(folder: Path, steps: str, given: str = GIVEN) -> None:
    file = folder / "a.yaml"
    file.write_text(given + steps, "utf-8")
    run(load(file))


def test_a_failed_expectation_names_the_actual_value(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"a\.yaml, step 1: devices: expected \[1\], found \[0\]"):
        play(tmp_path, "  - {schedule: {name: a, asks: {nvidia.com/gpu: 1}}, expect: {devices: [1]}}")


def test_a_failed_expectation_names_the_reasons_of_an_unschedulable_pod(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match=r"default/a is unschedulable: .*node\(s\) had fewer devices than requested"
    ):
        play(tmp_path, "  - {schedule: {name: a, asks: {nvidia.com/gpu: 3}}, expect: {node: n1}}")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("  - {shedule: a}", "step 1: a step: unknown key 'shedule'; use "),
        ("  - {cordon: n1, mend: {}}", "step 1: a step has one verb, found cordon and mend"),
        ("  - {expect: {fre: {n1: 2}}}", "step 1: expect: unknown key 'fre'; use "),
        ("  - {expect: {free: {n2: 2}}}", "step 1: unknown node 'n2'; the scenario has n1"),
        ("  - {expect: {node: n1}}", "step 1: only the verbs schedule and assign have this answer"),
        ("  - {cordon: n1}\n  - {finish: b}", "step 2: unknown pod 'b'"),
        ("  - {schedule: {name: a, ask: {}}}", "step 1: pod: unknown key 'ask'; use "),
        ("  - {schedule: {name: a}, bind: soon}", "step 1: bind: unknown outcome 'soon'; use written, "),
        ("  - {join: {name: n2, machine: dgx9}}", "step 1: unknown machine profile 'dgx9'; known profiles: "),
        (
            "  - {break: {node: n1, device: 0}}",
            "step 1: node n1: only nodes of a machine report the health of their devices",
        ),
        ("  - {create: {name: a, asks: 2}}", "step 1: expected amounts as {resource: number}, found 2"),
        ("  - {create: {group: g, members: x}}", "step 1: members: expected a number or a list of members"),
        ("  - {create: {group: g, members: [{ask: 1}]}}", "step 1: member: unknown key 'ask'; use "),
        ("  - {schedule: {group: g, members: 1}, order: odd}", "order: expected a list of members or 'reversed'"),
        ("  - {expect: {nodes: {z: n1}}}", "step 1: unknown pod or group 'z'"),
        ("  - {pass: 1, among: [n1], fail: n1}", "step 1: a step has one verb, found pass and fail"),
    ],
)
def test_an_invalid_step_is_named_with_its_place(tmp_path: Path, steps: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        play(tmp_path, steps)
    assert message in str(caught.value)


def test_a_failed_expectation_of_a_group_names_the_reasons_of_each_member(tmp_path: Path) -> None:
    steps = "  - {schedule: {group: g, members: 2, asks: {nvidia.com/gpu: 2}}, expect: {nodes: {g: n1}, holds: x}}"
    with pytest.raises(
        AssertionError,
        match=r"step 1: holds: expected 'x', found 'nothing'; g-0 is on n1; g-1 is unschedulable: .*too few free devices",
    ):
        play(tmp_path, steps)


def test_a_shuffled_scenario_is_played_in_other_orders_too(tmp_path: Path) -> None:
    steps = "  - {schedule: {group: g, members: 2, asks: {nvidia.com/gpu: 1}}, expect: {devices: {g-0: [0], g-1: [1]}}}"
    play(tmp_path, steps, f"shuffled: 3\n{GIVEN}")


def test_a_pod_with_the_name_of_a_deleted_pod_is_a_new_pod(tmp_path: Path) -> None:
    play(
        tmp_path,
        """\
  - schedule: {name: a, asks: {nvidia.com/gpu: 2}}
  - stopped: a
    expect: {free: {n1: 2}}
  - schedule: {name: a, asks: {nvidia.com/gpu: 1}}
    expect: {node: n1, devices: [0], free: {n1: 1}}
""",
    )


def test_an_invalid_initial_cluster_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.yaml, given: node n1: taken: write \[0, 1\] for whole devices"):
        play(tmp_path, "  []", "story: s\ngiven: {nodes: [{name: n1, has: {cpu: 2}, taken: [0]}]}\nsteps:\n")
    with pytest.raises(InputError, match=r"a\.yaml: the file: 'story' is missing"):
        play(tmp_path, "  []", "steps:\n")


def test_a_node_can_be_cordoned_and_leave(tmp_path: Path) -> None:
    play(
        tmp_path,
        """\
  - cordon: n1
  - schedule: {name: a, asks: {nvidia.com/gpu: 1}}
    expect: {waits: {node(s) were unschedulable: 1}}
  - uncordon: n1
  - leave: n1
  - schedule: a
    expect: {waits: {}}
  - join: {name: n2, has: {nvidia.com/gpu: 1}}
    expect: {wakes: [a]}
""",
    )
