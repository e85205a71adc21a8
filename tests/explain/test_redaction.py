"""What a tenant may not read about others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkwise.explain.pod import explain_pod
from linkwise.explain.published.redaction import Redaction, namespaces_of
from linkwise.explain.text.pod import explanation_lines
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place

OWN = Redaction(frozenset({"team-a"}), frozenset({"team-a", "team-b", "group"}))


@pytest.mark.parametrize(
    ("sentence", "redacted"),
    [
        (
            "it fits on node a once pod team-b/train-0 (4 devices) finishes",
            "it fits on node a once a pod of another namespace (4 devices) finishes",
        ),
        (
            "it fits once terminating pods team-b/x (1 device) and team-b/y (1 device) have stopped",
            "it fits once a terminating pod of another namespace (1 device) and a pod of another namespace (1 device) have stopped",
        ),
        ("ResourceClaim team-b/c has it", "a ResourceClaim of another namespace has it"),
        ("4 devices are reserved for group team-b/llm/v1", "4 devices are reserved for a group of another namespace"),
        (
            "devices with free memory are used by namespaces team-a, team-b, and namespace team-a can't share them",
            "devices with free memory are used by other namespaces, and namespace team-a can't share them",
        ),
    ],
)
def test_names_of_other_namespaces_are_left_out(sentence: str, redacted: str) -> None:
    assert OWN.text(sentence) == redacted


@pytest.mark.parametrize(
    "sentence",
    [
        "pod team-a/train is pending: it requests 2 devices (nvidia.com/gpu)",
        "for its group, run: linkwise explain group/team-a/llm",
        "slowest pair 96 GB/s; node gpu-1/2",
        "set linkwise.dev/policy: any",
    ],
)
def test_own_names_resources_and_amounts_stay(sentence: str) -> None:
    assert OWN.text(sentence) == sentence


def test_a_document_loses_names_that_stand_in_fields_of_their_own() -> None:
    pods = [{"uid": "1", "namespace": "team-b", "name": "q"}, {"uid": "2", "namespace": "team-a", "name": "p"}]
    device = {
        "namespaces": ["team-a", "team-b"],
        "domains": ["team-b user:bob", "*"],
        "claim": "team-b/c",
        "pods": pods,
    }
    assert OWN.document(device) == {
        "namespaces": ["team-a", "another namespace"],
        "domains": ["another namespace", "*"],
        "claim": "another namespace",
        "pods": [{"uid": "", "namespace": "", "name": "a pod of another namespace"}, pods[1]],
    }


def test_a_document_loses_the_names_and_the_uids_of_other_pods() -> None:
    document = {"uid": "1", "name": "team-a/p", "pods": [{"uid": "2", "name": "team-b/q", "devices": 4}]}
    assert OWN.document(document) == {
        "uid": "1",
        "name": "team-a/p",
        "pods": [{"uid": "", "name": "a pod of another namespace", "devices": 4}],
    }


def test_an_explanation_names_no_pod_of_another_namespace() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("rival", 4, namespace="team-b"), "a")
    broker.observe([replace(device_pod("p", 2), namespace="team-a")], 1.0)
    report = explain_pod(broker, "uid-p", 1.0)
    assert report is not None
    lines = "\n".join(explanation_lines(report))
    assert "team-b/rival" in lines
    shown = Redaction(frozenset({"team-a"}), namespaces_of(broker)).text(lines)
    assert "rival" not in shown
    assert "team-b" not in shown
