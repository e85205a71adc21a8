"""What a reader that may see some namespaces only reads about pods, groups and claims of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.reasons.phrases import OTHER_GROUP, OTHER_NAMESPACE, OTHER_POD, groups_text, pod_text
from linkwise.engine.usage import Drift, drift_text
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import claim_text, explain_node
from linkwise.explain.pod import explain_pod
from linkwise.explain.reports import Leaver, Remedy
from linkwise.explain.text.phrases import remedy_line
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.verdict import Reason
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, place

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

OWN = frozenset({"team-a"})
FIRST = Leaver("", OTHER_POD, devices=4)


def cluster() -> Broker:
    """A pod of team-a waits for devices that two pods of team-b have; another one shares a device."""
    broker = broker_of(FakeNode("a", count=4), FakeNode("s", "share", count=1))
    place(broker, device_pod("rival", 2, namespace="team-b"), "a")
    place(broker, device_pod("second", 2, namespace="team-b"), "a")
    place(broker, device_pod("sharer", 4, MEMORY, namespace="team-b"), "s")
    broker.observe([device_pod("p", 2, namespace="team-a"), device_pod("q", 4, MEMORY, namespace="team-a")], 1.0)
    return broker


def lines_of(broker: Broker, uid: str, readable: frozenset[str] | None = OWN) -> list[str]:
    report = explain_pod(broker, uid, 1.0, readable=readable)
    assert report is not None
    return explanation_lines(report)


def test_pods_that_would_have_to_finish_are_counted_and_not_named() -> None:
    broker = cluster()
    assert "it fits on node a once pod team-b/rival (2 devices) finishes" in lines_of(broker, "uid-p", None)
    assert "it fits on node a once a pod of another namespace (2 devices) finishes" in lines_of(broker, "uid-p")
    report = explain_pod(broker, "uid-p", 1.0, readable=OWN)
    assert report is not None
    assert {(pod.uid, pod.name) for remedy in report.remedies for pod in remedy.pods} == {("", OTHER_POD)}


def test_the_namespaces_that_share_a_device_are_not_named() -> None:
    found = [line for line in lines_of(cluster(), "uid-q") if "devices with free memory are used by" in line]
    assert [line.partition(": ")[2].partition(" (")[0] for line in found] == [
        "devices with free memory are used by another namespace, and namespace team-a can't share them"
    ]


def test_a_node_keeps_a_line_for_each_pod_that_has_no_name() -> None:
    broker = cluster()
    named, unnamed = explain_node(broker, "a", 1.0), explain_node(broker, "a", 1.0, OWN)
    assert named is not None
    assert unnamed is not None
    lines = explanation_lines(unnamed)
    assert [line for line in lines if "another namespace" in line] == [
        "devices 0, 1: a pod of another namespace",
        "devices 2, 3: a pod of another namespace",
    ]
    assert len(lines) == len(explanation_lines(named))


def test_the_devices_of_a_node_show_amounts_and_states_without_names() -> None:
    (node,) = inspect_nodes(cluster(), "s", 1.0, OWN)
    (device,) = node.devices
    (pod,) = device.pods
    assert (device.namespaces, device.domains) == ((OTHER_NAMESPACE,), (OTHER_NAMESPACE,))
    assert (pod.uid, pod.namespace, pod.name, pod.share, pod.state) == ("", "", OTHER_POD, 4, "bound")


def test_names_of_readable_namespaces_stay() -> None:
    broker = cluster()
    everything = frozenset({"team-a", "team-b"})
    assert lines_of(broker, "uid-p", everything) == lines_of(broker, "uid-p", None)
    assert inspect_nodes(broker, None, 1.0, everything) == inspect_nodes(broker, None, 1.0)


def test_the_owner_of_a_record_that_disagrees_is_not_named() -> None:
    drift = Drift("changed", "n", ("u",), ("d0",), ("d1",))
    assert drift_text(drift, lambda _: OTHER_POD) == (
        "node n: the record of a pod of another namespace was changed to d0; d1 still counts"
    )


@pytest.mark.parametrize(
    ("pods", "sentence"),
    [
        ((FIRST,), "a pod of another namespace (4 devices) finishes"),
        (
            (replace(FIRST, terminating=True), replace(FIRST, devices=1, terminating=True)),
            "a terminating pod of another namespace (4 devices) and a terminating pod of another namespace (1 device) have stopped",
        ),
        (
            (FIRST, Leaver("u", "team-a/x", devices=1)),
            "a pod of another namespace (4 devices) and pod team-a/x (1 device) finish",
        ),
        (
            (Leaver("v", "team-a/w", devices=2), Leaver("u", "team-a/x", devices=1)),
            "pods team-a/w (2 devices) and team-a/x (1 device) finish",
        ),
    ],
)
def test_pods_with_and_without_names_stand_in_one_sentence(pods: tuple[Leaver, ...], sentence: str) -> None:
    assert remedy_line(Remedy("pods end", "a", pods)) == f"it fits on node a once {sentence}"


@pytest.mark.parametrize(
    ("found", "owners"),
    [
        (("team-b",), "namespace team-b"),
        ((OTHER_NAMESPACE,), "another namespace"),
        ((OTHER_NAMESPACE, OTHER_NAMESPACE), "other namespaces"),
        (("team-c", OTHER_NAMESPACE), "namespace team-c and another namespace"),
        ((), "an unknown namespace"),
    ],
)
def test_a_refusal_names_the_namespaces_that_have_names(found: tuple[str, ...], owners: str) -> None:
    assert f"are used by {owners}, and" in refusal(Reason("002.segregate", "team-a", found))


def test_pods_groups_and_claims_without_names_have_words() -> None:
    assert [pod_text("n/p"), pod_text(OTHER_POD), pod_text(OTHER_POD, "terminating")] == [
        "pod n/p",
        "a pod of another namespace",
        "a terminating pod of another namespace",
    ]
    assert [groups_text(names) for names in (["n/g"], [OTHER_GROUP], ["n/g", OTHER_GROUP, OTHER_GROUP])] == [
        "group n/g",
        "a group of another namespace",
        "group n/g and 2 groups of other namespaces",
    ]
    assert [claim_text("n/c"), claim_text(OTHER_NAMESPACE)] == [
        "ResourceClaim n/c",
        "a ResourceClaim of another namespace",
    ]
