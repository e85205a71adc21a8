"""Usage on a real kubelet: what NVML reports of real processes in containers is what devices and pods are charged with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.node.usage import OVER_USE
from support.e2e.agent import GPU, MEMORY
from support.e2e.processes import wait_for
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant, printed
from support.nvml_stub.machine import MIB, dgx1_v100, two_pcie

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing
    from support.nvml_stub.machine import StubMachine

GIB = 1 << 30


def start(agent: Agent, machine: StubMachine) -> None:
    agent.start(machine, usage_interval="1", usage_publish_interval="1", usage_threshold="0")


def series(agent: Agent, name: str) -> dict[tuple[str, str], float]:
    """Values of a metric, by pod and UUID; the pod is empty for metrics of devices."""
    found = {}
    for line in agent.text("/metrics").splitlines():
        if line.startswith(f"{name}{{"):
            labels, _, value = line.removeprefix(f"{name}{{").rpartition("} ")
            pairs = dict(pair.split("=", 1) for pair in labels.split('",'))
            found[pairs.get("pod", "").strip('"'), pairs["UUID"].strip('"')] = float(value)
    return found


def wait_series(agent: Agent, name: str, expected: dict[tuple[str, str], float]) -> None:
    def reached() -> bool:
        found = series(agent, name)
        if {key: found.get(key) for key in expected} != expected:
            raise AssertionError(f"{found}\n{agent.process.tail()}")
        return True

    wait_for(reached, 20, f"{name} is {expected}")


def top(agent: Agent, *words: str) -> list[Raw]:
    """What `linkwise top` prints."""
    shown = printed("top", *words, "-o", "json", "--kubeconfig", str(agent.cluster.kubeconfig("admin")))
    return list(json.loads(shown)["items"])


def usage(agent: Agent) -> Raw:
    return dict(agent.inventory()["status"].get("usage") or {})


def over_use(agent: Agent, pod: Raw) -> list[Raw]:
    """Events about a pod above its share."""
    found = agent.cluster.api.list(f"/api/v1/namespaces/{pod['metadata']['namespace']}/events")
    return [
        one for one in found if one["reason"] == OVER_USE and one["involvedObject"]["name"] == pod["metadata"]["name"]
    ]


@pytest.mark.rule("002.usage")
def test_a_pod_with_whole_gpus_is_charged_with_its_processes(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    machine = dgx1_v100()
    start(agent, machine)
    real_node.wait_allocatable(GPU, 8)
    agent.wait_seen(placing)
    pod = scheduled_pod(namespace, "train", {GPU: 2})
    first, second = grant(real_node.run(pod)).devices
    index = [gpu.uuid for gpu in machine.gpus].index(first)
    pid = real_node.process_id(pod)
    busy = machine.changing(
        index, used=6 * GIB, utilization=(73, 0), processes=((pid, 5 * GIB),), samples=((pid, 70, 1),)
    )
    agent.has(busy)
    wait_series(agent, "linkwise_device_memory_used_bytes", {("", first): 6 * GIB, ("", second): 0})
    wait_series(agent, "linkwise_device_utilization_ratio", {("", first): 0.73})
    wait_series(agent, "linkwise_pod_device_memory_used_bytes", {("train", first): 5 * GIB, ("train", second): 0})
    wait_series(agent, "linkwise_pod_device_utilization_ratio", {("train", first): 0.73})
    published = {one["device"]: one for one in wait_for(lambda: usage(agent)["pods"], 20, "usage is published")}
    assert published.keys() == {first, second}
    wait_for(lambda: _memory(usage(agent), "train", first) == 5 * 1024, 20, "the summary has the memory of the pod")
    (row,) = top(agent, "pods", "-n", namespace)
    assert (row["name"], row["used"]) == ("train", 5 * GIB)
    (node,) = [one for one in top(agent, "nodes") if one["name"] == real_node.name]
    assert (node["used"], node["total"]) == (6 * GIB, 8 * 16160 * MIB)


@pytest.mark.rule("002.usage")
def test_a_pod_above_its_share_is_reported_once(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.cluster.kubectl("label", "node", real_node.name, "gpushare=true")
    start(agent, two_pcie())
    real_node.wait_allocatable(MEMORY, 2 * 15)
    agent.wait_seen(placing)
    greedy, modest = (scheduled_pod(namespace, name, {MEMORY: 4}) for name in ("greedy", "modest"))
    (device,) = grant(real_node.run(greedy)).devices
    (other,) = grant(real_node.run(modest)).devices
    assert device == other
    index = [gpu.uuid for gpu in two_pcie().gpus].index(device)
    processes = ((real_node.process_id(greedy), 5 * GIB), (real_node.process_id(modest), 3 * GIB), (2**22 + 1, GIB))
    agent.has(two_pcie().changing(index, used=9 * GIB, utilization=(90, 0), processes=processes))
    expected = {("greedy", device): 5 * GIB, ("modest", device): 3 * GIB}
    wait_series(agent, "linkwise_pod_device_memory_used_bytes", {key: float(value) for key, value in expected.items()})
    wait_series(agent, "linkwise_pod_device_memory_share_bytes", dict.fromkeys(expected, 4.0 * GIB))
    wait_for(lambda: over_use(agent, greedy), 20, "the event is written")
    rounds = agent.metric("linkwise_agent_usage_readings_total")
    wait_for(lambda: agent.metric("linkwise_agent_usage_readings_total") >= rounds + 5, 20, "five more readings")
    (event,) = over_use(agent, greedy)
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert "uses 5 GiB" in event["message"]
    assert "share of 4 GiB" in event["message"]
    assert over_use(agent, modest) == []


def _memory(published: Raw, pod: str, device: str) -> int:
    (found,) = [one for one in published["pods"] if (one["name"], one["device"]) == (pod, device)]
    return int(found["memoryUsed"])
