from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkwise.broker.broker import Broker
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import encode_snapshot
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod as cluster_pod
from support.embedded.cli_cluster import AskedCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    import pytest

    Linkwise = Callable[..., CompletedProcess[str]]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  completions: 3
  template:
    spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]}
"""
POD = """\
kind: Pod
metadata: {name: NAME, labels: LABELS}
spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: COUNT}}}]}
"""
VOLCANO = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bert, namespace: team}
spec:
  minAvailable: 3
  tasks:
  - {name: launcher, replicas: 1, template: {spec: {containers: [{name: main}]}}}
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}}}]}}
"""


def pod(name: str, count: int | str, labels: str = "{}") -> str:
    return POD.replace("NAME", name).replace("COUNT", str(count)).replace("LABELS", labels)


def documents(*texts: str) -> str:
    return "---\n".join(texts)


def planned(shown: CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shown.stdout)["items"]
    return found


def cluster(*cards: int) -> str:
    """Nodes with these numbers of GPUs, as printed by kubectl."""
    amounts = [{"nvidia.com/gpu": str(count), "cpu": "8"} for count in cards]
    nodes = [
        {"kind": "Node", "metadata": {"name": f"n{place}"}, "status": {"capacity": has, "allocatable": has}}
        for place, has in enumerate(amounts)
    ]
    return json.dumps({"kind": "List", "items": nodes})


def test_the_plan_of_a_job_shows_members_a_device_map_and_levels(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=3", stdin=JOB)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.rstrip() for line in shown.stdout.splitlines()] == [
        "group default/train/3 fits now: 3 members on 2 nodes",
        "",
        "MAP   MEMBER            NODE          DEVICES     SLOWEST PAIR",
        "A     default/train-0   dgx1-v100-0   {0,1,2,3}   48 GB/s",
        "B     default/train-1   dgx1-v100-0   {4,5,6,7}   48 GB/s",
        "C     default/train-2   dgx1-v100-1   {0,1,2,3}   48 GB/s",
        "",
        "NODE          0 1 2 3 4 5 6 7",
        "dgx1-v100-0   A A A A B B B B",
        "dgx1-v100-1   C C C C . . . .",
        "dgx1-v100-2   . . . . . . . .",
        "",
        "LEVEL        PROVEN   RESULT OF THE PLAN",
        "placed       yes      3 members",
        "nodes        yes      2 nodes",
        "bottleneck   yes      slowest pair on a node about 16 GB/s",
        "per pod      yes      slowest pair of a member about 48 GB/s",
        "residual     yes      good sets lost: 2 sets of 8, 3 sets of 4, 6 sets of 2",
        "left-over    yes      4 devices left free on its nodes",
    ]


