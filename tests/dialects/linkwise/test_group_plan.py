"""The record of a group's plan: what is written is read back, and anything else is ignored with a problem."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.linkwise.group_plan import (
    GROUP_PLAN,
    GroupPlan,
    PlannedContainer,
    PlannedMember,
    RecordedPlans,
    recorded_plans,
    recorded_text,
)
from linkwise.errors import InputError
from linkwise.model.views import PodView

words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
counts = st.integers(0, 2**63 - 1)
devices = st.lists(st.integers(0, 255), min_size=1, max_size=8, unique=True).map(tuple)
containers = st.lists(
    st.builds(PlannedContainer, words, devices, counts, counts), max_size=3, unique_by=lambda part: part.name
).map(tuple)
members = st.dictionaries(words, st.builds(PlannedMember, words, containers), max_size=3)
records = st.builds(
    RecordedPlans, st.just("uid"), counts, st.dictionaries(words, st.builds(GroupPlan, counts, members), max_size=3)
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
MEMBER = PlannedMember("n1", (PlannedContainer("main", (0, 1)),))
TEXT = recorded_text(RecordedPlans("uid", 5, {"team/g": GroupPlan(2, {"u1": MEMBER})}))


def pod(text: str) -> PodView:
    return PodView("team", "p", "uid", annotations={GROUP_PLAN: text}, node="n0")


@given(records)
def test_a_record_that_is_written_is_read_back_as_it_was(record: RecordedPlans) -> None:
    assert recorded_plans(pod(recorded_text(record))) == (record, ())


def test_the_record_is_compact_json() -> None:
    assert TEXT == (
        '{"groups":{"team/g":{"generation":2,"members":{"u1":{"containers":{"main":{"devices":[0,1]}},"node":"n1"}}}},'
        '"pod":"uid","time":5,"version":1}'
    )


def test_a_plan_that_would_lose_devices_is_not_written() -> None:
    twice = PlannedMember("n1", (PlannedContainer("c", (0,)), PlannedContainer("c", (1,))))
    with pytest.raises(InputError, match="one container twice"):
        recorded_text(RecordedPlans("uid", 5, {"team/g": GroupPlan(2, {"u1": twice})}))


def changed(path: str, value: object) -> str:
    record: Any = json.loads(TEXT)
    *outer, last = path.split(" ")
    holder = record
    for name in outer:
        holder = holder[name]
    holder[last] = value
    return json.dumps(record)


GROUP = "groups team/g"
DEVICES = f"{GROUP} members u1 containers main devices"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("version", 2, "version is 2; we know version 1 only"),
        ("pod", "other", "it was made for the pod with UID 'other', not for this one"),
        ("time", -1, "time is -1"),
        ("groups", [], "groups is a list; an object is expected"),
        (f"{GROUP} generation", "2", "groups.team/g.generation is '2'"),
        (f"{GROUP} members", 3, "groups.team/g.members is 3; an object is expected"),
        (f"{GROUP} members u1 node", "", "node is ''"),
        (DEVICES, [], "devices names no device"),
        (DEVICES, [1, 1], "devices names one device twice"),
        (DEVICES, ["0"], "devices lists '0'; whole numbers of 0 or more are expected"),
        (DEVICES, [True], "devices lists true"),
        (DEVICES, 3, "devices is 3; a list of whole numbers is expected"),
    ],
)
def test_a_broken_record_is_not_believed(path: str, value: object, problem: str) -> None:
    record, problems = recorded_plans(pod(changed(path, value)))
    assert record is None
    assert problem in problems[0].sentence


@pytest.mark.parametrize("text", [" ", "[]", "{", "[" * 100_000, "1" * 5000, '{"version":NaN}', "{}"])
def test_a_text_that_is_no_record_is_not_believed(text: str) -> None:
    record, problems = recorded_plans(pod(text))
    assert (record, len(problems)) == (None, 1)


def test_an_unknown_field_is_reported_and_the_rest_believed() -> None:
    record, problems = recorded_plans(pod(changed("colour", "red")))
    assert record is not None
    assert [problem.sentence for problem in problems] == ["colour is not a known field; it is ignored"]


@given(st.text() | anything.map(json.dumps))
def test_no_annotation_can_raise(text: str) -> None:
    record, problems = recorded_plans(pod(text))
    assert record is not None or problems or not text


def test_an_empty_text_is_no_record() -> None:
    assert recorded_plans(pod("")) == (None, ())


@given(st.sampled_from(["groups", "time", GROUP, f"{GROUP} members", f"{GROUP} members u1", DEVICES]), anything)
def test_no_field_can_raise(path: str, value: object) -> None:
    record, problems = recorded_plans(pod(changed(path, value)))
    assert record is not None or problems
