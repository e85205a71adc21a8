"""The stages of groups: which transitions there are, and that every stage has an end."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from linkwise.broker.records.groups import GroupRecord
from linkwise.broker.records.members import TABLE, BackingOff, Event, Idle, Reserved, Stage, Waiting
from linkwise.engine.planning.plan import Plan
from linkwise.errors import GroupError
from linkwise.model.verdict import Reason
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_group
from support.state import state_of

STAGES = get_args(Stage)
EVENTS = get_args(Event)
BY_ITSELF = {"plan", "retry", "finish", "break", "expire", "fail", "reserve", "forget"}
"""what the broker notices without a call of the scheduler: changes, capacity, deadlines, the end of a plan's run"""
KEY = "default/g/1"


def test_every_stage_is_reached_and_left_by_some_event() -> None:
    assert {stage for stage, _ in TABLE} == set(TABLE.values()) == set(STAGES)
    assert {event for _, event in TABLE} == set(EVENTS)


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage is not Idle])
def test_no_group_stays_in_a_stage_without_an_exit_of_its_own(stage: type[Stage]) -> None:
    exits = {after for (before, event), after in TABLE.items() if before is stage and event in BY_ITSELF}
    assert exits - {stage}


@pytest.mark.parametrize("stage", STAGES)
def test_from_every_stage_a_group_can_become_idle_and_reserved(stage: type[Stage]) -> None:
    reached = {stage}
    while more := {after for (before, _), after in TABLE.items() if before in reached} - reached:
        reached |= more
    assert {Idle, Reserved} <= reached


def test_a_transition_that_is_not_in_the_table_is_an_error_and_changes_nothing() -> None:
    broker = broker_of(FakeNode("n0"))
    broker.observe(in_group(device_pod("a")), 0.0)
    groups = state_of(broker).groups
    with pytest.raises(GroupError, match=r"default/g/1 is Idle: 'expire' to BackingOff is not allowed"):
        groups.move(KEY, "expire", BackingOff(Reason("001.hold", kind="resting"), 9.0))
    assert groups[KEY].stage == Idle()


def test_a_transition_to_another_stage_than_the_table_has_is_an_error() -> None:
    broker = broker_of(FakeNode("n0"))
    broker.observe(in_group(device_pod("a")), 0.0)
    with pytest.raises(GroupError, match="'wait' to Idle"):
        state_of(broker).groups.move(KEY, "wait", Idle())


def test_the_deadline_of_a_record_is_the_first_of_its_stage_and_of_what_outlives_it() -> None:
    reason = Reason("001.members", kind="missing")
    assert GroupRecord().next_deadline() is None
    assert GroupRecord(stage=Waiting(reason)).next_deadline() is None
    assert GroupRecord(stage=Waiting(reason, 5.0), eviction=3.0).next_deadline() == 3.0
    assert GroupRecord(stage=Reserved(Plan({}), 1, 7.0), eviction=3.0).next_deadline() == 7.0


def test_nothing_is_left_of_a_group_without_members() -> None:
    broker = broker_of(FakeNode("n0"))
    (pod,) = in_group(device_pod("a"))
    broker.observe([pod], 0.0)
    assert broker.filter(pod, ["n0"], 0.0).nodes == ["n0"]
    broker.observe([replace(pod, labels={}, version=2)], 1.0)
    assert KEY not in state_of(broker).groups
    assert not list(broker.entries())
