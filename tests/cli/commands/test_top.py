"""`linkwise top` on an embedded API server, with usage as agents publish it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.dialects.linkwise.usage import usage_fields, with_usage
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.embedded.cli_cluster import AskedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def published(name: str, *uses: PodUsage) -> list[dict[str, Any]]:
    """A node whose first device is half full."""
    view, inventory = machine(name, "nvlink")
    devices = [device["uuid"] for device in inventory["spec"]["devices"]]
    usages = tuple(DeviceUsage(one, 16 * GIB, 8 * GIB * (one == devices[0]), 40) for one in devices)
    return [view, dict(with_usage(inventory, usage_fields(NodeUsage(usages, uses))))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    """A cluster that the tests only read: node a publishes usage, node b does not."""
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine("b", "nvlink"))
        labels = {"app": "llm"}
        made.make(pod("default", "train", {GPU: 1}, nodeName="a", labels=labels))
        made.make(pod("kube-system", "other", {GPU: 1}, nodeName="a"))
        uid = made.uid("pods", "train")
        device = machine("a", "nvlink")[1]["spec"]["devices"][0]["uuid"]
        made.make(*published("a", PodUsage(uid, "default", "train", device, 6 * GIB, 35)))
        yield made


@pytest.mark.rule("002.usage")
def test_each_node_is_one_line(cluster: AskedCluster) -> None:
    shown = cluster.ask("top", "nodes", columns=20)
    head, *lines = [line.split() for line in shown.stdout.splitlines()]
    assert head == ["NAME", "DEVICES", "MEMORY(bytes)", "MEMORY(%)", "UTILIZATION(%)"]
    assert lines == [["a", "8", "8192Mi", "6%", "40%"], ["b", "8", *["<unknown>"] * 3]]
    assert "note: node b: no usage is published" in shown.stderr


@pytest.mark.rule("002.usage")
def test_pods_are_those_of_the_namespace_or_of_all(cluster: AskedCluster) -> None:
    (line,) = cluster.ask("top", "pods", "--no-headers").stdout.splitlines()
    assert line.split() == ["train", "1", "6144Mi", "38%", "35%"]
    everywhere = [line.split()[:2] for line in cluster.ask("top", "po", "-A", "--no-headers").stdout.splitlines()]
    assert everywhere == [["default", "train"], ["kube-system", "other"]]


@pytest.mark.parametrize(("selector", "found"), [("app=llm", True), ("app!=llm", False), ("app in (x,llm)", True)])
def test_pods_are_selected_by_labels(cluster: AskedCluster, selector: str, found: bool) -> None:  # noqa: FBT001
    assert ("train" in cluster.ask("top", "pods", "-l", selector).stdout) is found


def test_json_has_bytes_of_each_device(cluster: AskedCluster) -> None:
    row = json.loads(cluster.ask("top", "pod/train", "-o", "json").stdout)
    assert (row["used"], row["total"], row["utilization"], row["node"]) == (6 * GIB, 16 * GIB, 35, "a")
    assert [one["used"] for one in row["by_device"]] == [6 * GIB]
    listed = json.loads(cluster.ask("top", "pods", "-o", "json").stdout)
    assert (listed["kind"], row.pop("kind"), row.pop("apiVersion")) == (
        "PodUsageList",
        "PodUsage",
        listed["apiVersion"],
    )
    assert listed["items"] == [row]


def test_wide_shows_where_a_pod_is_and_what_it_was_allocated(cluster: AskedCluster) -> None:
    head, line = cluster.ask("top", "pods", "-o", "wide").stdout.splitlines()
    assert dict(zip(head.split(), line.split(), strict=True))["ALLOCATED(bytes)"] == "16384Mi"
    assert "a" in line.split()


def test_the_largest_is_first_and_unknown_values_are_last(cluster: AskedCluster) -> None:
    lines = cluster.ask("top", "nodes", "--sort-by", "memory", "--no-headers").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["top"], "resource type required: node or pod"),
        (["top", "groups"], 'unknown resource type "groups"'),
        (["top", "pods", "-n", "x", "-A"], "-n and -A can't be used together"),
        (["top", "pods", "train", "-l", "a=b"], "a name can't be used together with -l or -A"),
        (["top", "pods", "-l", "a in ("], "unable to parse requirement"),
    ],
)
def test_invalid_arguments_are_refused(cluster: AskedCluster, words: list[str], sentence: str) -> None:
    done = cluster.ask(*words)
    assert (done.returncode, sentence in done.stderr) == (2, True)


def test_an_unknown_name_is_not_found(cluster: AskedCluster) -> None:
    done = cluster.ask("top", "pods", "trian")
    assert (done.returncode, "did you mean train?" in done.stderr) == (1, True)
