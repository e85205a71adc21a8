"""Pods that ask for memory of a card share cards as the GPU share design says, from a real kube-scheduler."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from support.e2e.node_objects import gpushare, machine, node
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from support.e2e.api_client import Raw
    from support.e2e.service import Granted, Placing

MEMORY = "aliyun.com/gpu-mem"
KEYS = "ALIYUN_COM_GPU_MEM_"
SEED = Path(__file__).parents[3] / "shared/seeds"


def keys(granted: Granted) -> dict[str, str]:
    """The annotations of the seed, by their last word."""
    return {key.removeprefix(KEYS): value for key, value in granted.annotations.items() if key.startswith(KEYS)}


def card(granted: Granted) -> int:
    return int(keys(granted)["IDX"])


def seed_manifests() -> list[Raw]:
    """All Kubernetes objects in the text of seed 004, as they stand."""
    if not SEED.exists():
        pytest.skip("the seeds are not there")
    text = next(SEED.glob("004_*.txt")).read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return [thing for block in blocks for thing in yaml.safe_load_all(block) if thing]


def fill(placing: Placing, namespace: str, taken: dict[str, list[int]], memory: int) -> None:
    """Pods on each card of each node that hold so much of it, bound by somebody else in the seed's keys."""
    for name, amounts in taken.items():
        for index, amount in enumerate(amounts):
            if amount:
                keys = {"IDX": index, "DEV": memory, "POD": amount, "ASSIGNED": "true", "ASSUME_TIME": 1 + index}
                holds = {f"{KEYS}{word}": str(value) for word, value in keys.items()}
                placing.create(namespace, f"{name}-{index}", {MEMORY: amount}, nodeName=name, annotations=holds)
    placing.counted(sum(amount > 0 for amounts in taken.values() for amount in amounts))


@pytest.mark.rule("004.binpack", "004.record", "004.one-card", "004.units")
def test_of_the_cards_of_figure_three_the_second_is_chosen_and_written_in_all_five_keys(placing: Placing) -> None:
    namespace, total = placing.namespace(), 16276
    placing.nodes(node("n1", {MEMORY: 4 * total, "aliyun.com/gpu-count": 4}, labels={"gpushare": "true"}))
    fill(placing, namespace, {"n1": [total - 12207, total - 8138, total - 4069, 0]}, total)
    before = time.time_ns()
    granted = placing.place(namespace, "pod", {MEMORY: 8138})
    written = keys(granted)
    assert before < int(written.pop("ASSUME_TIME")) < time.time_ns()
    assert written == {"IDX": "1", "DEV": "16276", "POD": "8138", "ASSIGNED": "false"}
    assert granted.node == "n1"


@pytest.mark.rule("004.filter")
def test_of_the_nodes_of_figure_two_the_one_with_the_room_on_one_card_is_chosen(placing: Placing) -> None:
    namespace, total = placing.namespace(), 16276
    cards = {MEMORY: 2 * total, "aliyun.com/gpu-count": 2}
    assert cards[MEMORY] == 32552
    placing.nodes(*(node(name, cards, labels={"gpushare": "true"}) for name in ("n1", "n2", "n3")))
    fill(placing, namespace, {"n1": [total, 12207], "n2": [12207, 12207], "n3": [8138, total]}, total)
    granted = placing.place(namespace, "pod", {MEMORY: 8138})
    assert (granted.node, card(granted)) == ("n3", 0)


@pytest.mark.rule("004.filter", "004.one-card")
def test_room_that_no_single_card_has_is_refused_with_a_sentence(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*gpushare("n1", cards=2, memory=22))
    fill(placing, namespace, {"n1": [12, 12]}, 22)
    placing.create(namespace, "pod", {MEMORY: 11})
    assert "node(s) had no device with enough free memory" in placing.refused(namespace, "pod")
    assert "the largest request that fits on one device now is 10 GiB" in placing.explain(namespace, "pod")


@pytest.mark.rule("002.fractions", "004.binpack")
def test_pods_fill_one_card_before_they_open_another(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*gpushare("n1"), *gpushare("n2"))
    held = [placing.place(namespace, f"p{number}", {MEMORY: 6}) for number in range(4)]
    assert len({granted.node for granted in held}) == 1
    assert [card(granted) for granted in held] == [0, 0, 0, 1]


@pytest.mark.rule("002.segregate")
def test_a_card_is_shared_within_a_namespace_only(placing: Placing) -> None:
    placing.nodes(*gpushare("n1"))
    one, other = (placing.place(placing.namespace(), "pod", {MEMORY: 6}) for _ in range(2))
    assert (card(one), card(other)) == (0, 1)


