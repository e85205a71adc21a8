from __future__ import annotations

import pytest

from linkwise import PodView
from linkwise.broker.cluster.pod_request import policy_of
from linkwise.dialects.linkwise.dialect import POLICY
from linkwise.testing.nodes import ask, share_ask

POD = PodView("default", "p", "u")


@pytest.mark.parametrize(
    ("dialect", "alone", "in_group", "part"),
    [
        ("nvidia", "link-affinity", "bandwidth", "memory-share"),
        ("amd", "link-affinity", "bandwidth", "memory-share"),
        ("koordinator", "bandwidth", "bandwidth", "memory-share"),
        ("ascend", "ring-affinity", "ring-affinity", "memory-share"),
        ("aliyun", "memory-share", "memory-share", "memory-share"),
        ("unheard-of", "whole-device", "whole-device", "memory-share"),
    ],
)
def test_one_ask_has_one_policy(dialect: str, alone: str, in_group: str, part: str) -> None:
    assert policy_of(POD, dialect, ask(2), in_group=False) == (alone, None)
    assert policy_of(POD, dialect, ask(2), in_group=True) == (in_group, None)
    assert policy_of(POD, dialect, share_ask(5), in_group=False) == (part, None)


def test_a_pods_own_wish_is_followed_where_it_can_be() -> None:
    wish = PodView("default", "p", "u", annotations={POLICY: "bandwidth"})
    assert policy_of(wish, "nvidia", ask(2), in_group=False) == ("bandwidth", None)


@pytest.mark.parametrize(
    ("wish", "text"),
    [("luck", "'luck' is not registered"), ("memory-share", "can't serve"), ("ring-affinity", "can't serve")],
)
def test_a_wish_that_can_not_be_met_is_a_problem_and_not_followed(wish: str, text: str) -> None:
    asking = PodView("default", "p", "u", annotations={POLICY: wish})
    policy, problem = policy_of(asking, "nvidia", ask(2), in_group=False)
    assert policy == "link-affinity"
    assert problem is not None
    assert text in problem.sentence
