"""How much is looked into for a table of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.assembly.cluster_reader import ClusterReader
from linkwise.broker.broker import Broker
from linkwise.cli.get.pods import MAX_PLANS, pod_rows
from linkwise.explain.group import explain_group
from linkwise.testing.cluster import FakeNode, device_pod, in_gang

if TYPE_CHECKING:
    import pytest

    from linkwise.explain.reports.group import GroupExplanation


def seen(gangs: int, members: int) -> ClusterReader:
    """A node of two devices, and gangs that need more."""
    broker = Broker()
    broker.observe(FakeNode("n").events(), 0.0)
    for number in range(gangs):
        pods = (device_pod(f"g{number}-{place}", 2) for place in range(members))
        broker.observe(in_gang(*pods, least=members, name=f"g{number}"), 0.0)
    return ClusterReader(broker, 0.0, "default", {})


def whys(cluster: ClusterReader) -> list[str]:
    return [row.cells["why"].text for row in pod_rows(cluster, None, "")]


def test_a_group_is_planned_once_for_all_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(broker: Broker, key: str, now: float, *, most: int | None = None) -> GroupExplanation | None:
        asked.append(key)
        return explain_group(broker, key, now, most=most)

    monkeypatch.setattr("linkwise.cli.get.pods.explain_group", counting)
    assert set(whys(seen(1, 50))) == {"its group needs 50 nodes with 2 free, 1 has them"}
    assert asked == ["default/g0"]


def test_of_many_groups_the_first_are_planned() -> None:
    told = whys(seen(MAX_PLANS + 5, 2))
    assert told.count("its group needs 2 nodes with 2 free, 1 has them") == 2 * MAX_PLANS
    assert told.count("its group is complete") == 10