def test_the_reason_is_printed_with_the_runner_up(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=3", "--explain", stdin=JOB)
    assert "\n  3 members are in the file: 3 pending\n" in shown.stdout
    last = shown.stdout.splitlines()[-1].strip()
    assert last == "runner-up on nodes dgx1-v100-0, dgx1-v100-2: tie broken by node name"


def test_a_group_that_does_not_fit_exits_with_code_one_and_the_reasons(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", stdin=VOLCANO)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert [line.strip() for line in shown.stdout.splitlines()] == [
        "group team/bert does not fit now; no devices are reserved for it",
        "",
        "NODE          0 1 2 3 4 5 6 7",
        "dgx1-v100-0   . . . . . . . .",
        "",
        "3 members are in the file: 3 pending; 3 must start together (volcano)",
        "it needs 2 nodes with 8 free devices; 1 has them",
        "nodes with the most free devices: dgx1-v100-0 8",
        "1 of 1 node can take a member now",
        "a group of 1 member would fit now, on dgx1-v100-0",
        "4 devices per member would fit now, on dgx1-v100-0",
        "it would not fit even if all other pods finished",
    ]


def test_a_group_with_an_unplaced_member_exits_with_code_one(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", stdin=JOB)
    assert shown.returncode == 1
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["default/train-2", "does", "not", "fit"] in rows
    assert ["dgx1-v100-0", *"AAAABBBB"] in rows


def test_the_tasks_of_a_volcano_job_are_one_gang(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=2", "--json", stdin=VOLCANO)
    (found,) = planned(shown)
    assert (shown.returncode, found["key"], found["minimum"], found["whole"]) == (0, "team/bert", 3, True)
    assert [(member["name"], member["node"]) for member in found["members"]] == [
        ("team/bert-launcher-0", "dgx1-v100-0"),
        ("team/bert-worker-0", "dgx1-v100-0"),
        ("team/bert-worker-1", "dgx1-v100-1"),
    ]


def test_groups_are_planned_in_order_on_the_remaining_devices(linkwise: Linkwise, tmp_path: Path) -> None:
    labels = "{{gputopology.scheduling.koordinator.sh/name: {}, gputopology.scheduling.koordinator.sh/replica: '1'}}"
    text = documents(pod("one", 6, labels.format("a")), pod("two", 2, labels.format("b")), pod("three", 1))
    (tmp_path / "jobs.yaml").write_text(text)
    shown = linkwise("plan", "-f", "jobs.yaml", "--fleet", "dgx1-v100", "--json")
    assert [found["key"] for found in planned(shown)] == ["default/a/1", "default/b/1", "default/three/1"]
    assert [found["whole"] for found in planned(shown)] == [True, True, False]
    assert shown.returncode == 1


def test_a_pod_group_in_the_file_sets_the_minimum_of_its_gang(linkwise: Linkwise) -> None:
    labels = "{scheduling.x-k8s.io/pod-group: gang}"
    least = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: gang}\nspec: {minMember: 2}\n"
    text = documents(least, pod("one", 8, labels), pod("two", 8, labels))
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", "--json", stdin=text)
    (found,) = planned(shown)
    assert (shown.returncode, found["stage"], found["minimum"]) == (1, "unschedulable", 2)


def test_a_group_of_unrelated_pods_is_named_after_the_file(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "my jobs.yaml").write_text(documents(pod("left", 1), pod("right", 1)))
    (found,) = planned(linkwise("plan", "-f", "my jobs.yaml", "--fleet", "dgx1-v100", "--json"))
    assert (found["key"], found["there"]) == ("default/my-jobs/2", 2)


def test_only_pods_that_run_in_parallel_are_planned(linkwise: Linkwise) -> None:
    more = JOB.replace("completions: 3", "completions: 9")
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=2", "--json", stdin=more)
    assert planned(shown)[0]["there"] == 3
    assert shown.stderr == "note: standard input:6: 3 of 9 pods run in parallel; only these are planned\n"
    fewer = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=2", "--json", stdin=JOB.replace("ns: 3", "ns: 2"))
    assert planned(fewer)[0]["there"] == 2


def test_more_than_ten_members_are_ordered_by_index(linkwise: Linkwise) -> None:
    many = JOB.replace("parallelism: 3", "parallelism: 12").replace("completions: 3", "completions: 12")
    shown = linkwise("plan", "-f", "-", "--fleet", "hgx-h100=6", "--json", stdin=many)
    assert [member["name"] for member in planned(shown)[0]["members"]] == [f"default/train-{i}" for i in range(12)]


def test_the_output_of_kubectl_is_accepted_as_the_cluster(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    shown = linkwise("plan", "-f", "job.yaml", "--on", "-", "--json", stdin=cluster(4, 8))
    assert (shown.returncode, [host["name"] for host in planned(shown)[0]["hosts"]]) == (0, ["n0", "n1"])


def test_a_snapshot_is_accepted_as_the_cluster_and_machines_can_be_added(linkwise: Linkwise, tmp_path: Path) -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "own"), 0.0)
    (tmp_path / "taken.json").write_bytes(encode_snapshot(broker.snapshot(1.0)))
    short = linkwise("plan", "-f", "-", "--on", "taken.json", stdin=JOB)
    more = linkwise("plan", "-f", "-", "--on", "taken.json", "--fleet", "dgx1-v100", "--json", stdin=JOB)
    assert (short.returncode, more.returncode) == (1, 0)
    assert [host["name"] for host in planned(more)[0]["hosts"]] == ["dgx1-v100-0", "own"]


def test_added_machines_get_unused_names(linkwise: Linkwise, tmp_path: Path) -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "dgx1-v100-0"), 0.0)
    (tmp_path / "one.json").write_bytes(encode_snapshot(broker.snapshot(1.0)))
    shown = linkwise("plan", "-f", "-", "--on", "one.json", "--fleet", "dgx1-v100", "--json", stdin=JOB)
    assert [host["name"] for host in planned(shown)[0]["hosts"]] == ["dgx1-v100-0", "dgx1-v100-1"]


