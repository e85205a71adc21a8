"""A scenario that is written wrongly, or goes otherwise, says where."""

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


def test_what_is_found_stands_beside_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"a\.yaml, step 1: devices: expected \[1\], found \[0\]"):
        play(tmp_path, "  - {schedule: {name: a, asks: {nvidia.com/gpu: 1}}, expect: {devices: [1]}}")


def test_a_pod_that_waits_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"default/a waits: .*too few devices are free"):
        play(tmp_path, "  - {schedule: {name: a, asks: {nvidia.com/gpu: 3}}, expect: {node: n1}}")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("  - {shedule: a}", "step 1: a step: 'shedule' is not known; "),
        ("  - {cordon: n1, mend: {}}", "step 1: cordon and mend are two steps"),
        ("  - {expect: {fre: {n1: 2}}}", "step 1: expect: 'fre' is not known; "),
        ("  - {expect: {free: {n2: 2}}}", "step 1: there is no node 'n2'; n1 are"),
        ("  - {expect: {node: n1}}", "step 1: only `schedule` and `assign` have such an answer"),
        ("  - {cordon: n1}\n  - {finish: b}", "step 2: there is no pod 'b'"),
        ("  - {schedule: {name: a, ask: {}}}", "step 1: pod: 'ask' is not known; "),
        ("  - {schedule: {name: a}, bind: soon}", "step 1: bind: 'soon' is not known; written, "),
        ("  - {join: {name: n2, machine: dgx9}}", "step 1: machine profile 'dgx9' is not known: "),
        ("  - {break: {node: n1, device: 0}}", "step 1: node n1: only a machine tells which of its devices are sick"),
        ("  - {create: {name: a, asks: 2}}", "step 1: amounts are written as {resource: number}, found 2"),
        ("  - {create: {group: g, members: x}}", "step 1: members: a number is expected, or a list of what differs"),
        ("  - {create: {group: g, members: [{ask: 1}]}}", "step 1: member: 'ask' is not known; "),
        ("  - {schedule: {group: g, members: 1}, order: odd}", "order: a list of members is expected, or reversed"),
        ("  - {expect: {nodes: {z: n1}}}", "step 1: there is no pod and no group 'z'"),
        ("  - {pass: 1, among: [n1], fail: n1}", "step 1: pass and fail are two steps"),
    ],
)
def test_a_word_that_is_not_known_is_named_with_its_place(tmp_path: Path, steps: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        play(tmp_path, steps)
    assert said in str(caught.value)


def test_a_group_that_waits_says_why_of_each_member(tmp_path: Path) -> None:
    steps = "  - {schedule: {group: g, members: 2, asks: {nvidia.com/gpu: 2}}, expect: {nodes: {g: n1}, holds: x}}"
    with pytest.raises(
        AssertionError,
        match=r"step 1: holds: expected 'x', found 'nothing'; g-0 is on n1; g-1 waits: .*too few devices",
    ):
        play(tmp_path, steps)


def test_a_shuffled_story_is_played_in_other_orders_too(tmp_path: Path) -> None:
    steps = "  - {schedule: {group: g, members: 2, asks: {nvidia.com/gpu: 1}}, expect: {devices: {g-0: [0], g-1: [1]}}}"
    play(tmp_path, steps, f"shuffled: 3\n{GIVEN}")


def test_a_pod_of_a_name_that_was_there_before_is_another_one(tmp_path: Path) -> None:
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


def test_what_is_given_wrongly_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.yaml, given: node n1: taken: write \[0, 1\] for whole devices"):
        play(tmp_path, "  []", "story: s\ngiven: {nodes: [{name: n1, has: {cpu: 2}, taken: [0]}]}\nsteps:\n")
    with pytest.raises(InputError, match=r"a\.yaml: the file: 'story' is missing"):
        play(tmp_path, "  []", "steps:\n")


def test_a_node_may_be_cordoned_and_leave(tmp_path: Path) -> None:
    play(
        tmp_path,
        """\
  - cordon: n1
  - schedule: {name: a, asks: {nvidia.com/gpu: 1}}
    expect: {waits: {the node takes no new pods: 1}}
  - uncordon: n1
  - leave: n1
  - schedule: a
    expect: {waits: {}}
  - join: {name: n2, has: {nvidia.com/gpu: 1}}
    expect: {wakes: [a]}
""",
    )
