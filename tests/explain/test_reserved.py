"""Devices reserved by plans, as a reader of the cluster sees them from API objects alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.dialects.linkwise.group_plan import GROUP_PLAN
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, gated, in_gang, seen_bound
from linkwise.views.cluster import ClusterView
from linkwise.views.nodes import node_rows

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NODES = (FakeNode("a", count=8), FakeNode("b", count=8))


def half_bound() -> list[PodView]:
    """A gang of two by eight devices: the first member is bound to node a and records the plan of the second, on b."""
    first, second = in_gang(device_pod("h0", 8), device_pod("h1", 8), least=2, name="h")
    broker = broker_of(*NODES)
    broker.observe([first, second], 1.0)
    for _ in range(20):
        if broker.filter(first, ["a", "b"], 1.0).nodes:
            break
        broker.step(1.0, 100)
    (bound,) = binds(broker.bind(first.uid, "a", 1.0).effects)
    return [seen_bound(first, bound), second]


def reader(*pods: PodView) -> Broker:
    broker = broker_of(*NODES)
    broker.observe(pods, 2.0)
    broker.restore_plans(2.0)
    return broker


def lines(broker: Broker, uid: str) -> list[str]:
    report = explain_pod(broker, uid, 2.0)
    assert report is not None
    return explanation_lines(report)


def test_a_pod_behind_a_held_plan_reads_for_which_group_the_devices_are_reserved() -> None:
    said = lines(reader(*half_bound(), device_pod("single", 8)), "uid-single")
    assert said[:2] == [
        "pod default/single is pending: it requests 8 devices (nvidia.com/gpu)",
        "0 of 2 nodes are feasible",
    ]
    assert "it would fit on node b, but 8 devices there are reserved for group default/h" in said
    assert not any("h1" in line for line in said), "a member that does not run can't finish"


def test_the_member_that_waits_reads_what_is_reserved_for_it() -> None:
    said = lines(reader(*half_bound()), "uid-h1")
    assert said[0] == "pod default/h1 has devices 0, 1, 2, 3, 4, 5, 6, 7 on node b reserved by the plan of its group"


def test_get_nodes_counts_reserved_devices_as_taken_and_names_the_group() -> None:
    rows = node_rows(ClusterView(reader(*half_bound()), 2.0, "default"), None)
    assert [(row.cells["idle"].text, row.cells["reserved"].text) for row in rows] == [("0/8", ""), ("0/8", "8 for h")]


def test_a_gang_behind_a_held_plan_reads_for_which_group_the_devices_are_reserved() -> None:
    rivals = in_gang(device_pod("r0", 4), device_pod("r1", 4), least=2, name="r")
    report = explain_group(reader(*half_bound(), *rivals), "default/r", 2.0)
    assert report is not None
    said = explanation_lines(report)
    assert "8 devices are reserved for group default/h" in said
    assert not any("h1" in line for line in said)


def test_without_a_record_nothing_is_reserved() -> None:
    first, second = half_bound()
    bare = replace(first, annotations={key: text for key, text in first.annotations.items() if key != GROUP_PLAN})
    broker = reader(bare, second)
    assert not broker.plans()
    assert lines(broker, "uid-h1")[0].startswith("pod default/h1 is pending with its group")


def test_a_record_that_is_garbage_or_of_devices_in_use_reserves_nothing() -> None:
    first, second = half_bound()
    for text in ("{", first.annotations[GROUP_PLAN].replace('"b"', '"nowhere"'), first.annotations[GROUP_PLAN][:-9]):
        broken = replace(first, annotations={**first.annotations, GROUP_PLAN: text})
        assert not reader(broken, second).plans()
    other = replace(device_pod("other", 8), node="b", phase="Running")
    assert not reader(first, second, other).plans()


def test_a_plan_that_is_read_is_not_planned_again() -> None:
    broker = reader(*half_bound())
    broker.restore_plans(2.0)
    assert list(broker.plans()) == ["default/h"]


def test_a_reader_explains_a_gated_gang_that_the_service_has_not_planned() -> None:
    members = gated(in_gang(*(device_pod(f"g{number}", 8) for number in range(3)), least=3))
    broker = reader(*members)
    explained = explain_pod(broker, members[0].uid, 2.0)
    assert explained is not None
    assert "its group does not fit now; no devices are reserved for it" in explanation_lines(explained)[1]
