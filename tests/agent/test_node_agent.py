"""The agent beside a kubelet: gRPC over real unix sockets, with simulated devices."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkwise.agent.node_agent import NodeAgent
from linkwise.config.settings import AgentSettings
from linkwise.dialects.aliyun import ASSIGNED, INDEX
from linkwise.dialects.registry import held_by
from linkwise.model.device import Device
from linkwise.model.discovery import Discovery
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.net.timing import Timing
from support.fakes.agent_cluster import NodeApi
from support.fakes.kubelet import AdmissionError, FakeKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

GPU = "nvidia.com/gpu"
MEMORY = "aliyun.com/gpu-mem"
NODE = "worker"


def devices(count: int = 4, *, memory: int = 16276) -> tuple[Device, ...]:
    return tuple(
        Device(f"GPU-{index}", index, minor=index, numa=index // 2, bus_id=f"0000:0{index}:00.0", model="V100", memory=memory)
        for index in range(count)
    )


@dataclass(slots=True)
class Machine:
    """Driver of a machine whose devices a test may change."""

    found: Discovery = field(default_factory=lambda: Discovery("nvidia", devices()))
    name: str = "test"
    calls: int = 0

    def discover(self) -> Discovery:
        self.calls += 1
        return self.found

    def close(self) -> None:
        """Nothing."""


@dataclass(slots=True)
class Bench:
    """An agent, its kubelet and its API server."""

    agent: NodeAgent
    kubelet: FakeKubelet
    api: NodeApi
    machine: Machine

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.02)


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="lw") as short:  # unix sockets need short paths
        yield Path(short)


@asynccontextmanager
async def running(
    folder: Path, *, share: bool = False, kubelet: FakeKubelet | None = None, machine: Machine | None = None, **settings: object
) -> AsyncIterator[Bench]:
    beside = kubelet or FakeKubelet(folder / "kubelet")
    if kubelet is None:
        await beside.start()
    api, machine = NodeApi(), machine or Machine()
    chosen = replace(AgentSettings(), kubelet=str(folder / "kubelet"), interval=0.1, cdi="never", host_root=str(folder), **settings)
    agent = NodeAgent(chosen, NODE, machine, api, api, Timing(), time.time)
    api.watch = agent.observe
    agent.observe([NodeView(NODE, labels={"gpushare": "true"} if share else {}, runtime="containerd://1.6.0")])
    task = asyncio.create_task(agent.run())
    try:
        yield Bench(agent, beside, api, machine)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await beside.stop()


def record(uid: str, *parts: tuple[str, tuple[int, ...], int]) -> dict[str, str]:
    containers = {
        name: {"core": 0, "devices": [f"GPU-{index}" for index in own], "share": share} for name, own, share in parts
    }
    mode = "share" if parts[0][2] else "whole"
    fields = {"containers": containers, "generation": 0, "mode": mode, "node": NODE, "plan": "", "pod": uid, "policy": "x"}
    return {"linkwise.dev/grant": json.dumps({**fields, "version": 1})}


def gpu_pod(name: str, *picks: int, count: int = 0) -> PodView:
    annotations = record(f"uid-{name}", ("main", picks, 0)) if picks else {}
    main = ContainerView("main", limits={GPU: str(count or len(picks))})
    return PodView("default", name, f"uid-{name}", (main,), annotations=annotations, node=NODE)


def share_pod(name: str, device: int, **units: int) -> PodView:
    uid = f"uid-{name}"
    annotations = record(uid, *((container, (device,), share) for container, share in units.items()))
    annotations |= {INDEX: str(device), ASSIGNED: "false"}
    containers = tuple(ContainerView(each, limits={MEMORY: str(share)}) for each, share in units.items())
    return PodView("default", name, uid, containers, annotations=annotations, node=NODE)


def devices_on_record(pod: PodView) -> tuple[str, ...]:
    grant = held_by(pod).grant
    return grant.offer.devices if grant else ()


async def test_the_kubelet_counts_the_devices(folder: Path) -> None:
    async with running(folder) as bench:
        await bench.kubelet.capacity(GPU, 4)
        assert bench.kubelet.registrations == [GPU]
        await bench.until(lambda: bench.agent.registrar.status.enforced)
        spec = bench.api.published[-1].inventory["spec"]
        assert (spec["enforced"], spec["mode"], spec["deviceCount"]) == (True, "whole", 4)  # type: ignore[index]