def test_a_fleet_uses_the_syntax_of_up(linkwise: Linkwise) -> None:
    half = pod("half", 8).replace("nvidia.com/gpu", "aliyun.com/gpu-mem")
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100/share=12", "--json", stdin=half)
    assert (shown.returncode, planned(shown)[0]["hosts"][0]["name"]) == (0, "dgx1-v100-share-00")


def test_a_job_can_span_several_files(linkwise: Linkwise, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(pod(name, 8))
    shown = linkwise("plan", "-f", "one.yaml", "two.yaml", "--fleet", "dgx1-v100=2", "--json")
    (found,) = planned(shown)
    assert [member["name"] for member in found["members"]] == ["default/one", "default/two"]
    assert found["source"] == "file"


def test_used_and_unhealthy_devices_are_marked(linkwise: Linkwise, tmp_path: Path) -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "a", unhealthy=[7]), 0.0)
    snapshot = json.loads(encode_snapshot(broker.snapshot(1.0)))
    running = {
        "metadata": {"name": "other", "uid": "other", "annotations": {"linkwise.dev/grant": GRANT}},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    }
    snapshot["pods"].append(running)
    del snapshot["state"]
    (tmp_path / "taken.json").write_text(json.dumps(snapshot))
    shown = linkwise("plan", "-f", "-", "--on", "taken.json", stdin=pod("solo", 2))
    assert ["a", *"xxAA...!"] in [line.split() for line in shown.stdout.splitlines()]


GRANT = json.dumps(
    {
        "version": 1,
        "pod": "other",
        "policy": "bandwidth",
        "mode": "whole",
        "node": "a",
        "plan": "",
        "generation": 0,
        "containers": {"main": {"devices": ["nvidia-a-0", "nvidia-a-1"], "share": 0, "core": 0}},
    }
)


