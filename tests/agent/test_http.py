"""Routes of the agent: metrics, probes and container flags."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from linkwise.agent.http import AgentMetrics, agent_application
from linkwise.agent.node_agent import NodeAgent
from linkwise.config.settings import AgentSettings
from linkwise.model.device import Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage
from linkwise.net.http.messages import Request, Response
from linkwise.net.timing import Timing
from support.fakes.agent_cluster import NodeApi

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.net.http.routes import Routes

DEVICES = tuple(Device(f"GPU-{index}", index, minor=index, healthy=index < 2) for index in range(3))


class Machine(Driver):
    """A machine of three devices, the last of which has failed."""

    name = "test"

    def discover(self) -> Discovery:
        return Discovery("nvidia", DEVICES)

    def close(self) -> None:
        """Nothing."""


def application(tmp_path: Path, *, flags: bool = True, usage: NodeUsage | None = None) -> Routes:
    api = NodeApi()
    settings = AgentSettings(flags=flags, host_root=str(tmp_path), kubelet=str(tmp_path))
    agent = NodeAgent(settings, "n", Machine(), api, api, Timing(), time.time)
    agent.found = Discovery("nvidia", DEVICES)
    agent.access.update(agent.found, None)
    agent.usage.latest = usage or NodeUsage()
    return agent_application(agent, AgentMetrics(agent, dict), lambda: ["the API server is away"])


def get(routes: Routes, target: str, client: str = "127.0.0.1") -> Response:
    async def ask() -> Response:
        request = Request(target.encode(), {}, client, asyncio.Event())
        request.method = "GET"
        answer = routes.handle(request)
        assert isinstance(answer, Response)
        return answer

    return asyncio.run(ask())


@pytest.mark.rule("002.flags")
def test_the_flags_of_chosen_devices_are_a_line_of_text(tmp_path: Path) -> None:
    answer = get(application(tmp_path), "/docker/cli?dev=1")
    assert answer.body.decode() == (
        "--device=/dev/nvidia1 --device=/dev/nvidiactl --device=/dev/nvidia-uvm"
        " --env=NVIDIA_VISIBLE_DEVICES=GPU-1 --env=CUDA_VISIBLE_DEVICES=GPU-1\n"
    )


@pytest.mark.rule("002.flags")
def test_without_a_choice_the_flags_are_those_of_all_healthy_devices(tmp_path: Path) -> None:
    answer = json.loads(get(application(tmp_path), "/docker/cli/json").body)
    assert answer["Devices"][:2] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert answer["Environment"][0] == "NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1"


def test_an_unknown_device_is_named(tmp_path: Path) -> None:
    answer = get(application(tmp_path), "/docker/cli?dev=7")
    assert (answer.status, answer.body) == (400, b"unknown device '7'; devices: 0, 1, 2\n")


def test_flags_are_only_for_callers_on_the_same_host(tmp_path: Path) -> None:
    assert get(application(tmp_path), "/docker/cli", client="192.0.2.7").status == 403


def test_flags_are_off_by_default(tmp_path: Path) -> None:
    assert AgentSettings().flags is False
    assert get(application(tmp_path, flags=False), "/docker/cli").status == 404


def test_an_agent_that_has_not_discovered_devices_is_not_ready(tmp_path: Path) -> None:
    answer = get(application(tmp_path), "/readyz")
    assert answer.status == 503
    assert answer.body.decode().splitlines() == [
        "not ready: driver: discovering devices",
        "note: the API server is away",
    ]
    assert get(application(tmp_path), "/livez").status == 200


def test_metrics_count_devices_by_health(tmp_path: Path) -> None:
    lines = get(application(tmp_path), "/metrics").body.decode().splitlines()
    assert 'linkwise_agent_devices{health="healthy"} 2.0' in lines
    assert 'linkwise_agent_devices{health="unhealthy"} 1.0' in lines
    assert 'linkwise_agent_devices{health="cordoned"} 0.0' in lines
    assert "linkwise_agent_enforced 0.0" in lines


@pytest.mark.rule("002.usage")
def test_usage_has_the_labels_of_dcgm_exporter(tmp_path: Path) -> None:
    usage = NodeUsage(
        (DeviceUsage("GPU-0", 16 << 30, 8 << 30, 42), DeviceUsage("GPU-1", 16 << 30, None, None)),
        (PodUsage("u", "team", 'p"\\', "GPU-0", 6 << 30, 40, 7 << 30),),
    )
    shown = get(application(tmp_path, usage=usage), "/metrics").body.decode()
    samples = {
        (sample.name, sample.labels["UUID"]): sample
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
        if "UUID" in sample.labels
    }
    assert samples["linkwise_device_memory_used_bytes", "GPU-0"].value == 8 << 30
    assert samples["linkwise_device_utilization_ratio", "GPU-0"].value == 0.42
    assert ("linkwise_device_memory_used_bytes", "GPU-1") not in samples
    pod = samples["linkwise_pod_device_memory_used_bytes", "GPU-0"]
    assert (pod.value, pod.labels["pod"], pod.labels["namespace"], pod.labels["gpu"]) == (6 << 30, 'p"\\', "team", "0")
    assert samples["linkwise_pod_device_memory_share_bytes", "GPU-0"].value == 7 << 30
