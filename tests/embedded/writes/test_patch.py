"""Patches: merge, JSON patch, strategic merge."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.writes.patch import json_patch, merge_patch, strategic_merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, JSON)
def test_a_merge_patch_is_idempotent(document: object, patch: object) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(JSON)
def test_an_empty_patch_changes_nothing(document: object) -> None:
    whole = {"x": document}
    assert strategic_merge_patch(whole, {}) == whole
    assert json_patch(whole, []) == whole


def test_a_patch_can_set_the_element_order() -> None:
    before = {"containers": [{"name": "a"}, {"name": "b"}]}
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c"}],
    }
    assert [found["name"] for found in strategic_merge_patch(before, patch)["containers"]] == ["b", "c", "a"]


def test_an_element_without_its_merge_key_is_rejected() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge_patch({"containers": []}, {"containers": [{"image": "x"}]})


def test_ports_are_merged_by_the_key_that_they_have() -> None:
    before = {"ports": [{"containerPort": 80}, {"containerPort": 90, "name": "x"}]}
    found = strategic_merge_patch(before, {"ports": [{"containerPort": 90, "name": "y"}]})
    assert found["ports"] == [{"containerPort": 80}, {"containerPort": 90, "name": "y"}]
