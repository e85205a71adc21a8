from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from linkwise.embedded.apiserver.faults import Fault
from support.e2e.node_objects import ascend, machine
from support.e2e.pod_objects import pod, pod_group
from support.embedded.cli_cluster import AskedCluster
from support.environment import reserve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = (
    "pod, group, node, job, deployment, statefulset, daemonset, replicaset, replicationcontroller, vcjob, jobset,"
    " leaderworkerset, pytorchjob, tfjob, xgboostjob, paddlejob, jaxjob, mxjob, mpijob or raycluster"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    """A cluster that the tests only read."""
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine("a", "nvlink"), *machine("b", "pcie"), *ascend("x"))
        made.make(pod("default", "train", {"nvidia.com/gpu": 2}), pod("default", "huge", {"nvidia.com/gpu": 16}))
        made.make(pod("kube-system", "far", {"huawei.com/Ascend910": 3}))
        labels = {"scheduling.x-k8s.io/pod-group": "llm"}
        made.make(pod_group("default", "llm"))
        made.make(*(pod("default", f"w-{i}", {"nvidia.com/gpu": 4}, labels=labels) for i in range(2)))
        gang = {
            f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "moe"), ("min-available", "3"))
        }
        made.make(*(pod("default", f"m-{i}", {"nvidia.com/gpu": 8}, annotations=gang) for i in range(3)))
        yield made


def test_the_explanation_of_a_feasible_pod_has_its_node_and_the_reason(cluster: AskedCluster) -> None:
    lines = cluster.ask("explain", "pod/train").stdout.splitlines()
    assert lines[0] == "pod default/train is pending: it requests 2 devices (nvidia.com/gpu)"
    assert "it would get devices 0, 3 on node a" in lines[1]
    assert "not bound by a scheduler" in lines[-2] + lines[-1]


def test_the_explanation_of_an_unschedulable_pod_has_what_would_have_to_change(cluster: AskedCluster) -> None:
    shown = cluster.ask("explain", "pod", "huge")
    assert "0 of 3 nodes are feasible (not resolved by other pods finishing)" in shown.stdout
    assert "a request for 8 devices would fit now on node a" in shown.stdout
    assert "has called the extender" not in shown.stdout  # only the service knows this
    assert shown.returncode == 0


def test_a_pod_of_another_namespace_is_found_and_suggested(cluster: AskedCluster) -> None:
    assert "request 1, 2, 4 or 8" in cluster.ask("explain", "pod/far", "-n", "kube-system", columns=200).stdout
    shown = cluster.ask("explain", "pod/far")
    assert shown.returncode == 1
    assert "pod default/far not found; one of that name is in kube-system: use -n" in shown.stderr


@pytest.mark.parametrize(("kind", "instead"), [("rayjob", "raycluster/NAME"), ("cronjobs", "job/NAME")])
def test_a_kind_whose_pods_do_not_name_it_is_refused_with_the_kind_that_they_name(
    cluster: AskedCluster, kind: str, instead: str
) -> None:
    shown = cluster.ask("explain", f"{kind}/nightly")
    assert (shown.returncode, instead in shown.stderr) == (2, True)


def test_groups_and_nodes_are_explained(cluster: AskedCluster) -> None:
    assert cluster.ask("explain", "group/llm").stdout.startswith("group default/llm fits now: 2 members on 1 node\n")
    assert cluster.ask("explain", "node/x").stdout.startswith("node x: 8 devices, 8 idle; ")


def test_the_explanation_of_a_member_has_the_shortage_of_its_group_and_where_to_read_more(
    cluster: AskedCluster,
) -> None:
    printed = [line.strip() for line in cluster.ask("explain", "pod/m-0").stdout.splitlines()]
    assert printed[:3] == [
        "pod default/m-0 is pending with its group: it requests 8 devices (nvidia.com/gpu)",
        "its group does not fit now; no devices are reserved for it",
        "its group needs 3 nodes of one model with 8 free devices; 1 has them",
    ]
    assert printed[-1] == "for its group, run: linkwise explain group/default/moe"
    more = cluster.ask(*printed[-1].partition("linkwise ")[2].split()).stdout
    assert "it needs 3 nodes of one model with 8 free devices; 1 has them" in more


