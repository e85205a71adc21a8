"""A workload is explained as one: how many of its pods run, and each reason once."""

from __future__ import annotations

from dataclasses import replace

from linkwise.dialects.groups.owners import workloads_of
from linkwise.explain.text.pod import explanation_lines
from linkwise.explain.workload import explain_workload, workload_names
from linkwise.model.views import Owner, PodView
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place

JOB = Owner("Job", "train", "job-uid")


def member(name: str, devices: int) -> PodView:
    return replace(device_pod(name, devices), owner=JOB)


def test_pods_with_equal_reasons_are_explained_once() -> None:
    broker = broker_of(FakeNode("n"))
    place(broker, member("train-0", 1), "n")
    waiting = [member(f"train-{place}", 4) for place in (1, 2, 3)]
    broker.observe([*waiting, member("train-4", 8)], 0.0)
    found = explain_workload(broker, "job", "default", "train", 0.0)
    assert found
    assert found.counts() == {"pending": 4, "starting": 1}
    lines = explanation_lines(found)
    assert lines[:2] == ["job default/train has 5 pods: 4 pending, 1 starting", "placed on n (1)"]
    assert "3 pods for the same reason (train-1, train-2, train-3); each is pending: it requests 4 devices" in lines[2]
    assert [part.pods for part in found.parts if part.state == "pending"] == [
        ("train-1", "train-2", "train-3"),
        ("train-4",),
    ]


def test_the_pods_of_a_gang_have_the_reason_of_the_gang() -> None:
    broker = broker_of(FakeNode("n"))
    broker.observe([replace(pod, owner=JOB) for pod in in_gang(member("a", 2), member("b", 2), least=2)], 0.0)
    found = explain_workload(broker, "job", "default", "train", 0.0)
    assert found
    assert found.group
    assert "it needs 2 nodes with 2 free devices; 1 has them" in explanation_lines(found)


def test_a_deployment_is_found_behind_its_replica_set() -> None:
    pod = replace(
        device_pod("web-5d4-x", 1), owner=Owner("ReplicaSet", "web-5d4", "u"), labels={"pod-template-hash": "5d4"}
    )
    assert workloads_of(pod) == {("replicaset", "web-5d4"), ("deployment", "web")}


def test_a_job_of_a_job_set_belongs_to_both() -> None:
    pod = replace(member("x", 1), labels={"jobset.sigs.k8s.io/jobset-name": "llm"})
    assert workloads_of(pod) == {("job", "train"), ("jobset", "llm")}


def test_a_volcano_job_is_not_a_batch_job() -> None:
    pod = replace(member("x", 1), labels={"volcano.sh/job-name": "train"})
    assert workloads_of(pod) == {("vcjob", "train")}


def test_an_unknown_workload_has_no_explanation_and_known_ones_are_named() -> None:
    broker = broker_of(FakeNode("n"))
    broker.observe([member("train-0", 1)], 0.0)
    assert explain_workload(broker, "job", "default", "trian", 0.0) is None
    assert workload_names(broker, "job", "default") == ["train"]


def test_the_job_of_volcano_is_named_by_a_label_or_an_annotation_and_a_job_set_by_a_label() -> None:
    key, job_set = "volcano.sh/job-name", "jobset.sigs.k8s.io/jobset-name"
    plain = device_pod("p", 1)
    assert workloads_of(replace(plain, labels={key: "v"})) == {("vcjob", "v")}
    assert workloads_of(replace(plain, annotations={key: "v"})) == {("vcjob", "v")}
    assert workloads_of(replace(plain, labels={job_set: "s"})) == {("jobset", "s")}
    assert workloads_of(replace(plain, annotations={job_set: "s"})) == set()
