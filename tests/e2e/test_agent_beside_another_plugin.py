"""Another device plugin serves the GPUs: the agent publishes them, follows the kubelet, and takes over when it can."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, MEMORY, kubelet_devices
from support.e2e.api_client import MERGE
from support.e2e.processes import wait_for
from support.e2e.real_node.device_plugin import Answer, DevicePlugin
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100
from support.profile import rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

UUIDS = [gpu.uuid or "" for gpu in dgx1_v100().gpus]
GIB = 15
"""that each of the GPUs has to share"""
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
ASSIGNED = "ALIYUN_COM_GPU_MEM_ASSIGNED"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
TAKE_OVERS = rounds(1, 20)
"""by agents that are killed under the load"""


@pytest.fixture
def other(real_node: RealNode) -> Iterator[DevicePlugin]:
    """A plugin of the same devices, to be started; it has no preference among them."""

    def answer(ids: Sequence[str]) -> Answer:
        return Answer({"OTHER": "yes", VISIBLE: ",".join(ids)})

    made = DevicePlugin(real_node.device_plugins, GPU, UUIDS, answer)
    yield made
    made.stop()


def has_what_is_on_record(agent: Agent, pod: Raw) -> bool:
    """The record, the inventory and the kubelet agree; what the container sees is up to the other plugin."""
    about = agent.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
    name = (about["metadata"]["namespace"], about["metadata"]["name"], "main")
    listed = {one["podUID"]: set(one["devices"]) for one in agent.inventory()["status"].get("allocations", ())}
    recorded, used = set(grant(about).devices), kubelet_devices(agent.node)[name]
    if recorded != used or listed != {about["metadata"]["uid"]: used}:
        raise AssertionError(f"record {recorded}, kubelet {used}, inventory {listed}")
    return True


@pytest.mark.rule("000.agree")
def test_records_follow_the_kubelet_until_the_agent_takes_over(
    agent: Agent, other: DevicePlugin, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    other.start()
    real_node.wait_allocatable(GPU, 8)
    agent.start(dgx1_v100())
    agent.wait_enforced(enforced=False)
    wait_for(
        lambda: agent.condition("PluginRegistered")["reason"] == "ServedByAnotherPlugin", 20, "the other one serves"
    )
    agent.wait_seen(placing, enforced=False)
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    real_node.run(pod)
    assert real_node.environment(pod)["OTHER"] == "yes"
    wait_for(lambda: has_what_is_on_record(agent, pod), 20, "the record follows the kubelet")
    other.stop()
    agent.wait_enforced()
    real_node.wait_allocatable(GPU, 8)
    wait_for(lambda: has_what_is_on_record(agent, pod), 20, "the record is still right")
    real_node.remove(pod)
    real_node.run(scheduled_pod(namespace, "next", {GPU: 2}))
    agent.agree(1)


@pytest.mark.rule("000.agree")
def test_the_agent_serves_again_after_a_plugin_that_replaced_it_has_gone(
    whole_agent: Agent, other: DevicePlugin, real_node: RealNode, namespace: str
) -> None:
    """The kubelet tells a plugin neither that another one has replaced it, nor that this one has gone."""
    other.start()
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    real_node.run(pod)
    assert real_node.environment(pod)["OTHER"] == "yes"
    wait_for(lambda: has_what_is_on_record(whole_agent, pod), 20, "the record follows the kubelet")
    real_node.remove(pod)
    other.stop()
    real_node.wait_allocatable(GPU, 0)
    real_node.wait_allocatable(GPU, 8)
    real_node.run(scheduled_pod(namespace, "next", {GPU: 2}))
    whole_agent.agree(1)


@pytest.fixture
def gpushare(real_node: RealNode) -> Iterator[DevicePlugin]:
    """gpushare's plugin: it gives the GPU on the record of the first pod that waits, whatever ids the kubelet allocates."""
    pods = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{real_node.name}"

    def answer(ids: Sequence[str]) -> Answer:
        waiting = [
            pod["metadata"]
            for pod in real_node.cluster.api.list(pods)
            if pod["metadata"].get("annotations", {}).get(ASSIGNED) == "false"
            and pod["spec"]["containers"][0]["resources"]["limits"][MEMORY] == str(len(ids))
        ]
        about = waiting[0]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        real_node.cluster.api.call("PATCH", path, {"metadata": {"annotations": {ASSIGNED: "true"}}}, MERGE)
        index = about["annotations"][INDEX]
        return Answer({VISIBLE: index, INDEX: index})

    ids = [f"{uuid}-_-{unit}" for uuid in UUIDS for unit in range(GIB)]
    made = DevicePlugin(real_node.device_plugins, MEMORY, ids, answer)
    made.start()
    real_node.wait_allocatable(MEMORY, GIB * len(UUIDS))
    yield made
    made.stop()


def records(agent: Agent, pods: Sequence[Raw]) -> list[str]:
    names = [pod["metadata"] for pod in pods]
    found = [agent.cluster.pod(one["namespace"], one["name"])["metadata"] for one in names]
    return [one["annotations"][INDEX] for one in found]


def wait_counted(agent: Agent, pods: Sequence[Raw], cards: Sequence[str]) -> bool:
    """The inventory lists the pods on these cards."""

    def counted() -> bool:
        about = [agent.cluster.pod(one["metadata"]["namespace"], one["metadata"]["name"])["metadata"] for one in pods]
        wanted = {one["uid"]: [UUIDS[int(card)]] for one, card in zip(about, cards, strict=True)}
        found = {one["podUID"]: one["devices"] for one in agent.inventory()["status"].get("allocations", ())}
        if found != wanted:
            raise AssertionError(f"{found} instead of {wanted}\n{agent.process.tail()}")
        return True

    return wait_for(counted, 20, "the inventory lists the pods")


