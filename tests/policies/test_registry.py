from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.errors import PolicyError
from linkwise.policies.registry import POLICIES, registered
from linkwise.policies.whole_device import WholeDevice

if TYPE_CHECKING:
    from linkwise import Ask, Node, Offer


def test_all_five_policies_are_registered() -> None:
    assert list(POLICIES) == ["link-affinity", "bandwidth", "whole-device", "ring-affinity", "memory-share"]


def test_how_many_terms_make_the_class_is_pinned() -> None:
    assert {name: policy.leading for name, policy in POLICIES.items()} == {
        "link-affinity": 2,
        "bandwidth": 2,
        "whole-device": 0,
        "ring-affinity": 3,
        "memory-share": 0,
    }


def variant(**changes: Any) -> Any:  # noqa: ANN401 - deliberately wrong policies
    return type("Odd", (WholeDevice,), changes)()


class ShortScore(WholeDevice):
    terms = ("a", "b")  # type: ignore[assignment]  # deliberately one too many


class FloatScore(WholeDevice):
    def score(self, ask: Ask, node: Node, offer: Offer) -> Any:  # noqa: ANN401 - deliberately wrong
        del ask, node, offer
        return (1.5,)


class ListScore(WholeDevice):
    def score(self, ask: Ask, node: Node, offer: Offer) -> Any:  # noqa: ANN401 - deliberately wrong
        del ask, node, offer
        return [1]


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ([variant(name="")], "policy Odd has no name"),
        ([variant(name="x", pick=None)], "policy 'x' has no method 'pick'"),
        ([variant(name="x", admit=None)], "policy 'x' has no method 'admit'"),
        ([variant(name="x", terms=())], "policy 'x' does not name the terms of its score"),
        ([variant(name="x", leading=2)], "policy 'x' has 2 leading terms of 1"),
        ([variant(name="x", leading="1")], "policy 'x' has '1' leading terms"),
        ([WholeDevice(), WholeDevice()], "two policies are called 'whole-device'"),
        ([ShortScore()], "2 integers are expected"),
        ([FloatScore()], r"scores \(1.5,\): 1 integers are expected"),
        ([ListScore()], r"scores \[1\]"),
        ([variant(name="x", pick=lambda *_: None)], "policy 'x' picks nothing of a free machine: None"),
        ([variant(name="x", admit=lambda *_: "no")], "policy 'x' admits neither"),
        ([object()], "policy object has no name"),
    ],
)
def test_a_bad_policy_stops_the_start(policies: list[Any], text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        registered(policies)
