"""Groups that don't fit completely: which members are placed without the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.explain.group.group import explain_group
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, in_group

if TYPE_CHECKING:
    from linkwise.model.views import PodView

SIZES = (4, 2, 2)


def members() -> list[PodView]:
    return [device_pod(name, size) for name, size in zip("abc", SIZES, strict=True)]


@pytest.mark.rule("001.tolerant")
def test_a_gang_places_as_many_members_as_fit() -> None:
    """Four devices are free: the first member alone, or the two others, which are enough to start."""
    broker = broker_of(FakeNode("n", count=4))
    gang = in_gang(*members(), least=2)
    broker.observe(gang, 0.0)
    plan = broker.dry_plan(gang, 1.0)
    assert plan is not None
    assert set(plan.placements) == {"uid-b", "uid-c"}
    assert [bool(broker.filter(pod, ["n"], 0.0).nodes) for pod in gang] == [False, True, True]


def test_a_group_that_is_no_gang_places_its_members_by_rank() -> None:
    broker = broker_of(FakeNode("n", count=4))
    plan = broker.dry_plan(in_group(*members()), 1.0)
    assert plan is not None
    assert set(plan.placements) == {"uid-a"}


def test_the_explanation_of_a_gang_counts_the_members_that_would_fit() -> None:
    broker = broker_of(FakeNode("n", count=4))
    gang = in_gang(*members(), least=3)
    broker.observe(gang, 0.0)
    assert not broker.filter(gang[0], ["n"], 0.0).nodes
    report = explain_group(broker, "uid-a", 1.0)
    assert report is not None
    assert [(need.devices, need.members, need.fitting) for need in report.needs] == [(4, 1, 0)]