def test_the_json_of_an_explanation_includes_its_sentences(cluster: AskedCluster) -> None:
    printed = json.loads(cluster.ask("explain", "pod/huge", "-o", "json").stdout)
    assert printed["lines"][0] == "pod default/huge is pending: it requests 16 devices (nvidia.com/gpu)"
    kinds = [remedy["kind"] for remedy in printed["data"]["remedies"]]
    assert (printed["data"]["state"], kinds) == ("unschedulable", ["split", "fewer devices"])


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["group/lm", "-n", "empty"], 1, "group empty/lm not found"),
        (["pod/trian"], 1, "pod default/trian not found; did you mean train?"),
        (["group/lm"], 1, "group default/lm not found; did you mean llm?"),
        (["node/zz"], 1, "node zz not found; there are a, b, x"),
        (["pdo/train"], 2, 'unknown resource type "pdo"; did you mean pod?'),
        (["Train"], 2, f'unknown resource type "Train"; use {KINDS}; for a pod of that name use pod/Train'),
        (["service/x"], 2, f'unknown resource type "service"; use {KINDS}'),
        (["pod"], 2, "name of the pod required: pod/NAME"),
        ([], 2, f"resource type required: {KINDS}, for example pod/NAME"),
        (["pod/a", "b"], 2, "pod/a b: only one object can be given"),
    ],
)
def test_an_invalid_or_unknown_name_is_reported_in_one_sentence(
    cluster: AskedCluster, words: list[str], code: int, sentence: str
) -> None:
    shown = cluster.ask("explain", *words)
    assert (shown.returncode, shown.stderr, shown.stdout) == (code, f"linkwise: {sentence}\n", "")


def test_topo_shows_the_links_of_a_node(cluster: AskedCluster) -> None:
    shown = cluster.ask("topo", "node/a", "--json")
    printed = json.loads(shown.stdout)
    assert (shown.returncode, printed["links"][0][3], len(printed["facts"])) == (0, "NV2+PHB", 8)
    unknown = cluster.ask("topo", "node/x")
    assert unknown.returncode == 3
    assert "missing   no link data for node x; run the node agent (`linkwise agent`)" in unknown.stdout


def test_a_forbidden_list_is_reported_and_without_pods_the_service_is_needed(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("a", "nvlink"))
        cluster.fail(Fault("answer", on="GET", path="/deviceinventories$", code=403, times=0))
        shown = cluster.ask("explain", "node/a")
        assert shown.stderr.startswith("note: may not list deviceinventories.linkwise.dev: ")
        assert shown.returncode == 0
        cluster.fail(Fault("answer", on="GET", path="/pods$", code=403, times=0))
        shown = cluster.ask("explain", "node/a")
        assert (shown.returncode, shown.stdout) == (1, "")
        assert shown.stderr.startswith(
            "linkwise: node a can't be explained: there is no Service linkwise-system/linkwise"
        )
        assert "it can't be read from the cluster either, since your rights cover only a part of it" in shown.stderr


def test_a_list_that_expires_is_restarted(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as cluster:
        cluster.make(*machine("a", "nvlink"))
        cluster.fail(Fault("answer", on="GET", path="/nodes$", code=410))
        assert cluster.ask("explain", "node/a").returncode == 0


def test_an_unreachable_cluster_is_reported_with_a_hint(tmp_path: Path) -> None:
    (file := tmp_path / "map.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}")
    with AskedCluster(tmp_path) as cluster, reserve() as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        printed = re.sub(r"127\.0\.0\.1:\d+", place, cluster.kubeconfig.read_text("utf-8"))
        cluster.kubeconfig.write_text(printed, "utf-8")
        for words in (["get", "nodes"], ["apply", str(file)]):
            shown = cluster.ask(*words)
            assert (shown.returncode, shown.stdout) == (1, "")
            assert shown.stderr.startswith(
                f"linkwise: {place} can't be reached: Connection refused; is the cluster running?"
            )