@pytest.mark.rule("004.allocate")
def test_records_of_gpushare_stand_and_no_card_is_oversold_after_the_agent_takes_over(
    agent: Agent, gpushare: DevicePlugin, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    agent.start(dgx1_v100())
    agent.wait_enforced(enforced=False)
    agent.wait_seen(placing, enforced=False)
    old = [scheduled_pod(namespace, f"old-{number}", {MEMORY: 3}) for number in range(3)]
    for pod in old:
        real_node.run(pod)
    cards = records(agent, old)
    gpushare.stop()
    agent.wait_enforced()
    agent.wait_seen(placing)
    real_node.wait_allocatable(MEMORY, GIB * len(UUIDS))
    wait_counted(agent, old, cards)
    new = [scheduled_pod(namespace, f"new-{number}", {MEMORY: GIB}) for number in range(3)]
    for pod in new:
        real_node.run(pod)
    assert records(agent, old) == cards
    given = [real_node.environment(pod)[VISIBLE] for pod in new]
    assert [UUIDS.index(uuid) for uuid in given] == [int(card) for card in records(agent, new)]
    assert not set(cards) & set(records(agent, new))
    assert len(set(given)) == len(new)
    everything = (*old, *new), (*cards, *records(agent, new))
    wait_counted(agent, *everything)
    assert agent.condition("KubeletIdsMatch")["reason"] == "SeenInContainers"
    agent.restart()
    real_node.restart_kubelet()
    agent.wait_enforced()
    wait_counted(agent, *everything)
    assert records(agent, [*old, *new]) == [*everything[1]]
    assert agent.metric("linkwise_agent_records_corrected_total") == 0


@pytest.mark.soak
@pytest.mark.timeout(120 + 60 * TAKE_OVERS)
@pytest.mark.rule("004.allocate")
def test_no_card_is_oversold_while_the_agent_takes_over_under_a_load_of_pods(
    agent: Agent, gpushare: DevicePlugin, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    agent.start(dgx1_v100())
    agent.wait_enforced(enforced=False)
    agent.wait_seen(placing, enforced=False)
    path, made = f"/api/v1/namespaces/{namespace}/pods", 0

    def create(count: int) -> None:
        nonlocal made
        sizes = [(3, 5, 7)[number % 3] for number in range(made, made + count)]
        real_node.cluster.create(
            scheduled_pod(namespace, f"load-{made + number}", {MEMORY: size}) for number, size in enumerate(sizes)
        )
        made += count

    create(4)
    agent.wait_running(2)
    create(2)
    gpushare.stop()  # with pods on their way to it
    create(4)
    agent.wait_enforced()
    create(4)
    for _ in range(TAKE_OVERS):
        agent.restart()  # killed with pods on their way to it
        create(2)
        agent.wait_enforced()
        agent.wait_seen(placing)
        running = wait_for(lambda: all_running(agent, path), 60, "all pods run that the kubelet has not rejected")
        used: Counter[str] = Counter()
        for pod in running:
            seen, size = (
                real_node.environment(pod)[VISIBLE],
                int(pod["spec"]["containers"][0]["resources"]["limits"][MEMORY]),
            )
            card = seen if seen in UUIDS else UUIDS[int(seen)]
            assert pod["metadata"]["annotations"][INDEX] == str(UUIDS.index(card)), (
                "the record is what the container has"
            )
            used[card] += size
        assert max(used.values()) <= GIB, used
        for pod in running[:2]:
            real_node.remove(pod)


def all_running(agent: Agent, path: str) -> list[Raw]:
    """The pods that the kubelet has not rejected, once all of them run."""
    pods = [pod for pod in agent.cluster.api.list(path) if pod["status"]["phase"] != "Failed"]
    waiting = {
        pod["metadata"]["name"]: agent.cluster.events(pod["metadata"]["namespace"], pod["metadata"]["name"])[-1:]
        for pod in pods
        if pod["status"]["phase"] != "Running"
    }
    assert not waiting, waiting
    return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods]


def test_records_stand_after_the_kubelet_has_lost_its_checkpoint(
    agent: Agent, gpushare: DevicePlugin, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    """The kubelet lists nothing for containers that run on, and counts all units as free."""
    agent.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    agent.start(dgx1_v100())
    agent.wait_seen(placing, enforced=False)
    old = [scheduled_pod(namespace, f"old-{number}", {MEMORY: 12}) for number in range(2)]
    for pod in old:
        real_node.run(pod)
    cards = records(agent, old)
    gpushare.stop()
    agent.wait_enforced()
    wait_counted(agent, old, cards)
    real_node.stop_kubelet()
    (real_node.device_plugins / "kubelet_internal_checkpoint").unlink()
    real_node.start_kubelet()
    agent.wait_enforced()
    real_node.wait_allocatable(MEMORY, GIB * len(UUIDS))
    wait_counted(agent, [], [])
    new = scheduled_pod(namespace, "new", {MEMORY: 12})
    real_node.run(new)
    assert records(agent, old) == cards
    assert not set(records(agent, [new])) & set(cards)
    assert [str(UUIDS.index(real_node.environment(new)[VISIBLE]))] == records(agent, [new])