def test_the_device_map_of_a_large_cluster_is_truncated(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100=20", stdin=JOB)
    assert "and 4 more" in [line.strip() for line in shown.stdout.splitlines()]
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_scheduling_gates_are_ignored_and_daemon_sets_are_skipped(linkwise: Linkwise) -> None:
    gated = pod("one", 1).replace("spec: {", "spec: {schedulingGates: [{name: quota}], ")
    everywhere = JOB.replace("kind: Job", "kind: DaemonSet")
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", "--json", stdin=documents(gated, everywhere))
    assert (shown.returncode, [found["key"] for found in planned(shown)]) == (0, ["default/one/1"])
    assert shown.stderr == "note: standard input:5: DaemonSet train is skipped: a DaemonSet runs on every node\n"


def test_an_invalid_job_is_reported_with_file_line_and_column(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(documents(pod("one", 1), pod("two", "two")))
    shown = linkwise("plan", "-f", "job.yaml", "--fleet", "dgx1-v100")
    assert shown.returncode == 2
    assert shown.stderr.startswith("linkwise: job.yaml:7:55: nvidia.com/gpu: 'two' is not a quantity")
    (tmp_path / "twice.yaml").write_text(documents(pod("one", 1), pod("one", 2)))
    twice = linkwise("plan", "-f", "twice.yaml", "--fleet", "dgx1-v100")
    assert (twice.returncode, twice.stderr) == (2, "linkwise: twice.yaml: more than one pod is named default/one\n")


def test_an_invalid_cluster_file_or_option_is_reported(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 3, "pods": [{"spec": {"priority": "high"}}]}')
    (tmp_path / "empty.json").write_text('{"kind": "List", "items": []}')
    sentences = {
        ("--on", "bad.json"): "bad.json: pods[0].spec.priority: expected a whole number or nothing, got text",
        ("--on", "empty.json"): "empty.json: contains no nodes; --fleet adds some to plan on",
        ("--on", "none.json"): "none.json: No such file or directory",
        ("--on", "-"): "only one of the files can be read from standard input",
        ("--fleet", "dgx1-v100=0"): "--fleet: dgx1-v100: '0' is not a valid number of nodes; expected 1 or more",
    }
    for options, sentence in sentences.items():
        shown = linkwise("plan", "-f", "-", *options, stdin=JOB)
        assert (shown.returncode, shown.stderr) == (2, f"linkwise: {sentence}\n")


def test_a_file_without_pods_is_an_error(linkwise: Linkwise) -> None:
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", stdin="kind: Service\nmetadata: {name: web}\n")
    assert (shown.returncode, shown.stderr) == (2, "linkwise: standard input: contains nothing that creates pods\n")


def test_a_misspelt_resource_is_an_error_and_a_misspelt_label_a_note(linkwise: Linkwise) -> None:
    wrong = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", stdin=pod("a", 1).replace("/gpu", "/gpus"))
    assert wrong.returncode == 2
    assert "nvidia.com/gpus: unknown resource; did you mean nvidia.com/gpu?" in wrong.stderr
    labels = "{gputopology.scheduling.koordinator.sh/nam: a}"
    noted = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", stdin=pod("a", 1, labels))
    assert noted.returncode == 0
    assert "unknown label; did you mean gputopology.scheduling.koordinator.sh/name?" in noted.stderr


def test_pods_of_the_same_gang_on_the_cluster_are_replaced_by_those_of_the_file(tmp_path: Path) -> None:
    gang = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in (("name", "a"), ("min-available", "2"))}
    words = ", annotations: " + json.dumps(gang)
    file = documents(*(pod(name, 8).replace(", labels: {}", words) for name in ("new-0", "new-1")))
    with AskedCluster(tmp_path) as made:
        made.make(*machine("a", "nvlink"), *machine("b", "nvlink"))
        made.make(*(cluster_pod("default", f"old-{i}", {"nvidia.com/gpu": 8}, annotations=gang) for i in range(2)))
        shown = made.ask("plan", "-f", "-", "-o", "json", stdin=file)
    (found,) = planned(shown)
    assert [member["name"] for member in found["members"]] == ["default/new-0", "default/new-1"]
    assert shown.stderr == "note: 2 pending pods of group default/a in the cluster are replaced by those of the file\n"


def test_gangs_of_one_bundle_are_planned_together(linkwise: Linkwise) -> None:
    gang = "gang.scheduling.koordinator.sh/"
    words = ", annotations: {" + gang + 'name: NAME, {g}min-available: "1", {g}groups: \'["default/a","default/b"]\'}'
    one = pod("NAME-0", 4).replace(", labels: {}", words.replace("{g}", gang))
    job = documents(*(one.replace("NAME", name) for name in ("a", "b")))
    shown = linkwise("plan", "-f", "-", "--fleet", "dgx1-v100", "--json", stdin=job)
    assert [(found["key"], found["stage"]) for found in planned(shown)] == [
        ("default/a", "schedulable"),
        ("default/b", "schedulable"),
    ]


def test_the_current_cluster_is_planned_and_replayed_on(tmp_path: Path) -> None:
    with AskedCluster(tmp_path) as made:
        made.make(*machine("a", "nvlink"), cluster_pod("default", "huge", {"nvidia.com/gpu": 16}))
        shown = made.ask("plan", "-f", "-", "-o", "json", stdin=pod("solo", 2))
        assert [host["name"] for host in planned(shown)[0]["hosts"]] == ["a"]
        assert "default/huge   Pending" in made.ask("replay").stdout
        more = made.ask(
            *("plan", "-f", "-", "--fleet", "dgx1-v100", "--kubeconfig", str(made.kubeconfig)), stdin=pod("solo", 2)
        )
        assert {"a", "dgx1-v100-0"} <= {line.split()[0] for line in more.stdout.splitlines() if line}
        both = made.ask("plan", "-f", "-", "--on", "x", "--context", "y", stdin=pod("solo", 2))
        assert (both.returncode, "can't be used together" in both.stderr) == (2, True)


def test_without_a_cluster_it_says_what_to_do(linkwise: Linkwise, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "none.yaml")
    shown = linkwise("plan", "-f", "-", stdin=JOB)
    assert (shown.returncode, "--on FILE or --fleet" in shown.stderr) == (1, True)
    assert "name a FILE" in linkwise("replay").stderr


def test_a_plan_shows_nodes_that_can_serve_it_and_each_level_and_member_once(linkwise: Linkwise) -> None:
    fleet = "dgx1-v100=2,atlas-800,dgx1-v100/share"
    shown = linkwise("plan", "-f", "-", "--fleet", fleet, "--explain", stdin=JOB).stdout
    assert "atlas-800-0" not in shown
    assert "dgx1-v100-share-0" not in shown
    assert shown.count("slowest pair of a member") == 1
    assert "3 members are in the file: " in shown
    assert "exist" not in shown
