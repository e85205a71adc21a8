from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkwise.broker.broker import Broker
from linkwise.policies.link_affinity import LinkAffinity
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Linkwise = Callable[..., CompletedProcess[str]]


def node(name: str, cards: int) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": str(cards), "cpu": "8"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


def pod(name: str, cards: int) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(cards)}}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def cluster(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "items": items})


def test_a_cluster_in_yaml_is_refused_with_the_command_for_json(linkwise: Linkwise) -> None:
    shown = linkwise("replay", "-", stdin="apiVersion: v1\nkind: List\nitems: []\n")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("linkwise: standard input: it is not JSON; `kubectl get nodes,pods -A -o json` ")


def test_names_are_not_wrapped(linkwise: Linkwise) -> None:
    name = "trainer-of-a-large-language-model-7f9c8b6d5-x2k4p"
    shown = linkwise("replay", "-", stdin=cluster(node("n1", 2), pod(name, 4)))
    assert any(line.startswith(f"default/{name}   Pending   ") for line in shown.stdout.splitlines())


REASONS = "1 node had fewer devices than requested; 1 node had too few free devices"


def test_every_pending_pod_has_a_row(linkwise: Linkwise) -> None:
    shown = linkwise("replay", "-", stdin=cluster(node("n1", 2), node("n2", 4), pod("a", 1), pod("b", 3), pod("c", 4)))
    assert shown.returncode == 0
    assert [line.split() for line in shown.stdout.splitlines()[1:4]] == [
        ["default/a", "n1", "{0}", "link-affinity", "-"],
        ["default/b", "n2", "{0,1,2}", "link-affinity", "-"],
        [*("default/c", "Pending", "-", "-"), *REASONS.split()],
    ]
    assert shown.stdout.splitlines()[-1] == "2 placed, 1 pending"
    assert shown.stderr == ""


def test_a_cluster_without_pending_pods_is_reported_as_such(linkwise: Linkwise) -> None:
    assert linkwise("replay", "-", stdin=cluster(node("n1", 2))).stdout == "no pending pods\n"


def test_reasons_are_printed_per_pod(linkwise: Linkwise) -> None:
    shown = linkwise("replay", "-", "--explain", stdin=cluster(node("n1", 2), pod("a", 3)))
    assert "default/a\n  pod default/a is pending: it requests 3 devices (nvidia.com/gpu)\n" in shown.stdout


def test_json_has_one_object_per_pod(linkwise: Linkwise) -> None:
    (found,) = json.loads(linkwise("replay", "-", "--json", stdin=cluster(node("n1", 2), pod("a", 2))).stdout)["items"]
    assert (found["pod"], found["node"], found["devices"][0]["indices"]) == ("default/a", "n1", [0, 1])
    assert found["score"] == dict.fromkeys(LinkAffinity.terms, 0)


def test_a_snapshot_of_the_service_can_be_replayed(linkwise: Linkwise, tmp_path: Path) -> None:
    broker = Broker()
    broker.observe(fleet_node(profile("dgx1-v100"), "n1"), 0.0)
    (tmp_path / "taken.json").write_bytes(encode_snapshot(broker.snapshot(1.0)))
    assert linkwise("replay", "taken.json").stdout == "no pending pods\n"


def test_diff_shows_only_pods_whose_placement_differs(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "after.json").write_text(cluster(node("n2", 2), node("n3", 4), pod("a", 2), pod("b", 4), pod("d", 1)))
    before = cluster(node("n1", 2), node("n3", 4), pod("a", 2), pod("b", 4))
    shown = linkwise("replay", "-", "--diff", "after.json", stdin=before)
    assert shown.returncode == 1
    assert [" ".join(line.split()) for line in shown.stdout.splitlines()[1:3]] == [
        "default/a n1 {0,1} n2 {0,1}",
        "default/d not pending Pending: 2 nodes had too few free devices",
    ]
    assert shown.stdout.splitlines()[-1] == "2 of 3 pods differ"


def test_equal_decisions_exit_with_code_zero(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "same.json").write_text(cluster(node("n1", 2), pod("a", 2)))
    shown = linkwise("replay", "same.json", "--diff", "same.json")
    assert (shown.returncode, shown.stdout) == (0, "no differences in 1 pending pods\n")
    assert json.loads(linkwise("replay", "same.json", "--diff", "same.json", "--json").stdout)["items"] == []


def test_the_json_of_a_diff_has_both_placements(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(cluster(node("n1", 2), pod("a", 2)))
    (tmp_path / "other.json").write_text(cluster(node("n1", 1), pod("a", 2)))
    shown = linkwise("replay", "one.json", "--diff", "other.json", "--json")
    (found,) = json.loads(shown.stdout)["items"]
    assert (shown.returncode, found["pod"], found["file"]["node"], found["other"]["node"]) == (1, "default/a", "n1", "")


def test_an_invalid_snapshot_is_reported_with_file_and_field(linkwise: Linkwise, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": 3, "pods": [{"spec": {"priority": "high"}}]}')
    shown = linkwise("replay", "bad.json")
    assert shown.returncode == 2
    assert shown.stderr == "linkwise: bad.json: pods[0].spec.priority: expected a whole number or nothing, got text\n"
    assert linkwise("replay", "none.json").stderr == "linkwise: none.json: No such file or directory\n"
    both = linkwise("replay", "-", "--diff", "-")
    assert (both.returncode, both.stderr) == (
        2,
        "linkwise: only one of the two files can be read from standard input\n",
    )
