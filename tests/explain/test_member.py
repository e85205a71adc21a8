"""What a person reads about a pod that waits with its group: the group's own reason, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod, in_gang, in_group, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

NODES = ["n0", "n1"]
"""two devices each"""
EXPLANATION = [
    "pod default/a is pending with its group: it requests 2 devices (nvidia.com/gpu)",
    "its group does not fit now; no devices are reserved for it",
    "its group needs 2 nodes with 2 free devices; 1 has them",
    "its group fits once pod default/solo (1 device) on node n0 finishes",
    "for its group, run: linkwise explain group/default/g",
]


def cluster(*pods: PodView, solo: str = "") -> Broker:
    """Two nodes, a pod of one device on one of them perhaps, and pods that have not been tried."""
    broker = broker_of(*map(FakeNode, NODES))
    if solo:
        place(broker, device_pod("solo"), solo)
    broker.observe(pods, 0.0)
    return broker


def pair(devices: int = 2) -> list[PodView]:
    return in_gang(device_pod("a", devices), device_pod("b", devices), least=2)


def lines(broker: Broker, uid: str, *, plan: bool = True) -> list[str]:
    explanation = explain_pod(broker, uid, 0.0, plan=plan)
    assert explanation is not None
    return explanation_lines(explanation)


def test_the_refusal_of_a_member_has_the_shortage_of_its_group_and_where_to_read_more() -> None:
    assert lines(cluster(*pair(), solo="n0"), "uid-a") == EXPLANATION


def test_a_member_that_was_refused_reads_the_same() -> None:
    pods = pair()
    broker = cluster(*pods, solo="n0")
    assert broker.filter(pods[1], NODES, 0.0).nodes == []
    assert lines(broker, "uid-a") == EXPLANATION


def test_the_explanation_of_an_unobserved_member_says_so() -> None:
    pods = pair()
    broker = cluster()
    assert broker.filter(pods[0], NODES, 0.0).nodes == []
    seen = "the scheduler asked about it before it was observed; it is retried once it is"
    assert lines(broker, "uid-a") == [EXPLANATION[0], seen]


def test_what_a_member_reads_is_what_its_group_says() -> None:
    broker = cluster(*pair(), solo="n0")
    group = explain_group(broker, "uid-a", 0.0)
    assert group is not None
    said = {line.replace("group default/g ", "its group ") for line in explanation_lines(group)}
    assert {
        line.replace("its group needs", "it needs").replace("its group fits", "it fits") for line in EXPLANATION[1:4]
    } <= said


def test_a_member_of_a_group_that_fits_reads_so() -> None:
    assert lines(cluster(*pair()), "uid-a")[1:] == [
        "its group fits now: 2 members on 2 nodes, and is planned when the scheduler tries one of its members",
        "for its group, run: linkwise explain group/default/g",
    ]


def test_a_member_for_which_the_others_leave_no_room_reads_so() -> None:
    pods = in_group(*(device_pod(name, 2) for name in "abc"))
    broker = cluster(*pods)
    assert lines(broker, "uid-c")[1:3] == [
        "its group fits in part: 2 members on 2 nodes, 1 left out, and leaves this pod out",
        "its group needs 3 nodes with 2 free devices; 2 have them",
    ]
    assert lines(broker, "uid-a")[1].endswith("1 left out, and is planned when the scheduler tries one of its members")


def test_a_member_reads_of_another_that_asks_for_what_cannot_be() -> None:
    broker = broker_of(FakeNode("n0", "ring", 8))
    broker.observe(in_gang(device_pod("a", 2, ASCEND), device_pod("b", 3, ASCEND), least=2), 0.0)
    assert "pod b: 3 devices can't be allocated on ascend-910; request 1, 2, 4 or 8" in lines(broker, "uid-a")


def test_a_member_that_is_not_to_be_planned_reads_no_more_than_is_known() -> None:
    assert lines(cluster(*pair(), solo="n0"), "uid-a", plan=False)[1] == (
        "its group is complete, and is planned when the scheduler tries one of its members"
    )


def test_to_ask_why_a_member_waits_changes_nothing() -> None:
    broker = cluster(*pair(), solo="n0")
    before = broker.snapshot(0.0)
    assert lines(broker, "uid-a") == lines(broker, "uid-a")
    assert broker.snapshot(0.0) == before
