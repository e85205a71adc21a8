"""Pods of Volcano behind our gate: planned alone or as a gang, pinned with their devices on record, bound by Volcano."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import NodeGone
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import NodeTerm, SelectorRequirement
from linkwise.testing.cluster import ASCEND, NVIDIA, FakeNode, device_pod, steers, woken
from support.volcano_cluster import GROUP, VolcanoCluster, job, single

if TYPE_CHECKING:
    from linkwise.model.views import PodView

TIME = "predicate-time"
GRANT = "linkwise.dev/grant"


def ring(name: str, used: str = "") -> FakeNode:
    """A node of eight chips; `used` are those that are not healthy."""
    return FakeNode(name, "ring", 8, unhealthy=frozenset(map(int, used)))


def rings(*names: str, **settings: float) -> VolcanoCluster:
    placing = PlacingSettings(group=GroupSettings(**settings), job_shape="per-pod")  # type: ignore[arg-type]  # its fields
    return VolcanoCluster(*map(ring, names), settings=placing)


def run(cluster: VolcanoCluster, *pods: PodView, least: int | None = None) -> None:
    """Submit pods, write their plans and let Volcano bind them."""
    cluster.submit(*pods, least=least)
    cluster.write()
    cluster.look()
    cluster.session()


def sentence_of(cluster: VolcanoCluster, reason: str) -> str:
    """The sentence of the only event of that reason."""
    (found,) = [effect for effect in cluster.effects if isinstance(effect, Event) and effect.reason == reason]
    return found.sentence


@pytest.mark.rule("003.record", level="L")
def test_a_pod_is_planned_with_its_pod_group_pinned_and_recorded_in_one_write() -> None:
    cluster = rings("a", "b")
    cluster.submit(single("p", 2))
    (steer,) = steers(cluster.effects)
    assert (steer.node, steer.pin, steer.gate) == ("a", "a", GATE)
    assert steer.annotations[ASCEND] == "Ascend910-0,Ascend910-1"
    assert {TIME, GRANT, GROUP_PLAN} <= steer.annotations.keys()
    assert [(entry.state, entry.node) for entry in cluster.broker.entries()] == [("PLANNED", "a")]


def test_the_devices_are_planned_until_volcano_has_bound_the_pod() -> None:
    cluster = rings("a")
    cluster.submit(single("p", 4))
    cluster.write()
    assert cluster.gated() == set()
    cluster.look()
    assert cluster.session() == ["p"]
    assert [(entry.state, entry.grant.offer.devices) for entry in cluster.broker.entries()] == [
        ("ASSIGNED", ring("a").devices(0, 1, 2, 3))
    ]
    assert cluster.broker.plans() == {}


def test_a_pod_without_a_pod_group_keeps_its_gate_however_long_it_takes() -> None:
    cluster = rings("a")
    pod = single("p", grouped=False)
    cluster.create(pod)
    cluster.step(3600.0)
    assert (cluster.write(), cluster.gated(), cluster.events("GateRemoved")) == ([], {"p"}, [])
    cluster.pods["p"] = replace(pod, annotations={GROUP: "podgroup-uid-p"}, version=2)
    cluster.see(cluster.pods["p"])
    cluster.step(3600.0)
    assert cluster.write() == []  # the object is missing still
    cluster.pod_group("default/podgroup-uid-p", 1)
    assert cluster.write() == ["p"]


def test_the_pod_group_may_come_before_the_pod_names_it() -> None:
    cluster = rings("a")
    cluster.pod_group("default/podgroup-uid-p", 1)
    pod = single("p", grouped=False)
    cluster.create(pod)
    assert cluster.write() == []
    cluster.pods["p"] = replace(pod, annotations={GROUP: "podgroup-uid-p"}, version=2)
    cluster.see(cluster.pods["p"])
    assert cluster.write() == ["p"]


@pytest.mark.rule("003.groups", "003.one", "003.faulty", level="L")
@pytest.mark.parametrize(
    ("chips", "nodes"),
    [
        # From the best to the worst, by what is not free: the priority groups A to D, then a lower capacity.
        (1, [("012", "4567"), ("012", "456"), ("0", "4567"), ("01", "4567"), ("", "4567"), ("", "")]),
        (2, [("01", "4567"), ("01", ""), ("", "4567"), ("", "456"), ("0", "4567"), ("0", "456")]),
        (4, [("", "4567"), ("", "456"), ("", "45"), ("", "4"), ("", "")]),
    ],
)
def test_a_pod_of_few_chips_goes_to_the_best_node_by_the_decision_table(
    chips: int, nodes: list[tuple[str, str]]
) -> None:
    """The chips that are not free are used by pods, so that all nodes have the capacity eight."""
    for left in range(len(nodes)):
        cluster = VolcanoCluster(
            *(ring(f"n{place}") for place in reversed(range(len(nodes)))), settings=PlacingSettings()
        )
        for place, used in enumerate(nodes):
            for chip in "".join(used) if place >= left else "01234567":
                cluster.see(taken(f"n{place}", int(chip)))
        cluster.submit(single("p", chips))
        (steer,) = steers(cluster.effects)
        assert steer.pin == f"n{left}"


def taken(node: str, chip: int) -> PodView:
    pod = device_pod(f"{node}-{chip}", 1, ASCEND)
    return replace(pod, node=node, phase="Running", annotations={ASCEND: f"Ascend910-{chip}"})


@pytest.mark.rule("003.faulty", level="L")
def test_a_node_with_a_faulty_chip_comes_after_all_others() -> None:
    nodes = [ring("a", "012"), ring("b", "0"), ring("c")]
    for count in (3, 2, 1):
        cluster = VolcanoCluster(*nodes[:count], settings=PlacingSettings())
        cluster.submit(single("p"))
        assert [steer.pin for steer in steers(cluster.effects)] == [nodes[count - 1].name]


@pytest.mark.rule("003.in-session", "003.full", level="L")
def test_fifty_pods_that_are_created_at_once_fill_as_few_nodes_as_possible_and_share_no_chip() -> None:
    cluster = rings(*(f"n{number}" for number in range(9)))
    run(cluster, *(single(f"p{number}", created=float(number)) for number in range(50)))
    homes = [(pod.node, pod.annotations[ASCEND]) for pod in cluster.pods.values()]
    assert len(set(homes)) == 50
    assert len({node for node, _ in homes}) == 7
    assert cluster.broker.drift == {}


def test_the_times_on_a_node_increase_even_if_the_clock_is_set_back() -> None:
    cluster = rings("a")
    times = []
    for number in range(4):
        run(cluster, single(f"p{number}"))
        times.append(int(cluster.pods[f"p{number}"].annotations[TIME]))
        cluster.now -= 1000.0
    assert times == sorted(set(times))


@pytest.mark.rule("001.gang", level="L")
def test_a_job_is_planned_whole_or_not_at_all() -> None:
    cluster = rings("a", "b")
    cluster.submit(*job("train", 8, 8, 8))
    cluster.step(60.0)
    assert (steers(cluster.effects), woken(cluster.effects), list(cluster.broker.entries())) == ([], [], [])
    cluster.nodes["c"] = ring("c")
    cluster.see(*ring("c").events())
    assert cluster.write() == ["train-0", "train-1", "train-2"]
    cluster.look()
    cluster.session()
    assert sorted(cluster.bound().values()) == ["a", "b", "c"]


def test_a_gang_that_does_not_fit_for_a_minute_causes_no_pod_write() -> None:
    cluster = rings("a")
    cluster.submit(*job("train", 8, 8))
    for _ in range(60):
        cluster.step(1.0)
        cluster.see(taken("a", 0), replace(taken("a", 0), deleting=True, stopped=True, version=9))
    assert (steers(cluster.effects), woken(cluster.effects)) == ([], [])


def test_members_without_devices_are_not_waited_for_and_not_written() -> None:
    cluster = rings("a")
    (worker, launcher) = job("train", 8, 0)
    launcher = replace(launcher, containers=(), gates=())
    cluster.submit(worker, launcher)
    assert cluster.write() == ["train-0"]


def test_more_pods_than_must_start_are_planned_as_they_come() -> None:
    cluster = rings("a", "b", "c")
    pods = job("train", 4, 4, 4, 4)
    run(cluster, *pods[:2], least=1)
    cluster.create(*pods[2:])
    for _ in range(3):
        cluster.write()
        cluster.look()
        cluster.session()
    assert len(cluster.bound()) == 4
    assert len(set(cluster.bound().values())) == 2


def test_pods_of_one_owner_are_no_job_and_may_have_any_number_of_chips() -> None:
    """Volcano makes one PodGroup for a ReplicaSet; the shapes of jobs are not for it."""
    cluster = VolcanoCluster(ring("a"), settings=PlacingSettings(job_shape="strict"))
    pods = [replace(single(f"p{number}", 2), annotations={GROUP: "podgroup-owner"}) for number in range(3)]
    run(cluster, *pods, least=1)
    for _ in range(3):
        cluster.write()
        cluster.look()
        cluster.session()
    assert len(cluster.bound()) == 3


@pytest.mark.rule("001.group", "001.gang", level="L")
def test_a_job_of_gpus_with_the_labels_of_the_seed_is_planned_as_one_group() -> None:
    labels = {
        "gputopology.scheduling.koordinator.sh/name": "nccl",
        "gputopology.scheduling.koordinator.sh/replica": "2",
    }
    pods = [replace(pod, labels=labels) for pod in job("train", 2, 2, resource=NVIDIA)]
    cluster = VolcanoCluster(FakeNode("a"), settings=PlacingSettings())
    cluster.submit(*pods)
    cluster.step(60.0)
    assert steers(cluster.effects) == []  # the PodGroup of the job requires both
    cluster.nodes["b"] = FakeNode("b", count=4)
    cluster.see(*FakeNode("b", count=4).events())
    cluster.write()
    cluster.look()
    cluster.session()
    assert cluster.bound() == {"train-0": "b", "train-1": "b"}


def test_the_node_is_added_to_every_term_of_the_affinity() -> None:
    cluster = rings("a", "b")
    zone = SelectorRequirement("zone", "DoesNotExist")
    cluster.submit(replace(single("p"), affinity=(NodeTerm((zone,)), NodeTerm((replace(zone, key="rack"),)))))
    cluster.write()
    name = SelectorRequirement("metadata.name", "In", ("a",))
    assert [term.fields for term in cluster.pods["p"].affinity or ()] == [(name,), (name,)]


def test_a_plan_that_volcano_does_not_carry_out_is_cleared_and_made_again_on_the_same_node() -> None:
    cluster = rings("a", "b", hold=60.0)
    cluster.submit(single("p", 4))
    cluster.write()
    cluster.step(61.0)
    assert sentence_of(cluster, "PlanExpired") == (
        "Volcano did not bind the planned members within 60 s, so their devices are free again; for its reason, run: "
        "kubectl describe podgroup -n default podgroup-uid-p"
    )
    assert cluster.write() == ["p"]
    assert (cluster.chips(), list(cluster.broker.entries())) == ({}, [])
    assert GRANT not in cluster.pods["p"].annotations
    cluster.step(100.0)
    assert cluster.write() == ["p"]
    assert cluster.chips() == {"p": "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3"}
    cluster.look()
    assert cluster.session() == ["p"]


def test_a_record_is_cleared_and_seen_so_before_another_one_is_written() -> None:
    cluster = rings("a")
    cluster.submit(single("p", 4))
    cluster.write()
    broken = replace(ring("a", "0"), version=2)
    cluster.see(*broken.events())  # the other ring is complete still
    (steer,) = cluster.queued.values()
    assert {key: text for key, text in steer.annotations.items() if key != GROUP_PLAN} == {
        ASCEND: "",
        TIME: "",
        GRANT: "",
    }
    assert cluster.write(1) == ["p"]
    assert cluster.chips() == {}
    assert cluster.write() == ["p"]
    assert cluster.chips() == {"p": "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7"}


@pytest.mark.parametrize("gone", ["podgroup", "pod"])
def test_what_is_deleted_while_gated_leaves_nothing(gone: str) -> None:
    cluster = rings("a")
    cluster.submit(*job("train", 8, 8))
    if gone == "podgroup":
        cluster.pod_group("default/train", None)
        cluster.nodes["b"] = ring("b")
        cluster.see(*ring("b").events())
        cluster.step(3600.0)
    else:
        cluster.delete("train-0")
    assert (cluster.write(), list(cluster.broker.entries())) == ([], [])


def test_a_node_that_is_gone_after_ungating_is_reported_with_what_to_do() -> None:
    cluster = rings("a", "b")
    cluster.submit(single("p", 8))
    cluster.write()
    del cluster.nodes["a"]
    cluster.see(NodeGone("a"))
    cluster.write()
    assert sentence_of(cluster, "PinnedNodeGone") == (
        "pod p was pinned to node a when its scheduling gate was removed, and that node is gone; delete the pod, so that its "
        "job creates another one"
    )
    assert (cluster.chips(), list(cluster.broker.entries())) == ({}, [])


def test_a_gated_member_goes_elsewhere_if_the_node_of_the_plan_is_lost_before_the_write() -> None:
    cluster = rings("a", "b")
    cluster.submit(single("p", 8))
    del cluster.nodes["a"]
    cluster.see(NodeGone("a"))
    assert cluster.write() == ["p"]
    cluster.look()
    cluster.session()
    assert cluster.bound() == {"p": "b"}


def test_a_plan_that_was_written_after_it_had_ended_is_cleared_and_made_again_where_the_pod_is_pinned() -> None:
    cluster = rings("a", "b")
    cluster.submit(single("p", 8))
    late = dict(cluster.queued)
    broken = replace(ring("a", "0"), version=2)
    cluster.see(*broken.events())
    assert cluster.queued["p"].pin == "b"
    cluster.queued = late  # the write was in flight, and the next one finds no gate
    cluster.write(1)
    assert cluster.write(1) == ["p"]
    assert cluster.chips() == {}
    cluster.nodes["a"] = replace(ring("a"), version=3)
    cluster.see(*cluster.nodes["a"].events())
    cluster.write()
    cluster.look()
    cluster.session()
    assert cluster.bound() == {"p": "a"}


@pytest.mark.parametrize("moment", ["before the write", "after the write", "after the first write", "after the end"])
def test_a_restart_at_any_moment_loses_no_chip_and_no_pod(moment: str) -> None:
    cluster = rings("a", "b", hold=60.0)
    cluster.submit(*job("train", 8, 8))
    if moment != "before the write":
        cluster.write(1 if moment == "after the first write" else None)
    if moment == "after the end":
        cluster.step(61.0)
        cluster.write()
    before = dict(cluster.chips())
    cluster.start()
    cluster.step(1.0)
    for _ in range(2):
        cluster.write()
    cluster.look()
    cluster.session()
    assert sorted(cluster.bound().values()) == ["a", "b"]
    assert cluster.chips().items() >= before.items()


def test_a_plan_on_ungated_pods_survives_a_restart_without_a_write() -> None:
    cluster = rings("a", "b")
    cluster.submit(*job("train", 8, 8))
    cluster.write()
    cluster.start()
    assert (cluster.write(), len(list(cluster.broker.entries()))) == ([], 2)


def test_a_pod_that_is_bound_after_its_plan_was_released_keeps_free_devices() -> None:
    cluster = rings("a", hold=60.0)
    cluster.submit(single("p", 4))
    cluster.write()
    cluster.look()
    cluster.step(61.0)
    cluster.session()  # the record was not cleared yet
    assert [(entry.pod, entry.state) for entry in cluster.broker.entries()] == [("uid-p", "ASSIGNED")]
    assert cluster.broker.drift == {}


def test_a_pod_that_is_bound_with_devices_of_others_is_reported_and_both_are_counted() -> None:
    cluster = rings("a", hold=60.0)
    cluster.submit(single("p", 8))
    cluster.write()
    cluster.look()
    cluster.step(61.0)
    cluster.write()
    other = replace(taken("a", 0), annotations={ASCEND: "Ascend910-0"})
    cluster.see(other)
    cluster.volcano_binds("p")  # with the annotations of before
    assert [drift.kind for drift in cluster.broker.drift["a"]] == ["twice"]
    assert any(getattr(effect, "reason", "") == "Drift" for effect in cluster.effects)


def test_devices_that_a_user_writes_on_a_pending_pod_are_not_believed_and_are_removed() -> None:
    cluster = rings("a")
    forged = {ASCEND: "Ascend910-7", GRANT: json.dumps({"version": 1}), "huawei.com/AscendReal": "Ascend910-7"}
    pod = single("p", grouped=False)
    cluster.create(replace(pod, annotations=forged))
    assert list(cluster.broker.entries()) == []
    cluster.pod_group("default/podgroup-uid-p", 1)
    cluster.pods["p"] = replace(pod, annotations={**forged, GROUP: "podgroup-uid-p"}, version=2)
    cluster.see(cluster.pods["p"])
    cluster.write()
    assert cluster.chips() == {"p": "Ascend910-0"}
    assert "huawei.com/AscendReal" not in cluster.pods["p"].annotations


def test_a_plan_gives_way_to_a_higher_priority_and_its_record_is_cleared() -> None:
    cluster = rings("a")
    cluster.submit(single("p", 8))
    cluster.write()
    cluster.submit(single("urgent", 8, priority=9))
    assert set(cluster.write()) == {"p", "urgent"}
    assert list(cluster.chips()) == ["urgent"]


def test_the_first_in_the_queue_is_that_of_the_highest_priority_and_then_the_oldest() -> None:
    cluster = rings("a")
    cluster.see(taken("a", 0))
    young, old, urgent = (
        single("y", 8, created=9.0),
        single("o", 8, created=5.0),
        single("u", 8, created=9.5, priority=1),
    )
    cluster.submit(young)
    cluster.submit(old)
    cluster.submit(urgent)
    cluster.see(replace(taken("a", 0), deleting=True, stopped=True, version=9))
    assert cluster.write() == ["u"]


def test_the_gate_of_pods_of_volcano_is_removed_if_gates_are_off() -> None:
    cluster = VolcanoCluster(ring("a"), settings=PlacingSettings(group=GroupSettings(gates=False)))
    cluster.submit(single("p"))
    cluster.write()
    assert (cluster.gated(), cluster.broker.plans()) == (set(), {})
