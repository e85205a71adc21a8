"""What a person reads who wonders about the devices a pod has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.verdict import Entry, Grant, Offer, Part
from linkwise.model.views import ContainerView, NodeView, Owner
from linkwise.sim.replay import Runner
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.vendors.machines import profile
from support.builders.explained_cluster import GPU, cluster, explained, lines, placed, pod
from support.state import state_of


def test_a_pod_on_the_nvlink_node_reads_why_it_is_there() -> None:
    runner = placed(cluster(nvlink="dgx1-v100", pcie="v100-pcie"), pod("train", GPU, 2))
    assert lines(runner, "train") == [
        "pod team/train has devices 0, 3 on node nvlink",
        "it requests 2 devices (nvidia.com/gpu); placed by link-affinity",
        "placed because node nvlink was the best of 2 nodes considered: link score 230, 6 free devices",
        "next best was node pcie: link score 50 instead of 230",
        "{0,3}: NV2+PHB between them, link score 230 (92% of the best pair on this machine)",
        "chosen: the best set of the best partition (total 920): {0,3} {1,2} {4,7} {5,6}",
        (
            "runner-up {2,3}: the set alone scores higher, but its partition has the same total of 920; "
            "tie broken by lowest device index"
        ),
        "if placed again now: the same devices",
        "the node agent allocates exactly these devices",
    ]


def test_a_pod_without_devices_reads_that_it_is_no_concern_of_ours() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("web", cpu="1"))
    assert lines(runner, "web") == ["pod team/web requests no devices; Linkwise does not keep it pending"]
    assert explain_pod(runner.broker, "unknown", 0.0) is None


def test_a_pod_that_ended_holds_nothing() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 2))
    view = runner.pod("train")
    assert view is not None
    runner.show(replace(view, phase="Succeeded", version=9))
    assert lines(runner, "train") == ["pod team/train has finished and holds no devices"]


NO_HEALTHY = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"


@pytest.mark.parametrize(
    ("owner", "follows"),
    [
        (None, "it has no controller that creates another: delete it and create it again"),
        (
            Owner("Job", "train", "j"),
            "Job train is expected to create another one; this one counts towards its backoffLimit",
        ),
        (Owner("ReplicaSet", "serve", "r"), "ReplicaSet serve is expected to create another one"),
    ],
)
def test_a_pod_that_the_kubelet_rejected_reads_why_what_follows_and_what_to_do(
    owner: Owner | None, follows: str
) -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 8, owner=owner))
    view = runner.pod("train")
    assert view is not None
    runner.show(replace(view, phase="Failed", rejection=NO_HEALTHY, version=9))
    assert lines(runner, "train") == [
        f"pod team/train was rejected by the kubelet of node a and holds no devices: {NO_HEALTHY}",
        f"the kubelet does not start it again; {follows}",
        "if pods are rejected again, look at the device plugin of node a: linkwise explain node/a",
    ]
    placed(runner, pod("next", GPU, 8))  # its devices are free at once


def test_a_pod_on_a_node_without_link_data_reads_both_ways_to_publish_it() -> None:
    runner = Runner(Broker())
    runner.show(NodeView("a", capacity={GPU: "4", "cpu": "8"}, allocatable={GPU: "4", "cpu": "8"}))
    shown = lines(placed(runner, pod("train", GPU, 2)), "train")
    assert "chosen: no link data for these devices; the lowest free devices are taken" in shown
    assert shown[-1] == "for link data, run the node agent (`linkwise agent`) or `linkwise topo --annotate node/NAME`"


def test_a_bind_of_unknown_outcome_says_so() -> None:
    runner = Runner(Broker())
    runner.show(*fleet_node(profile("dgx1-v100"), "a", inventory=False))
    runner.place(pod("train", GPU, 8), "unknown")
    assert lines(runner, "train") == [
        "pod team/train is being bound to devices 0, 1, 2, 3, 4, 5, 6, 7 on node a",
        "the result of its bind is unknown; the devices stay reserved until the pod is observed or read again",
        "it requests 8 devices (nvidia.com/gpu); placed by link-affinity",
        "placed because node a was the only node that the scheduler asked about: link score 3000, 0 free devices",
        (
            "{0,1,2,3,4,5,6,7}: 2 pairs NV2+PIX, 4 pairs NV2+PHB, 2 pairs NV2+SYS, 2 pairs NV1+PIX, 4 pairs NV1+PHB, "
            "2 pairs NV1+SYS, 12 pairs SYS, link score 3000"
        ),
        "chosen: the best set of the best partition (total 3000): {0,1,2,3,4,5,6,7}",
        "if placed again now: the same devices",
        "these devices are expected; the node's device plugin makes the final choice",
    ]


def test_the_explanation_of_a_pod_without_a_record_says_so() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("wild", GPU, 2, node="a", phase="Running"))
    assert lines(runner, "wild") == [
        "pod team/wild has 2 devices (nvidia.com/gpu) on node a",
        "it requests 2 devices (nvidia.com/gpu); placed by another scheduler",
        "which devices it uses is not recorded; its request is counted as used on its node",
    ]


def test_devices_reserved_by_a_plan_are_shown_before_the_bind() -> None:
    runner = cluster(a="dgx-a100")
    runner.show(pod("member", GPU, 2))
    offer = Offer("a", (Part("main", ("nvidia-a-4", "nvidia-a-5")),))
    state_of(runner.broker).cluster.ledger.plan(
        [Entry(Grant("member", "bandwidth", offer, "p1"), "PLANNED", expires=99.0)]
    )
    explanation = lines(runner, "member")
    assert explanation[0] == "pod team/member has devices 4, 5 on node a reserved for it"
    assert "{4,5}: slowest pair 576 GB/s (typical for its link kind)" in explanation


def test_records_that_disagree_are_reported_to_the_pods_that_they_concern() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 1), pod("other", GPU, 1))
    view = runner.pod("train")
    assert view is not None
    record = view.annotations["linkwise.dev/grant"].replace("nvidia-a-0", "nvidia-a-7")
    runner.show(replace(view, annotations={"linkwise.dev/grant": record}, version=9))
    drift = "node a: the record of pod team/train was changed to nvidia-a-7; nvidia-a-0 still counts"
    assert drift in lines(runner, "train")
    assert drift not in lines(runner, "other")


def test_a_pod_that_is_not_where_it_would_go_now_reads_what_is_better() -> None:
    runner = cluster(pcie="v100-pcie")
    placed(runner, pod("train", GPU, 2))
    runner.show(*fleet_node(profile("dgx1-v100"), "nvlink"))
    explanation = lines(runner, "train")
    reason = "placed because node pcie was the only node that the scheduler asked about: link score 50, 6 free devices"
    assert reason in explanation
    assert "if placed again now: node nvlink (link score 230 instead of 50)" in explanation


def test_a_node_that_would_be_chosen_now_is_named_with_the_term_that_decides() -> None:
    runner = placed(cluster(a="dgx-a100"), pod("train", GPU, 2))
    runner.show(*fleet_node(profile("dgx-a100"), "b"))
    placed(runner, replace(pod("other", GPU, 4), node_selector={"kubernetes.io/hostname": "b"}))
    assert lines(runner, "train")[-2] == ("if placed again now: node b (other pods would lose no sets of 8 there)")


def test_a_set_that_would_not_be_chosen_now_says_which_would() -> None:
    runner = placed(cluster(a="dgx1-v100"), pod("first", GPU, 2), pod("second", GPU, 2))
    runner.show(PodDeleted("first"))
    choice = explained(runner, "second").choice
    assert choice is not None
    assert (choice.devices, choice.now) == ((1, 2), (0, 3))
    again = "if placed again now: {0,3} of the same node; {1,2}: its partition has the same total of 920; "
    assert again in " ".join(lines(runner, "second"))


def test_devices_are_reported_by_container() -> None:
    containers = tuple(ContainerView(name, limits={GPU: "1"}) for name in ("left", "right"))
    runner = placed(cluster(a="dgx-a100"), replace(pod("pair"), containers=containers))
    assert lines(runner, "pair")[0] == (
        "pod team/pair has device 0 for container left and device 1 for container right, on node a"
    )
    assert [part.indices for part in explained(runner, "pair").devices] == [(0,), (1,)]


def test_the_terms_of_a_score_have_names() -> None:
    runner = placed(cluster(nvlink="dgx1-v100"), pod("train", GPU, 2))
    terms = {term.name: (term.value, term.leading) for term in explained(runner, "train").terms}
    assert (terms["known"], terms["links"], terms["packing"], terms["score"]) == (
        (1, True),
        (204, True),
        (-6, False),
        (230, False),
    )
    assert [name for name in terms if name.startswith("sets of")] == [f"sets of {size}" for size in (16, 8, 4, 2)]


def test_a_pod_whose_device_failed_is_explained_with_the_devices_that_fit_now() -> None:
    box = FakeNode("a", count=4)
    broker = broker_of(box, FakeNode("b", count=4))
    place(broker, device_pod("p", 2), "a")
    broker.observe(replace(box, unhealthy=frozenset({0})).events(), 1.0)
    explanation = explain_pod(broker, "uid-p", 1.0)
    assert explanation is not None
    said = explanation_lines(explanation)
    again = "if placed again now: not these devices, as one is unhealthy or the node has changed; 1 other node would be feasible"
    assert again in said
    assert not any("no other node" in line for line in said)
