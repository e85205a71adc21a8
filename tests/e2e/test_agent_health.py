"""A device dies under load, or is cordoned: it leaves at once, its pod gets an event, other devices stay in use, and it returns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from support.e2e.agent import GPU
from support.e2e.processes import wait_for
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant, printed
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from support.e2e.agent import Agent
    from support.e2e.real_node.node import RealNode
    from support.e2e.service import Placing

UUIDS = [gpu.uuid or "" for gpu in dgx1_v100().gpus]
RECOVERY = 40.0  # seconds
REASON = "ECC errors, ticket 4711"


def unhealthy(agent: Agent) -> set[str]:
    return {one["uuid"] for one in agent.inventory()["spec"]["devices"] if not one["healthy"]}


def linkwise(node: RealNode, *words: str) -> str:
    """What the command line prints to an administrator of the cluster."""
    return printed(*words, "--kubeconfig", str(node.cluster.kubeconfig("admin")))


@pytest.mark.rule("002.inventory")
def test_a_device_that_dies_under_load_leaves_at_once_and_returns_when_it_has_recovered(
    agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    agent.start(dgx1_v100(), interval="3600", health_recovery=str(RECOVERY))  # without events, an hour would pass
    real_node.wait_allocatable(GPU, 8)
    agent.wait_seen(placing)
    (used,) = grant(real_node.run(scheduled_pod(namespace, "load", {GPU: 1}))).devices
    idle = next(uuid for uuid in UUIDS if uuid != used)
    began, dying = time.monotonic(), dgx1_v100().with_xid(UUIDS.index(idle), 48)
    agent.has(dying)
    wait_for(lambda: unhealthy(agent) == {idle}, 10.0, "the idle device is unhealthy")
    assert time.monotonic() - began < 5
    agent.wait_seen(placing)
    others = grant(real_node.run(scheduled_pod(namespace, "train", {GPU: 6})))
    assert set(others.devices) == set(UUIDS) - {used, idle}
    agent.has(dying.with_xid(UUIDS.index(used), 79))
    assert "Xid 79 (the GPU has fallen off the bus" in placing.wait_for_event(namespace, "load", "DeviceFailed")
    real_node.wait_allocatable(GPU, 6)
    real_node.cluster.api.create(scheduled_pod(namespace, "late", {GPU: 1}))
    placing.refused(namespace, "late")
    assert time.monotonic() - began < RECOVERY  # nothing of this had to wait
    wait_for(lambda: unhealthy(agent) == set(), 3 * RECOVERY, "both devices have recovered")
    assert time.monotonic() - began >= RECOVERY
    real_node.wait_allocatable(GPU, 8)
    assert placing.placed(namespace, "late", 60.0).devices == (idle,)
    assert agent.metric("linkwise_agent_fault_events_total") == 2
    agent.wait_running(3)
    agent.agree(3)


@pytest.mark.rule("002.inventory")
def test_an_xid_of_a_program_leaves_its_device_in_use(whole_agent: Agent, real_node: RealNode) -> None:
    whole_agent.has(dgx1_v100().with_xid(3, 31).with_xid(4, 79))
    wait_for(lambda: unhealthy(whole_agent) == {UUIDS[4]}, 10.0, "only the other device is unhealthy")
    real_node.wait_allocatable(GPU, 7)


def test_a_killed_agent_remembers_a_device_that_has_not_recovered(
    agent: Agent, placing: Placing, real_node: RealNode
) -> None:
    agent.start(dgx1_v100(), health_recovery="3600")
    agent.wait_seen(placing)
    agent.has(dgx1_v100().with_xid(3, 79))
    wait_for(lambda: unhealthy(agent) == {UUIDS[3]}, 10.0, "the device is unhealthy")
    agent.has(dgx1_v100())
    agent.restart()
    agent.wait_enforced()
    real_node.wait_allocatable(GPU, 7)
    assert unhealthy(agent) == {UUIDS[3]}


def test_cordoned_devices_get_no_new_pods_and_stay_with_their_own(
    whole_agent: Agent, placing: Placing, real_node: RealNode, namespace: str
) -> None:
    (used,) = grant(real_node.run(scheduled_pod(namespace, "load", {GPU: 1}))).devices
    idle = next(uuid for uuid in UUIDS if uuid != used)
    node = f"node/{real_node.name}"
    linkwise(real_node, "cordon", node, "--device", idle, "--reason", REASON)
    real_node.wait_allocatable(GPU, 7)
    assert unhealthy(whole_agent) == set()  # nothing is wrong with it
    others = grant(real_node.run(scheduled_pod(namespace, "train", {GPU: 6})))
    assert set(others.devices) == set(UUIDS) - {used, idle}
    whole_agent.restart()
    real_node.wait_allocatable(GPU, 7)
    real_node.cluster.api.create(scheduled_pod(namespace, "late", {GPU: 1}))
    placing.refused(namespace, "late")
    assert f"cordoned: {REASON}" in linkwise(real_node, "explain", "pod/late", "-n", namespace)
    shown = [
        ("get", "nodes", real_node.name),
        ("get", "devices", real_node.name, "-o", "json"),
        ("describe", node),
        ("explain", node),
    ]
    for words in shown:
        assert REASON in " ".join(linkwise(real_node, *words).split()), words
    linkwise(real_node, "uncordon", node, "--device", str(UUIDS.index(idle)))
    assert placing.placed(namespace, "late", 60.0).devices == (idle,)
    linkwise(real_node, "cordon", node, "--device", used, "--reason", REASON)
    assert REASON in placing.wait_for_event(namespace, "load", "DeviceCordoned")
    real_node.wait_allocatable(GPU, 7)
    whole_agent.wait_running(3)
    whole_agent.agree(3)
