"""Configurations of a kube-scheduler are read as they are found: extenders with their lines, problems as sentences."""

from __future__ import annotations

import json

import pytest

from linkwise.config.scheduler_config import SchedulerFile, scheduler_yaml
from linkwise.config.scheduler_file import SchedulerDocument, is_loopback, read_scheduler_text

POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler",
            "filterVerb": "filter",
            "bindVerb": "bind",
            "enableHttps": False,
            "httpTimeout": 3_000_000_000,
            "nodeCacheCapable": True,
            "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False}],
        }
    ],
}


def read(text: str) -> SchedulerDocument:
    found = read_scheduler_text(text.encode(), "file")
    assert found is not None
    return found


def test_what_is_generated_is_read_back() -> None:
    text = scheduler_yaml(SchedulerFile())
    document = read(text)
    extender = document.ours
    assert extender is not None
    assert (document.sampling, document.schedulers) == (100, ("linkwise-scheduler",))
    assert document.lease == ("linkwise-system", "linkwise-scheduler")
    assert (extender.scheme, extender.host, extender.port) == ("http", "linkwise.linkwise-system.svc", 39999)
    assert (extender.timeout, extender.node_cache, extender.ignorable) == (5.0, True, False)
    assert "urlPrefix" in text.splitlines()[extender.line - 1]


def test_a_policy_file_is_read_with_its_nanoseconds() -> None:
    document = read(json.dumps(POLICY, indent="\t"))
    extender = document.ours
    assert extender is not None
    assert (document.kind, extender.loopback, extender.port, extender.timeout) == ("Policy", True, 32766, 3.0)


def test_invalid_yaml_is_a_problem_with_its_line() -> None:
    document = read("kind: KubeSchedulerConfiguration\nextenders: [\n")
    assert document.problem.startswith("file:3:1: not valid YAML: ")
    assert document.extenders == ()


@pytest.mark.parametrize("text", ["", "kind: Pod", "[1, 2]", "just text"])
def test_documents_of_other_kinds_are_left_alone(text: str) -> None:
    assert read_scheduler_text(text.encode(), "file") is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5.0), ("1m30s", 90.0), ("4000ms", 4.0), ("0s", 5.0), ("soon", 5.0), ("1.5s", 1.5)]
)
def test_timeouts_are_durations_of_go(text: str, seconds: float) -> None:
    document = read(f"kind: KubeSchedulerConfiguration\nextenders: [{{urlPrefix: x, httpTimeout: {text}}}]")
    assert document.extenders[0].timeout == seconds


def test_the_lowest_percentage_of_any_profile_counts() -> None:
    profiles = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 30}]"
    document = read(f"kind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 100\n{profiles}")
    assert (document.sampling, document.schedulers) == (30, ("a", "b"))


def test_linkwise_is_found_beside_other_extenders() -> None:
    other, ours = (
        "{urlPrefix: 'http://other:80'}",
        "{urlPrefix: 'http://svc:1', managedResources: [{name: nvidia.com/gpu}]}",
    )
    document = read(f"kind: KubeSchedulerConfiguration\nextenders: [{other}, {ours}]")
    assert document.ours is document.extenders[1]
    assert read(f"kind: KubeSchedulerConfiguration\nextenders: [{other}]").ours is None


@pytest.mark.parametrize("value", ["not a list", "{a: b}", "[1, null]"])
def test_fields_of_another_type_are_read_as_absent(value: str) -> None:
    assert read(f"kind: KubeSchedulerConfiguration\nextenders: {value}").extenders == ()


def test_an_address_that_is_not_one_has_no_host() -> None:
    document = read("kind: KubeSchedulerConfiguration\nextenders: [{urlPrefix: 'http://[::1', weight: x}]")
    assert (document.extenders[0].host, document.extenders[0].port, document.extenders[0].weight) == ("", 0, 0)


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("10.0.0.1", False)]
)
def test_addresses_of_the_own_host_are_known(host: str, own: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_loopback(host) is own
