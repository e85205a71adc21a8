"""`linkwise cordon` and `linkwise uncordon` change an annotation of a node, which `get` and `describe` show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.linkwise.cordon import CORDONED
from linkwise.embedded.apiserver.faults import Fault
from support.command_line import start_linkwise
from support.e2e.node_objects import device_ids, machine, node
from support.embedded.cli_cluster import AskedCluster
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GPU = "nvidia.com/gpu"
NODE = "dgx"
WHY = "ECC errors, ticket 4711"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedCluster]:
    with AskedCluster(tmp_path_factory.mktemp("cluster")) as made:
        made.make(*machine(NODE, "dgx1-v100"), node("plain", {GPU: 2}), node("bare"))
        yield made


@pytest.fixture
def cluster(shared: AskedCluster) -> Iterator[AskedCluster]:
    yield shared
    for name in (NODE, "plain"):
        for device in cordons(shared, name):
            shared.ask("uncordon", f"node/{name}", "--device", device)


def cordons(cluster: AskedCluster, name: str = NODE) -> dict[str, str]:
    return dict(json.loads(cluster.annotations("nodes", name).get(CORDONED, "{}")))


def test_a_device_is_cordoned_by_index_and_recorded_by_id(cluster: AskedCluster) -> None:
    device = device_ids(NODE, "dgx1-v100")[3]
    done = cluster.ask("cordon", f"node/{NODE}", "--device", "3", "--reason", WHY)
    assert (done.returncode, done.stdout) == (0, f"node/{NODE} device 3 ({device}) cordoned\n")
    assert cordons(cluster) == {device: WHY}
    assert "already cordoned" in cluster.ask("cordon", "node", NODE, "--device", device, "--reason", WHY).stdout
    assert "reason changed" in cluster.ask("cordon", "node", NODE, "--device", "3").stdout
    assert cluster.ask("uncordon", f"node/{NODE}", "--device", "3").stdout.endswith(" uncordoned\n")
    assert CORDONED not in cluster.annotations("nodes", NODE)
    assert "already uncordoned" in cluster.ask("uncordon", f"node/{NODE}", "--device", "3").stdout


def test_the_cordon_and_its_reason_are_shown(cluster: AskedCluster) -> None:
    cluster.ask("cordon", f"node/{NODE}", "--device", "3", "--reason", WHY)
    for words in (("get", "nodes"), ("get", "devices", NODE), ("describe", "node", NODE), ("explain", f"node/{NODE}")):
        shown = " ".join(cluster.ask(*words, columns=200).stdout.split())
        assert f"cordoned: {WHY}" in shown, words
    devices = json.loads(cluster.ask("get", "devices", NODE, "-o", "json").stdout)["items"]
    (found,) = (one for one in devices if one["cordoned"])
    assert (found["index"], found["healthy"], found["cordon_reason"]) == (3, True, WHY)


def test_a_node_without_an_agent_has_its_devices_cordoned_by_index(cluster: AskedCluster) -> None:
    done = cluster.ask("cordon", "node/plain", "--device", "1", "--reason", WHY)
    assert cordons(cluster, "plain") == {"#1": WHY}
    assert "note: another device plugin allocates the devices of node plain" in done.stderr


def test_a_device_that_was_replaced_can_be_uncordoned(cluster: AskedCluster) -> None:
    cluster.make(node("old", {GPU: 2}, annotations={CORDONED: '{"GPU-gone": "dead"}'}))
    assert cluster.ask("uncordon", "node/old", "--device", "GPU-gone").returncode == 0
    assert CORDONED not in cluster.annotations("nodes", "old")


def test_cordons_at_the_same_time_are_all_recorded(cluster: AskedCluster, tmp_path: Path) -> None:
    environment = {**surroundings(), "KUBECONFIG": str(cluster.kubeconfig)}
    words = [("cordon", f"node/{NODE}", "--device", str(index)) for index in range(4)]
    commands = [start_linkwise(*each, folder=tmp_path, environment=environment) for each in words]
    ended = [(command.communicate(timeout=200), command.returncode) for command in commands]
    assert [code for _, code in ended] == [0] * 4, ended
    assert len(cordons(cluster)) == 4


def test_a_conflict_is_tried_again_and_a_lasting_one_is_an_error(cluster: AskedCluster) -> None:
    cluster.fail(Fault("answer", on="PATCH", path="/nodes/", code=409, times=3))
    assert cluster.ask("cordon", f"node/{NODE}", "--device", "3").returncode == 0
    cluster.fail(Fault("answer", on="PATCH", path="/nodes/", code=409, times=10))
    failed = cluster.ask("cordon", f"node/{NODE}", "--device", "4")
    assert (failed.returncode, "try again" in failed.stderr) == (1, True)


def test_a_user_who_may_not_patch_nodes_gets_an_error(cluster: AskedCluster) -> None:
    cluster.fail(Fault("answer", on="PATCH", path="/nodes/", code=403, times=1))
    refused = cluster.ask("cordon", f"node/{NODE}", "--device", "3")
    assert (refused.returncode, "may not patch nodes" in refused.stderr) == (1, True)
    assert cordons(cluster) == {}


def test_a_dry_run_changes_nothing(cluster: AskedCluster) -> None:
    assert "(server dry run)" in cluster.ask("cordon", f"node/{NODE}", "--device", "3", "--dry-run").stdout
    assert cordons(cluster) == {}


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ((f"node/{NODE}",), 2, "for a whole node use `kubectl cordon`"),
        ((f"node/{NODE}", "--device", "8"), 2, "has no such device; its devices are 0, 1, 2, 3, 4, 5, 6, 7"),
        ((f"node/{NODE}", "--device", "-1"), 2, "has no such device"),
        ((f"node/{NODE}", "--device", ""), 2, "has no such device"),
        ((f"node/{NODE}", "--device", "3", "--reason", "two\nlines"), 2, "one line of printable text"),
        ((f"node/{NODE}", "--device", "3", "--reason", "x" * 257), 2, "at most 256"),
        (("node/nope", "--device", "3"), 1, "node nope not found"),
        (("node/bare", "--device", "0"), 1, "node bare has no devices"),
        (("pod/x", "--device", "3"), 2, 'unknown resource type "pod"; use node\n'),
        (("gpu-7",), 2, 'unknown resource type "gpu-7"; use node; for a node of that name use node/gpu-7'),
    ],
)
def test_what_makes_no_sense_is_refused(
    cluster: AskedCluster, words: tuple[str, ...], code: int, complaint: str
) -> None:
    refused = cluster.ask("cordon", *words)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert complaint in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
