"""Explanations of gated pods of Volcano: what they wait for, in plain words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.broker.watch_events import NodeGone
from linkwise.explain.pod import explain_pod, explanation_lines
from linkwise.explain.published.publishing import is_ours
from linkwise.explain.text.pod import pending_sentence
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import ASCEND, FakeNode, device_pod
from support.volcano_cluster import VolcanoCluster, job, single


def cluster_of(*names: str) -> VolcanoCluster:
    settings = PlacingSettings(group=GroupSettings(hold=60.0))
    return VolcanoCluster(*(FakeNode(name, "ring", 8) for name in names), settings=settings)


def explained(cluster: VolcanoCluster, name: str = "p") -> tuple[str, str]:
    """All lines, and the sentence of the condition."""
    report = explain_pod(cluster.broker, f"uid-{name}", cluster.now)
    assert report
    return "\n".join(explanation_lines(report)), pending_sentence(report)


def test_a_pod_without_a_pod_group_says_that_it_waits_for_it() -> None:
    cluster = cluster_of("a")
    cluster.create(single("p", grouped=False))
    lines, sentence = explained(cluster)
    assert "it waits for its PodGroup: Volcano's controllers create one" in lines
    assert "it waits for its PodGroup" in sentence


def test_a_pod_whose_pod_group_does_not_exist_says_so() -> None:
    cluster = cluster_of("a")
    cluster.create(single("p"))
    assert "PodGroup default/podgroup-uid-p, which the pod names, does not exist" in explained(cluster)[1]


def test_an_incomplete_gang_says_how_many_are_missing() -> None:
    cluster = cluster_of("a")
    cluster.submit(job("train", 8, 8)[0], least=2)
    assert (
        "only 1 member of the pod's gang has been created, but 2 must start together"
        in explained(cluster, "train-0")[1]
    )


@pytest.mark.rule("003.predicate", level="L")
def test_a_pod_that_does_not_fit_says_how_many_chips_each_ring_has() -> None:
    cluster = cluster_of("a")
    for chip in (1, 2, 3, 5, 6, 7):
        pod = device_pod(f"h{chip}", 1, ASCEND)
        cluster.see(replace(pod, node="a", phase="Running", annotations={ASCEND: f"Ascend910-{chip}"}))
    cluster.submit(single("p", 2))
    lines, sentence = explained(cluster)
    assert "ring 0 has 1 idle, ring 1 has 1 idle" in lines
    assert "ring 0 has 1 idle, ring 1 has 1 idle" in sentence


def test_a_planned_pod_says_where_volcano_is_expected_to_bind_it() -> None:
    cluster = cluster_of("a")
    cluster.submit(single("p", 2))
    cluster.write()
    lines, sentence = explained(cluster)
    expected = "Volcano is expected to bind it to node a; if it does not, run: kubectl describe podgroup -n default podgroup-uid-p"
    assert expected in lines
    assert expected in sentence
    assert is_ours(cluster.broker, cluster.pods["p"], ())


def test_a_pod_that_volcano_did_not_bind_says_so_and_where_it_is_pinned() -> None:
    cluster = cluster_of("a")
    cluster.submit(single("p", 2))
    cluster.write()
    cluster.step(61.0)
    cluster.write()
    lines, sentence = explained(cluster)
    assert "Volcano did not bind it in time; run: kubectl describe podgroup -n default podgroup-uid-p" in sentence
    assert "it was pinned to node a when its scheduling gate was removed, and is planned again there only" in lines


def test_a_pod_whose_node_is_gone_says_what_to_do() -> None:
    cluster = cluster_of("a", "b")
    cluster.submit(single("p", 2))
    cluster.write()
    del cluster.nodes["a"]
    cluster.see(NodeGone("a"))
    assert "that node is gone; delete the pod, so that its job creates another one" in explained(cluster)[0]
