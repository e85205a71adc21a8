"""The annotation that lists cordoned devices."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.linkwise.cordon import CORDONED, cordon_annotation, cordons_of
from linkwise.model.views import NodeView


def node(text: str) -> NodeView:
    return NodeView("n", annotations={CORDONED: text})


def test_what_is_written_is_read_again() -> None:
    cordons = {"GPU-1": "ECC errors: 2 \u00d7 DBE", "#3": ""}
    text = cordon_annotation(cordons)
    assert text is not None
    assert cordons_of(node(text)) == (cordons, ())


def test_without_cordons_the_annotation_is_removed() -> None:
    assert cordon_annotation({}) is None
    assert cordons_of(NodeView("n")) == ({}, ())


@pytest.mark.parametrize("text", ["{", "[]", "3", "null", '"GPU-1"', '{"GPU-1": ""} {}', "[" * 100_000])
def test_a_text_that_is_not_an_object_cordons_nothing_and_is_reported(text: str) -> None:
    cordons, (problem,) = cordons_of(node(text))
    assert (cordons, problem.where, problem.key) == ({}, "node n", CORDONED)
    assert "linkwise uncordon" in problem.sentence


@pytest.mark.parametrize("reason", [3, None, ["x"], "two\nlines", "x" * 257])
def test_an_invalid_reason_is_reported_and_the_device_is_cordoned_all_the_same(reason: object) -> None:
    cordons, (problem,) = cordons_of(node(json.dumps({"GPU-1": reason, "GPU-2": "good"})))
    assert cordons == {"GPU-1": "", "GPU-2": "good"}
    assert "the reason of device GPU-1" in problem.sentence


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    cordons, _ = cordons_of(node(text))
    assert all(device and (device + reason).isprintable() for device, reason in cordons.items())