@pytest.mark.rule("004.mode")
def test_a_node_is_shared_by_memory_or_given_by_card(placing: Placing) -> None:
    namespace = placing.namespace()
    whole, shared = machine("whole", "nvlink"), gpushare("shared")
    whole[0]["status"]["capacity"] |= {MEMORY: "128", "aliyun.com/gpu-count": "8"}
    whole[0]["status"]["allocatable"] |= {MEMORY: "128", "aliyun.com/gpu-count": "8"}
    shared[0]["status"]["capacity"] |= {"nvidia.com/gpu": "4"}
    shared[0]["status"]["allocatable"] |= {"nvidia.com/gpu": "4"}
    placing.nodes(*whole, *shared)
    assert placing.place(namespace, "part", {MEMORY: 4}).node == "shared"
    assert placing.place(namespace, "card", {"nvidia.com/gpu": 1}).node == "whole"
    placing.create(namespace, "many", {"nvidia.com/gpu": 4}, nodeSelector={"kubernetes.io/hostname": "shared"})
    placing.refused(namespace, "many")


@pytest.mark.rule("004.no-fit")
def test_a_bind_that_does_not_fit_is_refused_at_once_and_leaks_nothing(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*gpushare("n1", cards=1, memory=22))
    fill(placing, namespace, {"n1": [10]}, 22)
    large = placing.create(namespace, "large", {MEMORY: 13}, scheduler="another-scheduler")
    made = large["metadata"]
    placing.serve.http.call("POST", "/gpushare-scheduler/filter", {"Pod": large, "NodeNames": ["n1"]})
    call = {"PodName": "large", "PodNamespace": namespace, "PodUID": made["uid"], "Node": "n1"}
    answer = wait_for(lambda: bind(placing, call), 5, "the service has seen the pod")
    assert answer["Error"] == "node n1: device 0 has 12 GiB free; 13 GiB is needed on one device"
    left = placing.cluster.pod(namespace, "large")
    assert not left["spec"].get("nodeName")
    assert not left["metadata"].get("annotations")
    assert placing.place(namespace, "fits", {MEMORY: 12}).node == "n1"


def bind(placing: Placing, call: dict[str, str]) -> Raw | None:
    answer: Raw = placing.serve.http.call("POST", "/gpushare-scheduler/bind", call)
    return None if "not been observed yet" in answer["Error"] else answer


@pytest.mark.rule("004.manifests", "004.record")
def test_the_sample_deployment_of_the_seed_runs_as_it_stands(placing: Placing) -> None:
    (sample,) = (thing for thing in seed_manifests() if thing["metadata"]["name"] == "binpack-1")
    placing.nodes(*gpushare("p40", cards=4, memory=22), *gpushare("titan", cards=7, memory=11))
    placing.cluster.apply(yaml.safe_dump(sample))
    path = "/api/v1/namespaces/default/pods?labelSelector=app%3Dbinpack-1"
    (made,) = wait_for(lambda: placing.cluster.api.list(path), 20, "the Deployment makes a pod")
    granted = placing.placed("default", made["metadata"]["name"])
    written = keys(granted)
    assert written.pop("DEV") == {"p40": "22", "titan": "11"}[granted.node]
    assert {**written, "ASSUME_TIME": ""} == {"IDX": "0", "POD": "1", "ASSIGNED": "false", "ASSUME_TIME": ""}

    def listed() -> list[Raw]:
        pods: list[Raw] = placing.serve.http.get(f"/gpushare-scheduler/inspect/{granted.node}")["nodes"][0]["devs"][0][
            "pods"
        ]
        return pods

    pods = wait_for(listed, what="the service observes the pod on its node")
    assert pods == [{"name": made["metadata"]["name"], "namespace": "default", "usedGPU": 1}]


@pytest.mark.rule("004.manifests")
def test_all_other_manifests_of_the_seed_are_taken_by_the_api_server_and_their_pods_are_placed(
    placing: Placing,
) -> None:
    """The agent's pods go to labelled nodes, the extender's own to the master; none of them asks for a device."""
    master = node("master", labels={"node-role.kubernetes.io/master": ""})
    master["spec"] = {"taints": [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]}
    placing.nodes(*gpushare("p40"), *machine("whole", "nvlink"), master)
    things = [thing for thing in seed_manifests() if thing["metadata"]["name"] != "binpack-1"]
    for thing in things:
        thing["metadata"].pop("resourceVersion", None)  # what kubectl had printed of theirs, which can't be created
    text = yaml.safe_dump_all(things)
    cluster = placing.cluster
    try:
        cluster.apply(text, "kube-system")
        places = wait_for(lambda: placed_in_system(placing), 20, "both have a pod with a node")
        assert places == {"gpushare-device-plugin": "p40", "gpushare-schd-extender": "master"}
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", "-", stdin=text)


def placed_in_system(placing: Placing) -> dict[str, str] | None:
    pods = placing.cluster.api.list("/api/v1/namespaces/kube-system/pods?labelSelector=app%3Dgpushare")
    found = {pod["metadata"]["labels"]["component"]: pod["spec"].get("nodeName", "") for pod in pods}
    return found if len(found) == 2 and all(found.values()) else None
