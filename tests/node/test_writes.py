"""Only what differs is written, and the times of conditions survive."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from linkwise.embedded.writes.patch import merge_patch as applied
from linkwise.model.views import NodeView
from linkwise.node.writes import capacity_changes, merge_patch, object_changes, text_changes, with_times

values = st.recursive(
    st.booleans() | st.integers(2, 5) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"


def reported(status: str, time: str = "", message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "reason": "Because", "message": message}
    return {"status": {"conditions": [condition | ({"lastTransitionTime": time} if time else {})]}}


@given(objects, objects)
def test_a_patch_makes_one_object_the_other(known: dict[str, object], desired: dict[str, object]) -> None:
    patch = merge_patch(known, desired)
    assert applied(known, patch) == desired
    assert (patch == {}) is (known == desired)


def test_a_number_written_another_way_is_no_change() -> None:
    assert merge_patch({"bandwidth": [[0, 48.0]]}, {"bandwidth": [[0.0, 48]]}) == {}


def test_fields_that_the_agent_does_not_set_stay() -> None:
    known = {"metadata": {"name": "n", "labels": {"a": "1"}, "uid": "u"}, "spec": {"mode": "any"}, "status": {"x": 1}}
    desired = {"metadata": {"name": "n", "labels": {"b": "2"}}, "spec": {"mode": "whole"}}
    assert object_changes(known, desired) == {"metadata": {"labels": {"b": "2"}}, "spec": {"mode": "whole"}}


def test_only_own_labels_are_removed() -> None:
    assert text_changes({"own": "1", "other": "2", "same": "3"}, {"same": "3"}, ("own", "same")) == {"own": None}


def test_a_resource_is_set_where_it_differs_and_removed_where_it_is() -> None:
    view = NodeView("n", capacity={"count": "2", "old": "1"}, allocatable={"count": "0"})
    assert capacity_changes(view, {"count": "2", "old": None}) == {
        "capacity": {"old": None},
        "allocatable": {"count": "2"},
    }


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    timed = with_times(reported("True", message="new"), reported("True", EARLY), LATE)
    assert timed == reported("True", EARLY, "new")


def test_a_condition_whose_status_changes_has_the_time_of_the_change() -> None:
    assert with_times(reported("False"), reported("True", EARLY), LATE) == reported("False", LATE)


def test_a_condition_that_was_not_there_is_new() -> None:
    odd: dict[str, object] = {"status": {"conditions": [7, {"type": []}, {"type": "Ready", "status": "True"}]}}
    for known in (None, {}, odd, {"status": {"conditions": "none"}}):
        assert with_times(reported("True"), known, LATE) == reported("True", LATE)


def test_an_object_without_conditions_needs_no_times() -> None:
    assert with_times({"spec": {}}, None, LATE) == {"spec": {}}
