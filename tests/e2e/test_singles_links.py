"""Pods that ask for whole devices get the best linked ones that the cluster has, from a real kube-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.vendors.machines import profile
from support.e2e.brute_force_picks import by_links, pair_scores
from support.e2e.node_objects import KINDS, device_ids, machine
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.service import Granted, Placing

GPU = "nvidia.com/gpu"
SETS: dict[str, dict[str, str]] = {
    "nvlink": {"a": "nvlink", "b": "nvlink"},
    "pcie": {"a": "pcie", "b": "pcie"},
    "bridged": {"a": "mixed", "b": "pcie"},
    "mixed": {"a": "pcie", "b": "mixed", "c": "nvlink", "d": "none"},
    "none": {"a": "none", "b": "none"},
}
"""node names and the kinds of their machines; a machine of kind `none` tells nothing of its links"""
USED: dict[str, tuple[int, ...]] = {"a": (1, 1), "b": (2, 1), "c": (3,), "d": ()}
"""sizes of the pods that a partly used cluster has on each node already"""
SIZES = (1, 2, 3, 4, 8)


def tell(placing: Placing, kinds: Mapping[str, str]) -> None:
    unlinked = {"none": ("nvlink", False)}
    made = [(name, *unlinked.get(kind, (kind, True))) for name, kind in kinds.items()]
    placing.nodes(*(thing for name, kind, links in made for thing in machine(name, kind, links=links)))


def positions(granted: Granted, kind: str) -> tuple[int, ...]:
    return granted.positions(device_ids(granted.node, KINDS.get(kind, KINDS["nvlink"])))


def best(kinds: Mapping[str, str], size: int, free: Mapping[str, set[int]]) -> dict[str, tuple[int, ...]]:
    """The nodes that are as good as any, and what each would give: known links, their score, then the fewest left."""
    found = {}
    for name, kind in kinds.items():
        left = sorted(free[name])
        if len(left) < size:
            continue
        if kind == "none":
            found[name] = ((int(size == 1), 0, size - len(left)), tuple(left[:size]))
        else:
            score, chosen = by_links(profile(KINDS[kind]), size, left)
            found[name] = ((1, score, size - len(left)), chosen)
    most = max(worth for worth, _ in found.values())
    return {name: chosen for name, (worth, chosen) in found.items() if worth == most}


@pytest.mark.rule("000.score")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", SETS)
def test_a_pod_gets_the_best_set_of_all_free_nodes(placing: Placing, kind: str, size: int) -> None:
    kinds = SETS[kind]
    tell(placing, kinds)
    granted = placing.place(placing.namespace(), "train", {GPU: size})
    expected = best(kinds, size, {name: set(range(8)) for name in kinds})
    assert {granted.node: positions(granted, kinds[granted.node])}.items() <= expected.items()


@pytest.mark.rule("000.score")
def test_the_best_of_two_hundred_nodes_is_found(placing: Placing) -> None:
    kinds = {f"n{number}": "nvlink" if number == 137 else "pcie" for number in range(200)}
    tell(placing, kinds)
    granted = placing.place(placing.namespace(), "train", {GPU: 4})
    assert {granted.node: positions(granted, "nvlink")} == best(kinds, 4, {name: set(range(8)) for name in kinds})


@pytest.mark.rule("000.score", "002.pack")
@pytest.mark.parametrize("size", SIZES)
def test_a_pod_gets_the_best_set_of_what_other_pods_left(placing: Placing, size: int) -> None:
    kinds, namespace = SETS["mixed"], placing.namespace()
    tell(placing, kinds)
    free = {name: set(range(8)) for name in kinds}
    for name, sizes in USED.items():
        for number, taken in enumerate(sizes):
            there = {"nodeSelector": {"kubernetes.io/hostname": name}}
            granted = placing.place(namespace, f"{name}-{number}", {GPU: taken}, **there)
            free[name] -= set(positions(granted, kinds[name]))
    granted = placing.place(namespace, "train", {GPU: size})
    expected = best(kinds, size, free)
    assert {granted.node: positions(granted, kinds[granted.node])}.items() <= expected.items()


@pytest.mark.rule("000.story")
def test_of_two_nodes_of_eight_the_one_with_nvlink_gives_a_pair_with_the_most_links(placing: Placing) -> None:
    placing.nodes(*machine("with", "nvlink"), *machine("without", "pcie"))
    granted = placing.place(placing.namespace(), "train", {GPU: 2})
    assert granted.node == "with"
    one, other = positions(granted, "nvlink")
    links = [str(cell) for row in profile("dgx1-v100").topology.links for cell in row]
    assert str(profile("dgx1-v100").topology.links[one][other]).startswith("NV2")
    assert not any(cell.startswith("NV3") for cell in links)


@pytest.mark.rule("000.unknown")
def test_a_node_without_a_matrix_is_used_last_and_used(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("dark", "switch", links=False), *machine("slow", "pcie"))
    first = [placing.place(namespace, f"first-{number}", {GPU: 4}).node for number in range(2)]
    assert first == ["slow", "slow"]
    assert placing.place(namespace, "last", {GPU: 4}).node == "dark"


@pytest.mark.rule("000.nvswitch")
def test_links_through_a_switch_count_as_they_are_printed(placing: Placing) -> None:
    placing.nodes(*machine("direct", "nvlink"), *machine("switched", "switch"))
    assert placing.place(placing.namespace(), "train", {GPU: 4}).node == "switched"


@pytest.mark.rule("000.normalise")
def test_small_differences_between_slow_nodes_are_not_lost(placing: Placing) -> None:
    """Two PCIe nodes differ by 20 of 1860 a pair, which is one in a hundred."""
    namespace, scores = placing.namespace(), pair_scores(profile("v100-pcie"))
    placing.nodes(
        *machine("far", "pcie", unhealthy=[0, 2, 4, 5, 6, 7]), *machine("near", "pcie", unhealthy=[2, 3, 4, 5, 6, 7])
    )
    assert (scores[1][3], scores[0][1]) == (30, 50)
    assert placing.place(namespace, "train", {GPU: 2}).node == "near"
    assert "link score 50" in placing.explain(namespace, "train")


@pytest.mark.rule("000.skip")
def test_a_pod_without_devices_is_neither_asked_about_nor_changed(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    placing.place(namespace, "train", {GPU: 1})
    placing.wait_for_event(namespace, "train", "DevicesChosen")
    counts = ['linkwise_requests_total{code="200",verb="filter"}', 'linkwise_binds_total{outcome="written"}']
    before = [placing.metric(count) for count in counts]
    made = placing.create(namespace, "web", {"cpu": "1"})
    bound = placing.cluster.wait_bound(namespace, "web")
    assert min(before) > 0
    assert [placing.metric(count) for count in counts] == before
    for part in ("annotations", "labels"):
        assert bound["metadata"].get(part) == made["metadata"].get(part)
    assert {**bound["spec"], "nodeName": None} == {**made["spec"], "nodeName": None}


@pytest.mark.rule("002.pack")
def test_single_asks_fill_used_nodes_so_that_a_large_one_still_fits(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*(thing for name in "abc" for thing in machine(name, "nvlink")))
    used = {placing.place(namespace, f"small-{number}", {GPU: 1}).node for number in range(8)}
    assert len(used) == 1
    assert placing.place(namespace, "large", {GPU: 8}).node not in used


@pytest.mark.rule("002.whole")
def test_no_device_of_a_full_node_is_given_twice(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    held = [placing.place(namespace, f"p{number}", {GPU: 1}).devices for number in range(8)]
    assert {device for devices in held for device in devices} == set(device_ids("a", "dgx1-v100"))
    placing.create(namespace, "late", {GPU: 1})
    placing.refused(namespace, "late")


@pytest.mark.rule("002.whole")
def test_containers_of_one_pod_divide_its_set_and_an_init_container_uses_it_before_them(placing: Placing) -> None:
    def container(name: str, size: int) -> dict[str, object]:
        return {"name": name, "image": "example.com/none", "resources": {"limits": {GPU: str(size)}}}

    placing.nodes(*machine("a", "nvlink"))
    several: dict[str, Any] = {
        "containers": [container("one", 2), container("two", 2)],
        "initContainers": [container("fetch", 3)],
    }
    granted = placing.place(placing.namespace(), "train", **several)
    assert positions(granted, "nvlink") == by_links(profile("dgx1-v100"), 4, range(8))[1]
    held = [set(granted.containers[name]["devices"]) for name in ("one", "two")]
    assert [len(devices) for devices in held] == [2, 2]
    assert held[0] | held[1] == set(granted.devices)


@pytest.mark.rule("002.release", "003.between")
def test_devices_are_free_when_a_pod_has_finished_and_not_while_it_is_leaving(placing: Placing) -> None:
    namespace, path = placing.namespace(), "/api/v1/namespaces/{}/pods/{}/status"
    placing.nodes(*machine("a", "nvlink"), *machine("n", "atlas-800"))
    for resource, name in ((GPU, "gpu"), ("huawei.com/Ascend910", "npu")):
        first = placing.place(namespace, f"{name}-1", {resource: 8}, terminationGracePeriodSeconds=600)
        placing.cluster.api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}-1")
        placing.create(namespace, f"{name}-2", {resource: 8})
        placing.refused(namespace, f"{name}-2")
        placing.cluster.api.patch(path.format(namespace, f"{name}-1"), {"status": {"phase": "Succeeded"}})
        assert placing.placed(namespace, f"{name}-2").devices == first.devices


@pytest.mark.rule("002.describe")
def test_kubectl_describe_shows_devices_and_reasons(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    for name, size in (("given", 2), ("waiting", 7)):
        placing.create(namespace, name, {GPU: size})
    placing.wait_for_event(namespace, "given", "DevicesChosen")
    placing.refused(namespace, "waiting")
    cluster = placing.cluster
    assert "devices 0, 3 on node a, chosen by link-affinity" in cluster.kubectl(
        "describe", "pod", "given", "-n", namespace
    )
    assert "Insufficient nvidia.com/gpu" in cluster.kubectl("describe", "pod", "waiting", "-n", namespace)
    shown = cluster.kubectl("describe", "node", "a").split("Allocated resources:")[1].split()
    assert shown[shown.index(GPU) + 1] == "2"


@pytest.mark.rule("002.describe")
def test_every_pod_with_devices_gets_an_event(placing: Placing) -> None:
    """Also where the watch is faster than the answer to the bind, as it often is."""
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"), *machine("b", "nvlink"))
    for number in range(16):
        placing.create(namespace, f"p{number}", {GPU: 1})
    for number in range(16):
        placing.wait_for_event(namespace, f"p{number}", "DevicesChosen")


@pytest.mark.rule("002.vendors")
def test_pods_of_three_vendors_get_their_devices(placing: Placing) -> None:
    asks = {"dgx-a100": GPU, "mi300": "amd.com/gpu", "atlas-800": "huawei.com/Ascend910"}
    namespace = placing.namespace()
    placing.nodes(*(thing for name in asks for thing in machine(name, name)))
    for name, resource in asks.items():
        granted = placing.place(namespace, name, {resource: 4})
        assert (granted.node, len(granted.devices)) == (name, 4)
        assert set(granted.devices) <= set(device_ids(name, name))


def test_a_pod_with_a_former_resource_name_is_refused_with_the_current_one(placing: Placing) -> None:
    old, namespace = "alpha.kubernetes.io/nvidia-gpu", placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    placing.create(namespace, "old", {old: 1})
    assert f"Insufficient {old}" in placing.refused(namespace, "old")
    assert "request nvidia.com/gpu instead" in placing.explain(namespace, "old")


@pytest.mark.rule("000.vendor-plugin")
def test_devices_allocated_by_another_scheduler_are_counted_and_not_allocated_again(placing: Placing) -> None:
    namespace = placing.namespace()
    placing.nodes(*machine("a", "nvlink"))
    placing.create(namespace, "theirs", {GPU: 3}, nodeName="a")
    unknown = 'linkwise_devices{state="unknown"}'
    wait_for(lambda: placing.metric(unknown) == 3, 5, "three devices are taken, which ones is unknown")
    placing.create(namespace, "large", {GPU: 6})
    placing.refused(namespace, "large")
    held = [placing.place(namespace, f"p{number}", {GPU: 1}).devices for number in range(5)]
    assert len({device for devices in held for device in devices}) == 5
    placing.create(namespace, "late", {GPU: 1})
    placing.refused(namespace, "late")
    assert placing.metric(unknown) == 3
