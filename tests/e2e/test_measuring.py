"""Bandwidth is measured on idle devices of a real node, while pods get the others."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from support.builders.tool_texts import nvbandwidth_text
from support.e2e.agent import GPU
from support.e2e.processes import wait_for
from support.e2e.real_node.node import scheduled_pod
from support.e2e.service import grant
from support.nvml_stub.machine import dgx1_v100

if TYPE_CHECKING:
    from pathlib import Path

    from support.e2e.agent import Agent
    from support.e2e.api_client import Raw
    from support.e2e.real_node.node import RealNode

UUIDS = [gpu.uuid or "" for gpu in dgx1_v100().gpus]


def output(count: int) -> str:
    rows = [[40.0 + i + j for j in range(count)] for i in range(count)]
    rows[0][1] = 4.64
    return nvbandwidth_text({"device_to_device_memcpy_write_ce": ("->", tuple(map(tuple, rows)))})


@pytest.mark.rule("001.report", "001.suspect")
def test_pods_get_other_devices_while_idle_ones_are_measured(
    whole_agent: Agent, real_node: RealNode, namespace: str, tmp_path: Path
) -> None:
    tool, go = tmp_path / "nvbandwidth", tmp_path / "go"
    (tmp_path / "output").write_text(output(4))
    tool.write_text(f"#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.1; done\ncat {tmp_path}/output\n")
    tool.chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "linkwise",
        "agent",
        "measure",
        "--run",
        "--tool",
        str(tool),
        "--devices",
        "0,1,2,3",
    ]
    measuring = real_node.machine.process("measure", command, whole_agent.process.environment)
    measuring.start()
    try:
        wait_for(lambda: [one["uuid"] for one in _spec(whole_agent).get("holds", [])] == UUIDS[:4], 30, "a hold")
        pod = scheduled_pod(namespace, "other", {GPU: 2})
        assert set(grant(real_node.run(pod)).devices) <= set(UUIDS[4:])
        whole_agent.agree(1)
        go.touch()
        wait_for(lambda: not measuring.alive, 30, "the measurement ends")
        wait_for(lambda: _spec(whole_agent).get("bandwidth"), 30, "measured bandwidth")
    finally:
        measuring.kill()
    spec = _spec(whole_agent)
    assert "holds" not in spec
    assert (spec["rows"], spec["bandwidth"][0][1:4]) == (UUIDS, [4.64, 42, 43])
    assert spec["facts"]["bandwidth"].startswith("nvbandwidth device_to_device_memcpy_write_ce")
    whole = scheduled_pod(namespace, "rest", {GPU: 6})
    real_node.run(whole)
    whole_agent.agree(2)


@pytest.mark.rule("002.whole")
def test_a_pod_that_needs_a_measured_device_starts_after_the_test_is_killed(
    whole_agent: Agent, real_node: RealNode, namespace: str, tmp_path: Path
) -> None:
    tool = tmp_path / "nvbandwidth"
    tool.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 600\n")
    tool.chmod(0o755)
    command = [sys.executable, "-m", "linkwise", "agent", "measure", "--run", "--tool", str(tool)]
    measuring = real_node.machine.process("measure", command, whole_agent.process.environment)
    measuring.start()
    try:
        wait_for((tmp_path / "pid").exists, 30, "the test runs")
        pod = scheduled_pod(namespace, "urgent", {GPU: 1})
        pod["spec"] |= {"nodeName": real_node.name, "schedulerName": "default-scheduler"}  # no scheduler is asked
        real_node.run(pod)
        wait_for(lambda: not measuring.alive, 30, "the measurement ends")
        assert "a pod" in measuring.tail()
    finally:
        measuring.kill()
    wait_for(lambda: "holds" not in _spec(whole_agent), 30, "the hold ends")
    assert json.dumps(real_node.devices(pod)).count("/dev/nvidia") >= 1


def _spec(agent: Agent) -> Raw:
    return dict(agent.inventory().get("spec", {}))
