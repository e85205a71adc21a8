"""Another device plugin serves the GPUs: the agent publishes them, follows the kubelet, and takes over when it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU, kubelet_devices
from support.e2e.processes import wait_for
from support.e2e.real_node.device_plugin import Answer, DevicePlugin
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

UUIDS = [gpu.uuid or "" for gpu in dgx1_v100().gpus]


@pytest.fixture
def other(real_node: RealNode) -> Iterator[DevicePlugin]:
    """A plugin of the same devices, to be started; it has no preference among them."""
    made = DevicePlugin(real_node.device_plugins, GPU, UUIDS, Answer({"OTHER": "yes"}))
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
    assert agent.condition("PluginRegistered")["reason"] == "ServedByAnotherPlugin"
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
