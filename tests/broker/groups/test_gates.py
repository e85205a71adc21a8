"""Gangs whose members have our scheduling gate: planned in the background, steered, then ungated; never stuck behind it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject, NodeGone
from linkwise.dialects.groups.conventions import SCHEDULER_PLUGINS
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, device_pod, gated, in_gang, in_group, steers, woken
from support.gated_cluster import GatedCluster

if TYPE_CHECKING:
    from linkwise.model.views import PodView

OTHER = "kueue.x-k8s.io/admission"


def gang(*sizes: int, name: str = "g", least: int | None = None, total: int | None = None) -> list[PodView]:
    pods = (device_pod(f"{name}{number}", size) for number, size in enumerate(sizes))
    return gated(in_gang(*pods, least=least or len(sizes), name=name, total=total))


def two_nodes(**settings: bool | float | tuple[str, ...]) -> GatedCluster:
    placing = PlacingSettings(group=GroupSettings(**settings))  # type: ignore[arg-type]  # names of its fields
    return GatedCluster(FakeNode("a"), FakeNode("b"), settings=placing)


@pytest.mark.rule("001.gang", "001.steer", level="L")
def test_a_complete_gang_is_planned_without_a_call_and_steered_before_it_is_ungated() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    assert [(steer.name, steer.gate) for steer in steers(cluster.effects)] == [("g0", GATE), ("g1", GATE)]
    cluster.write()
    assert cluster.gated() == set()
    assert sorted(cluster.nominated().values()) == ["a", "b"]
    cluster.bind_all()
    assert cluster.bound() == {"g0": "a", "g1": "b"}


def test_each_member_carries_its_own_placement_and_no_other() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write()
    record = json.loads(cluster.pods["g1"].annotations[GROUP_PLAN])
    devices = {"containers": {"main": {"devices": [0, 1]}}, "node": "b"}
    assert record["groups"] == {"default/g": {"generation": 1, "members": {"uid-g1": devices}}}
    assert record["pod"] == "uid-g1"


def test_nothing_is_written_and_nothing_reserved_while_a_member_is_missing() -> None:
    cluster = two_nodes()
    cluster.create(gang(2, 2)[0])
    cluster.step(100.0)
    assert steers(cluster.effects) == []
    assert list(cluster.broker.entries()) == []


@pytest.mark.rule("001.gang", level="L")
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_unequal_members_are_planned_alike_in_every_order_of_creation(order: tuple[int, ...]) -> None:
    cluster = GatedCluster(FakeNode("a", count=4), FakeNode("b", count=4))
    members = gang(4, 2, 1, 1)
    cluster.create(*(members[number] for number in order))
    cluster.write()
    cluster.bind_all()
    assert len(cluster.bound()) == 4
    assert cluster.gated() == set()


def test_a_gate_of_somebody_else_keeps_the_gang_waiting_and_is_never_removed() -> None:
    cluster = two_nodes()
    first, second = gang(2, 2)
    cluster.create(first, replace(second, gates=(OTHER, GATE)))
    assert steers(cluster.effects) == []
    cluster.pods["g1"] = replace(cluster.pods["g1"], gates=(GATE,), version=2)
    cluster.see(cluster.pods["g1"])
    assert cluster.write() == ["g0", "g1"]


@pytest.mark.rule("001.gang", level="L")
def test_a_gang_that_does_not_fit_holds_nothing_and_is_ungated_when_room_appears() -> None:
    cluster = two_nodes()
    cluster.create(device_pod("blocker", 1))
    cluster.bind("blocker")
    cluster.create(*gang(2, 2))
    assert [entry.pod for entry in cluster.broker.entries()] == ["uid-blocker"]
    assert cluster.events("GroupDoesNotFit") == ["g0", "g1"]
    cluster.step(1000.0)
    assert cluster.write() == []
    cluster.delete("blocker")
    assert cluster.write() == ["g0", "g1"]


def test_a_gang_that_does_not_fit_is_reported_once() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2, 2))
    for number in range(3):
        cluster.create(device_pod(f"passer-by-{number}", 2))
        cluster.bind(f"passer-by-{number}")
        cluster.delete(f"passer-by-{number}")
    assert cluster.events("GroupDoesNotFit") == ["g0", "g1", "g2"]


def test_gated_gangs_are_planned_by_priority_and_then_age() -> None:
    cluster = two_nodes()
    cluster.create(device_pod("blocker", 2))
    cluster.bind("blocker")
    young, old, urgent = gang(2, 2, name="y"), gang(2, 2, name="o"), gang(2, 2, name="u")
    cluster.create(*(replace(pod, created=900.0) for pod in young), *(replace(pod, created=500.0) for pod in old))
    cluster.create(*(replace(pod, created=950.0, priority=1) for pod in urgent))
    cluster.delete("blocker")
    started = []
    for _ in range(3):
        names = cluster.write()
        cluster.bind_all()
        started.append(names[0])
        for name in names:
            cluster.delete(name)
    assert started == ["u0", "o0", "y0"]


@pytest.mark.rule("001.replan", level="L")
def test_a_plan_whose_node_is_lost_before_bind_is_rewritten_on_all_members() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2))
    cluster.write()
    del cluster.nodes["b"]
    cluster.see(NodeGone("b"))
    assert cluster.write() == ["g0", "g1"]
    assert cluster.nominated() == {"g0": "a", "g1": "c"}
    cluster.bind_all()
    assert cluster.bound() == {"g0": "a", "g1": "c"}


def test_without_a_plan_the_nomination_of_ungated_members_is_removed_and_they_hold_nothing() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write()
    del cluster.nodes["b"]
    cluster.see(NodeGone("b"))
    assert cluster.write() == ["g0", "g1"]
    assert cluster.nominated() == {}
    assert list(cluster.broker.entries()) == []
    assert cluster.filter("g0").nodes == []


def test_a_plan_that_is_made_again_for_ungated_members_removes_no_gate() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2))
    cluster.write()
    cluster.effects.clear()
    del cluster.nodes["b"]
    cluster.see(NodeGone("b"))
    assert {(steer.name, steer.gate) for steer in steers(cluster.effects)} == {("g0", ""), ("g1", "")}


def test_observing_what_was_written_on_a_member_takes_as_much_work_in_a_large_gang_as_in_a_small_one() -> None:
    """All members of a gang are written one after the other."""
    small, large = (calls_to_write_one(size) for size in (8, 128))
    assert large < 1.5 * small


def calls_to_write_one(size: int) -> int:
    """Return the number of Python calls."""
    cluster = GatedCluster(*(FakeNode(f"n{number:02}") for number in range(size // 2)))
    cluster.create(*gang(*[1] * size))
    cluster.write(1)  # with it, what follows from the creation
    before, count = sys.getprofile(), 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        cluster.write(1)
    finally:
        sys.setprofile(before)
    return count


def test_members_that_are_not_ungated_yet_stay_gated_when_their_plan_ends() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write(1)
    del cluster.nodes["b"]
    cluster.see(NodeGone("b"))
    cluster.write()
    assert cluster.gated() == {"g1"}
    cluster.nodes["b"] = FakeNode("b")
    cluster.see(*cluster.nodes["b"].events())
    cluster.write()
    assert (cluster.gated(), set(cluster.nominated().values())) == (set(), {"a", "b"})


def test_a_call_with_the_nominated_node_of_an_earlier_plan_does_not_plan_again() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2))
    cluster.write()
    del cluster.nodes["b"]
    cluster.see(NodeGone("b"))
    stale = replace(cluster.pods["g1"], nominated="a")
    answer = cluster.broker.filter(stale, ["a"], cluster.now)
    assert answer.nodes == []
    assert cluster.broker.plans()["default/g"].placements["uid-g1"].node == "c"
    assert cluster.broker.filter(stale, ["a", "c"], cluster.now).nodes == ["c"]


def test_a_planned_node_that_is_not_named_while_the_plan_is_written_is_kept_and_the_member_woken_later() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write(1)
    assert cluster.filter("g0", ["b"]).nodes == []  # a is counted as full, for whatever is nominated there
    assert cluster.broker.plans()["default/g"].placements["uid-g0"].node == "a"
    cluster.effects.clear()
    cluster.write()
    cluster.step()
    assert woken(cluster.effects) == ["g0"]
    assert cluster.filter("g0").nodes == ["a"]


def test_a_planned_node_that_is_not_named_afterwards_is_planned_around() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2))
    cluster.write()
    planned = cluster.pods["g0"].nominated
    names = [name for name in cluster.nodes if name != planned]
    assert cluster.filter("g0", names).nodes != []
    cluster.write()
    assert cluster.pods["g0"].nominated != planned


def test_a_plan_that_expires_is_released_and_its_nominations_are_removed() -> None:
    cluster = two_nodes(hold=10.0, longest_hold=10.0)
    cluster.create(*gang(2, 2))
    cluster.write()
    cluster.step(11.0)
    cluster.write()
    assert (cluster.nominated(), list(cluster.broker.entries())) == ({}, [])
    cluster.step(100.0)
    cluster.write()
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_a_backoff_of_gated_members_ends_by_itself() -> None:
    cluster = two_nodes(hold=10.0, longest_hold=10.0)
    cluster.create(*gang(2, 2))
    cluster.queued.clear()  # as if nothing could be written
    cluster.step(11.0)
    cluster.step(100.0)
    assert cluster.write() == ["g0", "g1"]
    assert cluster.gated() == set()


@pytest.mark.parametrize("written", [0, 1, 2, 3])
@pytest.mark.rule("001.gang", "001.replan", level="L")
def test_a_restart_in_the_middle_of_ungating_ends_with_a_whole_gang(written: int) -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2, 2))
    cluster.write(written)
    cluster.pods["single"] = device_pod("single", 2, created=2000.0)
    cluster.start()
    cluster.bind("single")
    cluster.step()
    cluster.write()
    cluster.bind_all()
    assert set(cluster.bound()) == ({"g0", "g1", "g2"} if written else {"single"})


def test_a_plan_on_ungated_members_survives_a_restart_unchanged() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write()
    before = cluster.broker.plans()["default/g"].placements
    cluster.start()
    assert cluster.broker.plans()["default/g"].placements == before
    assert cluster.write() == []


def test_a_plan_whose_devices_are_taken_at_a_restart_is_made_again() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(2, 2))
    cluster.write()
    cluster.nodes["b"] = replace(cluster.nodes["b"], unhealthy=frozenset({0}))
    cluster.start()
    cluster.write()
    assert cluster.nominated() == {"g0": "a", "g1": "c"}


def test_a_nomination_beside_a_gate_that_is_left_from_a_previous_instance_is_removed() -> None:
    cluster = two_nodes()
    cluster.create(*(replace(pod, nominated="a") for pod in gang(9, 9)))  # no node has as many
    assert {(steer.name, steer.node, steer.gate) for steer in steers(cluster.effects)} == {
        ("g0", "", ""),
        ("g1", "", ""),
    }
    cluster.write()
    assert cluster.nominated() == {}
    assert cluster.gated() == {"g0", "g1"}
    cluster.step(100.0)
    assert len(steers(cluster.effects)) == 2, "removed once"


def test_a_record_beside_a_gate_is_not_believed() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write()
    forged = [replace(pod, gates=(GATE,), nominated="") for pod in cluster.pods.values()]
    other = Broker()
    other.see([event for node in cluster.nodes.values() for event in node.events()])
    other.see(forged)
    while other.recover(cluster.now):
        pass
    assert other.plans() == {}


def test_an_ungated_member_is_believed_for_itself_alone() -> None:
    cluster = GatedCluster(FakeNode("a"), FakeNode("b"), FakeNode("c"))
    cluster.create(*gang(1, 1))
    cluster.write()
    record = json.loads(cluster.pods["g0"].annotations[GROUP_PLAN])
    record["groups"]["default/g"]["members"]["uid-g1"] = {"node": "c", "containers": {"main": {"devices": [0]}}}
    keys = {**cluster.pods["g0"].annotations, GROUP_PLAN: json.dumps(record)}
    cluster.pods["g0"] = replace(cluster.pods["g0"], annotations=keys)
    cluster.start()
    assert cluster.broker.plans()["default/g"].nodes == ("a",)


def test_a_recreated_member_joins_its_siblings() -> None:
    cluster = GatedCluster(FakeNode("a", count=4), FakeNode("b", count=4))
    members = gang(2, 2)
    cluster.create(*members)
    cluster.write()
    cluster.bind_all()
    cluster.delete("g1")
    cluster.create(replace(members[1], uid="uid-again", version=99))
    cluster.write()
    cluster.bind_all()
    assert cluster.bound() == {"g0": "a", "g1": "a"}


def test_a_member_that_is_recreated_before_it_is_bound_is_planned_with_its_gang() -> None:
    cluster = two_nodes()
    members = gang(2, 2)
    cluster.create(*members)
    cluster.write(1)
    cluster.delete("g1")
    assert list(cluster.broker.entries()) == []
    cluster.create(replace(members[1], uid="uid-again", version=99))
    cluster.write()
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_members_beyond_the_number_of_the_gang_are_ungated_without_a_plan() -> None:
    cluster = GatedCluster(FakeNode("a", count=8))
    cluster.create(*gang(2, 2, 2, least=2, total=2))
    cluster.write()
    assert cluster.gated() == set()
    assert GROUP_PLAN not in cluster.pods["g2"].annotations
    cluster.bind_all()
    assert len(cluster.bound()) == 3


def test_members_that_the_plan_leaves_out_stay_gated_until_there_is_room() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2, 2, least=2, total=3))
    cluster.write()
    cluster.bind_all()
    assert cluster.gated() == {"g2"}
    cluster.delete("g0")
    cluster.step(11.0)  # a replacement may come
    cluster.write()
    cluster.bind_all()
    assert set(cluster.bound()) == {"g1", "g2"}


def test_members_without_devices_are_ungated_with_the_others() -> None:
    cluster = two_nodes()
    launcher = replace(device_pod("launcher"), containers=())
    cluster.create(*gated(in_gang(launcher, device_pod("w0", 2), device_pod("w1", 2), least=3)))
    assert set(cluster.write()) == {"launcher", "w0", "w1"}
    assert cluster.gated() == set()


def test_members_of_a_group_that_is_not_a_gang_are_ungated_without_a_plan() -> None:
    cluster = two_nodes()
    cluster.create(*gated(in_group(device_pod("p0", 2), device_pod("p1", 2))))
    cluster.write()
    assert (cluster.gated(), cluster.nominated(), cluster.broker.plans()) == (set(), {}, {})
    cluster.bind_all()
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_a_gang_that_is_not_one_any_more_is_ungated() -> None:
    cluster = two_nodes()
    pods = [replace(pod, labels={SCHEDULER_PLUGINS: "g"}) for pod in gated([device_pod("p0", 2), device_pod("p1", 2)])]
    cluster.see(pod_group({"minMember": 3}))
    cluster.create(*pods)
    assert cluster.write() == []
    cluster.see(pod_group({}))
    cluster.write()
    assert cluster.gated() == set()


@pytest.mark.parametrize("minimum", [2, 1])
def test_a_minimum_that_is_lowered_lets_the_gang_start(minimum: int) -> None:
    cluster = two_nodes(window=1.0)
    pods = [replace(pod, labels={SCHEDULER_PLUGINS: "g"}) for pod in gated([device_pod("p0", 2), device_pod("p1", 2)])]
    cluster.see(pod_group({"minMember": 3}))
    cluster.create(*pods)
    cluster.see(pod_group({"minMember": minimum}))
    cluster.write()
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_a_minimum_that_is_raised_ends_the_plan_and_keeps_what_is_gated_gated() -> None:
    cluster = two_nodes()
    pods = [replace(pod, labels={SCHEDULER_PLUGINS: "g"}) for pod in gated([device_pod("p0", 2), device_pod("p1", 2)])]
    cluster.see(pod_group({"minMember": 2}))
    cluster.create(*pods)
    cluster.write(1)
    cluster.see(pod_group({"minMember": 3}))
    cluster.write()
    assert (cluster.gated(), cluster.nominated()) == ({"p1"}, {})
    assert cluster.filter("p0").nodes == []


def test_gated_pods_whose_pod_group_never_comes_are_ungated_in_the_end() -> None:
    cluster = two_nodes(window=10.0)
    cluster.create(*(replace(pod, labels={SCHEDULER_PLUGINS: "g"}) for pod in gated([device_pod("p0", 2)])))
    assert cluster.write() == []
    cluster.step(11.0)
    cluster.write()
    assert cluster.gated() == set()
    assert cluster.bind("p0")


def test_a_gated_pod_in_no_group_is_ungated_with_a_warning() -> None:
    cluster = two_nodes()
    cluster.create(*gated([device_pod("p")]))
    assert cluster.events("GateRemoved") == ["p"]
    cluster.write()
    assert cluster.bind("p")


def test_a_gated_pod_that_leaves_its_gang_is_ungated() -> None:
    cluster = two_nodes()
    (member, _) = gang(2, 2)
    cluster.create(member)
    cluster.pods["g0"] = replace(member, annotations={}, version=2)
    cluster.see(cluster.pods["g0"])
    cluster.write()
    assert cluster.gated() == set()


def test_pods_of_other_schedulers_are_ungated_with_a_warning_if_ours_are_named() -> None:
    cluster = two_nodes(schedulers=("linkwise-scheduler",))
    cluster.create(*gang(2, 2))
    cluster.write()
    assert cluster.events("GateRemoved") == ["g0", "g1"]
    assert (cluster.gated(), cluster.broker.plans()) == (set(), {})
    ours = [replace(pod, scheduler="linkwise-scheduler") for pod in gang(2, 2, name="h")]
    cluster.create(*ours)
    cluster.write()
    assert set(cluster.nominated()) == {"h0", "h1"}


def test_with_the_feature_off_gates_are_removed_and_gangs_are_planned_when_they_are_tried() -> None:
    cluster = two_nodes(gates=False)
    cluster.create(*gang(2, 2))
    assert cluster.broker.plans() == {}
    cluster.write()
    assert (cluster.gated(), cluster.nominated()) == (set(), {})
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_gangs_that_start_together_are_ungated_together() -> None:
    cluster = two_nodes()
    left = gated(in_gang(device_pod("l", 2), least=1, name="left", bundle="left right"))
    right = gated(in_gang(device_pod("r", 2), least=1, name="right", bundle="left right"))
    cluster.create(*left)
    assert cluster.write() == []
    cluster.create(*right)
    assert cluster.write() == ["l", "r"]
    cluster.start()
    assert set(cluster.broker.plans()) == {"default/left", "default/right"}
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_a_pod_without_our_gate_is_never_steered() -> None:
    cluster = two_nodes()
    cluster.create(*in_gang(device_pod("p0", 2), device_pod("p1", 2), least=2))
    cluster.bind("p0")
    cluster.start()
    cluster.bind("p1")
    assert len(cluster.bound()) == 2
    assert steers(cluster.effects) == []


def test_members_with_and_without_the_gate_start_together() -> None:
    cluster = two_nodes()
    first, second = gang(2, 2)
    cluster.create(replace(first, gates=()), second)
    assert cluster.write() == ["g1"]
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def test_a_plan_of_gated_members_gives_way_to_a_higher_priority_and_is_made_again() -> None:
    cluster = two_nodes()
    cluster.create(*gang(2, 2))
    cluster.write()
    cluster.create(device_pod("urgent", 2, priority=9))
    assert cluster.bind("urgent")
    cluster.write()
    assert cluster.nominated() == {}
    cluster.delete("urgent")
    cluster.step(100.0)
    cluster.bind_all()
    cluster.write()
    cluster.bind_all()
    assert len(cluster.bound()) == 2


def pod_group(spec: dict[str, object]) -> ClusterObject:
    return ClusterObject(KINDS["scheduler-plugins"], "default/g", {"spec": spec})
