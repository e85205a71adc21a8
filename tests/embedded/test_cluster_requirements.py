"""Requirements on models and versions on the embedded cluster: they decide on nodes and devices, and say why a pod waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from support.e2e.node_objects import device_ids, machine
from support.embedded.cluster import ClusterUnderTest, embedded

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

GPU: Final = "nvidia.com/gpu"
REQUIRE: Final = "linkwise.dev/require"
INVENTORIES: Final = "deviceinventories.linkwise.dev"
GANG: Final = "gang.scheduling.koordinator.sh"


def having(name: str, kind: str = "nvlink", **facts: str) -> list[Raw]:
    """A machine whose inventory has these facts."""
    node, inventory = machine(name, kind)
    inventory["spec"]["facts"] = facts
    return [node, inventory]


def mixed(name: str, **facts: str) -> list[Raw]:
    """A machine whose last four devices are H100."""
    node, inventory = having(name, **facts)
    for device in inventory["spec"]["devices"][4:]:
        device["model"], device["memory"] = "NVIDIA H100 80GB HBM3", 81559
    return [node, inventory]


def requiring(text: str, **annotations: str) -> dict[str, Any]:
    return {"annotations": {REQUIRE: text, **annotations}}


@pytest.mark.rule("002.versions")
@embedded()
async def test_a_pod_goes_to_the_node_with_the_version_that_it_requires(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*having("old", cuda="12.0"), *having("new", cuda="12.4"), *having("blank"))
    assert (await cluster.place("q", {GPU: 2}, **requiring("cuda>=12.2"))).node == "new"


@pytest.mark.rule("002.versions")
@embedded()
async def test_the_event_of_an_unschedulable_pod_counts_nodes_by_what_they_lack_and_it_starts_after_the_upgrade(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*having("a", cuda="12.0"), *having("b", cuda="11.8"), *having("c"))
    cluster.create("p", {GPU: 1}, **requiring("cuda>=12.2"))
    refusal = await cluster.refused("p", "2 node(s) had CUDA below 12.2")
    assert "1 node(s) had an unknown CUDA version" in refusal
    assert "but the node has CUDA version 12.0" in await cluster.explained("p")
    inventory = having("b", cuda="12.4")[1]
    cluster.store.patch(INVENTORIES, "b", {"spec": {"facts": inventory["spec"]["facts"]}})
    assert (await cluster.placed("p")).node == "b"
    await cluster.well()


@pytest.mark.rule("002.versions")
@embedded()
async def test_the_requirement_of_an_image_filters_where_the_pod_has_it(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*having("old", cuda="12.0", driver="525.60.13"), *having("new", cuda="12.4"))
    required = "cuda>=12.2 brand=tesla,driver>=525,driver<526"
    environment = [{"name": "NVIDIA_REQUIRE_CUDA", "value": required}]
    main = {"name": "main", "image": "img", "env": environment, "resources": {"limits": {GPU: "1"}}}
    for number in range(4):
        assert (await cluster.place(f"p{number}", containers=[main])).node == "new"


@pytest.mark.rule("002.versions")
@embedded()
async def test_only_devices_of_the_model_are_given_on_a_node_with_two(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*mixed("mixed"))
    h100 = set(device_ids("mixed", "dgx1-v100")[4:])
    given = [
        await cluster.place(f"p{number}", {GPU: 2}, **requiring("model=H100, memory>=79Gi")) for number in range(2)
    ]
    assert {device for each in given for device in each.devices} == h100
    cluster.create("late", {GPU: 1}, **requiring("model=H100"))
    await cluster.refused("late", "free devices")
    assert (await cluster.place("any", {GPU: 4})).node == "mixed"
    await cluster.settled()


@pytest.mark.rule("002.versions")
@embedded()
async def test_a_gang_is_placed_on_what_all_of_its_members_require_or_not_at_all(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*having("old", cuda="12.0"), *having("new", cuda="12.4"), *mixed("mixed", cuda="12.4"))
    for gang, members, text in (("fits", 3, "cuda>=12.2, model=V100"), ("large", 3, "cuda>=12.2, model=H100")):
        for number in range(members):
            keys = {f"{GANG}/name": gang, f"{GANG}/min-available": str(members)}
            cluster.create(f"{gang}-{number}", {GPU: 2}, **requiring(text, **keys))
    for number in range(3):
        given = await cluster.placed(f"fits-{number}")
        assert given.node == "new"
    await cluster.refused("large-0")
    assert not {"large-0", "large-1", "large-2"} & cluster.bound()
    await cluster.well()


@pytest.mark.rule("002.versions")
@embedded()
async def test_a_requirement_that_cant_be_read_keeps_the_pod_pending_with_the_column_of_the_error(
    cluster: ClusterUnderTest,
) -> None:
    await cluster.nodes(*having("new", cuda="12.4"))
    cluster.create("p", {GPU: 1}, **requiring("cuda>=12.2, modle=A100"))
    assert "column 13: unknown fact 'modle'" in await cluster.refused("p", "column 13")
    assert "column 13" in await cluster.explained("p")


@pytest.mark.rule("002.versions")
@embedded()
async def test_a_pod_past_the_scheduler_is_rejected_by_the_agent_of_its_node(cluster: ClusterUnderTest) -> None:
    await cluster.nodes(*having("old", cuda="12.0"))
    cluster.create("p", {GPU: 1}, nodeName="old", **requiring("cuda>=12.2"))
    failed = await cluster.phase("p", "Failed")
    assert "but the node has CUDA version 12.0" in failed["status"]["message"]


@pytest.mark.rule("002.versions")
@embedded()
async def test_fifty_pods_of_two_requirements_end_on_the_nodes_that_meet_them(cluster: ClusterUnderTest) -> None:
    for number in range(8):
        await cluster.nodes(*having(f"n{number}", cuda="12.4" if number % 2 else "11.8"))
    for number in range(50):
        cluster.create(f"p{number}", {GPU: 1}, **requiring("cuda>=12" if number % 2 else "cuda<12"))
    for number in range(50):
        node = (await cluster.placed(f"p{number}")).node
        assert int(node[1:]) % 2 == number % 2
    await cluster.settled()
