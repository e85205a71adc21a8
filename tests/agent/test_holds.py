"""Devices on hold: a measurement gets idle devices only, and no pod ever shares one with it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.agent.holds import hold_socket, is_measuring
from linkwise.agent.measured_driver import MeasuredBandwidthDriver, bandwidth_file, state_folder
from linkwise.agent.node_agent import NodeAgent
from linkwise.config.settings import AgentSettings
from linkwise.drivers.without_hardware import SimulatedDriver
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.net.timing import Timing
from support.builders.tool_texts import nvbandwidth_text
from support.fakes.agent_cluster import NodeApi
from support.fakes.kubelet import PATIENCE, AdmissionError, FakeKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

GPU = "nvidia.com/gpu"
NODE = "worker"
IDS = [f"nvidia-{NODE}-{index}" for index in range(8)]


def pod(name: str, *picks: int, count: int = 0) -> PodView:
    """A pod on the node, with a record if it has picks."""
    part = {"core": 0, "devices": [IDS[index] for index in picks], "share": 0}
    fields = {"containers": {"main": part}, "generation": 0, "mode": "whole", "node": NODE, "plan": "", "version": 1}
    grant = {"linkwise.dev/grant": json.dumps({**fields, "pod": f"uid-{name}", "policy": "x"})} if picks else {}
    main = ContainerView("main", limits={GPU: str(count or len(picks))})
    return PodView("default", name, f"uid-{name}", (main,), annotations=grant, node=NODE)


class Bench:
    """An agent with eight simulated devices, its kubelet and its API server."""

    def __init__(self, folder: Path, *, stores: bool = True, plugin: Any = "auto") -> None:  # noqa: ANN401 - a setting
        self.folder = folder
        self.measurers: list[Measurer] = []
        self.settled: asyncio.Event | None = None
        """if a test sets it, what a hold waits for instead of the time in which binds that are under way end"""
        self.kubelet, self.api = FakeKubelet(folder / "kubelet"), NodeApi(stores=stores)
        settings = replace(AgentSettings(), kubelet=str(folder / "kubelet"), interval=0.1, cdi="never", plugin=plugin)
        self.settings = replace(settings, host_root=str(folder))
        driver = MeasuredBandwidthDriver(SimulatedDriver("dgx1-v100", NODE), bandwidth_file(settings.kubelet))
        self.agent = NodeAgent(self.settings, NODE, driver, self.api, self.api, Timing(sleep=self._sleep), time.time)
        self.agent.holds.settle = 0.1
        self.api.watch = self.agent.observe
        self.agent.observe([NodeView(NODE, runtime="containerd://1.6.0")])

    async def _sleep(self, seconds: float) -> None:
        if self.settled is not None and seconds == self.agent.holds.settle:
            await self.settled.wait()
        else:
            await asyncio.sleep(seconds)

    @property
    def state(self) -> Path:
        return state_folder(self.settings.kubelet)

    def spec(self) -> dict[str, Any]:
        spec: Any = self.api.published[-1].inventory["spec"] if self.api.published else {}
        return dict(spec)

    def held(self) -> list[str]:
        return [hold["uuid"] for hold in self.spec().get("holds", [])]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - the parts have no event in common
                await asyncio.sleep(0.02)

    async def ask(self, **fields: Any) -> Measurer:  # noqa: ANN401 - fields of the request
        request = {"seconds": 60, "reason": "bandwidth measurement"} | fields
        reader, writer = await asyncio.open_unix_connection(hold_socket(self.state))
        writer.write(json.dumps(request).encode() + b"\n")
        self.measurers.append(Measurer(reader, writer))
        return self.measurers[-1]

    async def measure(self, *flags: str, tool: Path | None = None) -> asyncio.subprocess.Process:
        common = ["--driver", "simulated", "--source", "dgx1-v100", "--node", NODE, "--kubelet", self.settings.kubelet]
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "linkwise", "agent", "measure", *common, *flags),
            *(("--run", "--tool", str(tool)) if tool else ()),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    def tool(self, script: str) -> Path:
        path = self.folder / "nvbandwidth"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


class Measurer:
    """The other end of a hold."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def reply(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while line := await self.reader.readline():
                found: dict[str, Any] = json.loads(line)
                if found["state"] != "waiting":
                    return found
        return {}

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Bench]:  # noqa: ANN401 - as Bench has them
    with TemporaryDirectory(prefix="lw") as short:  # unix sockets need short paths
        bench = Bench(Path(short), **options)
        await bench.kubelet.start()
        task = asyncio.create_task(bench.agent.run())
        try:
            if options.get("plugin") != "never":
                await bench.kubelet.capacity(GPU, 8)
                await bench.until(lambda: bool(bench.spec().get("enforced")))
            await bench.until(hold_socket(bench.state).exists)
            yield bench
        finally:
            for measurer in bench.measurers:
                measurer.close()
                await measurer.writer.wait_closed()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await bench.kubelet.stop()


def story(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def play() -> None:
            async with running() as bench:
                await test(bench)

        asyncio.run(play())

    return run


def matrix(count: int, value: float = 40.0) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(700.0 if i == j else value + i + j for j in range(count)) for i in range(count))


def output(count: int, samples: tuple[tuple[float, ...], ...] | None = None) -> str:
    return nvbandwidth_text({"device_to_device_memcpy_write_ce": ("->", samples or matrix(count))})


@story
async def test_idle_devices_are_held_until_the_connection_is_closed(bench: Bench) -> None:
    measurer = await bench.ask()
    assert (await measurer.reply()) == {"state": "held", "sentence": "", "devices": IDS}
    (hold, *_) = bench.spec()["holds"]
    assert (bench.held(), hold["reason"]) == (IDS, "bandwidth measurement")
    measurer.close()
    await bench.until(lambda: "holds" not in bench.spec())


@story
async def test_devices_of_pods_are_not_measured(bench: Bench) -> None:
    bench.api.put(pod("w", 0, 1))
    await bench.kubelet.admit("w", GPU, main=2)
    asked = await (await bench.ask(devices=[IDS[1], IDS[2]])).reply()
    assert asked["state"] == "refused"
    assert f"device {IDS[1]} is not idle: pod default/w has it" in asked["sentence"]
    rest = await bench.ask()
    assert (await rest.reply())["devices"] == IDS[2:]
    rest.close()


@story
async def test_devices_that_the_scheduler_has_promised_to_a_bound_pod_are_not_measured(bench: Bench) -> None:
    bench.api.live = False  # the watch is late: only a read shows the pod
    bench.api.put(pod("w", 4, 5))
    asked = await (await bench.ask(devices=[IDS[4], IDS[6]])).reply()
    assert f"device {IDS[4]} is not idle: pod default/w is about to get it" in asked["sentence"]


@story
async def test_nothing_is_measured_while_a_pod_waits_for_devices_that_are_not_known(bench: Bench) -> None:
    bench.api.put(pod("w", count=1))
    asked = await (await bench.ask()).reply()
    assert "pod default/w is about to get devices, and it is not known which" in asked["sentence"]


@story
async def test_a_pod_bound_while_the_hold_was_published_wins(bench: Bench) -> None:
    bench.settled = asyncio.Event()
    measurer = await bench.ask()
    await bench.until(lambda: bench.held() == IDS)
    bench.api.live = False
    bench.api.put(pod("w", 3))  # decided before the scheduler observed the hold
    bench.settled.set()
    asked = await measurer.reply()
    assert asked["state"] in {"refused", "revoked"}
    await bench.until(lambda: bench.held() == [])


@story
async def test_an_allocation_waits_until_the_measurement_has_ended(bench: Bench) -> None:
    measurer = await bench.ask()
    await measurer.reply()
    admission = asyncio.create_task(bench.kubelet.admit("w", GPU, ids=[IDS[2]], main=1))
    assert (await measurer.reply())["state"] == "revoked"
    await asyncio.sleep(0.2)
    assert not admission.done()
    measurer.close()
    assert (await admission)["main"].ids == (IDS[2],)


@story
async def test_a_pod_is_refused_rather_than_given_a_device_under_measurement(bench: Bench) -> None:
    bench.agent.holds.patience = 0.2
    measurer = await bench.ask()
    await measurer.reply()
    with pytest.raises(AdmissionError, match="in use by a measurement that does not end"):
        await bench.kubelet.admit("w", GPU, ids=[IDS[2]], main=1)
    assert bench.held() == IDS
    measurer.close()


@story
async def test_a_pod_without_a_record_is_steered_to_devices_that_are_not_measured(bench: Bench) -> None:
    measurer = await bench.ask(devices=IDS[:6])
    await measurer.reply()
    bench.api.put(pod("w", count=2))
    assert set((await bench.kubelet.admit("w", GPU, main=2))["main"].ids) == set(IDS[6:])
    assert bench.held() == IDS[:6]
    measurer.close()


@story
async def test_a_bound_pod_with_a_measured_device_on_record_ends_the_measurement(bench: Bench) -> None:
    measurer = await bench.ask()
    await measurer.reply()
    bench.api.put(pod("w", 3))
    assert (await measurer.reply()) == {"state": "revoked", "sentence": "a pod needs a device", "devices": []}
    measurer.close()


@story
async def test_two_measurements_never_have_one_device(bench: Bench) -> None:
    first = await bench.ask(devices=IDS[:2])
    await first.reply()
    second = await (await bench.ask(devices=IDS[1:3])).reply()
    assert "another measurement uses it" in second["sentence"]
    third = await bench.ask()
    assert (await third.reply())["devices"] == IDS[2:]
    first.close()
    third.close()


@story
async def test_a_burst_of_fifty_requests_is_answered_and_holds_each_device_once(bench: Bench) -> None:
    asked = [await bench.ask(devices=IDS[:2]) for _ in range(50)]
    replies = await asyncio.gather(*(one.reply() for one in asked))
    assert [one["state"] for one in replies].count("held") == 1
    assert sorted(bench.held()) == IDS[:2]
    for one in asked:
        one.close()
    await bench.until(lambda: bench.held() == [])


@story
async def test_a_hold_is_revoked_at_its_limit_and_lasts_while_its_processes_run(bench: Bench) -> None:
    measurer = await bench.ask(seconds=1)
    await measurer.reply()
    assert (await measurer.reply())["sentence"] == "the time limit is over"
    assert bench.held() == IDS
    measurer.close()
    await bench.until(lambda: bench.held() == [])


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"\xff\xfe\n",
        b'{"seconds": -1, "reason": "x"}\n',
        b'{"seconds": 1e9, "reason": "x"}\n',
        b'{"seconds": 60, "reason": ""}\n',
        b'{"seconds": 60, "reason": "x", "devices": ["unknown"]}\n',
        b'{"seconds": 60, "reason": "x", "devices": ["nvidia-worker-0"]}\n',
        b'{"seconds": 60, "reason": "x", "more": 1}\n',
        b"x" * 200_000,
    ],
)
def test_an_invalid_request_is_refused_and_holds_nothing(line: bytes) -> None:
    async def play() -> None:
        async with running() as bench:
            reader, writer = await asyncio.open_unix_connection(hold_socket(bench.state))
            writer.write(line)
            assert (await Measurer(reader, writer).reply())["state"] == "refused"
            assert bench.agent.holds.devices == frozenset()
            writer.close()
            await writer.wait_closed()

    asyncio.run(play())


def test_nothing_is_held_where_another_plugin_allocates() -> None:
    async def play() -> None:
        async with running(plugin="never") as bench:
            refused = await (await bench.ask()).reply()
            assert "the agent does not allocate the devices of this node" in refused["sentence"]

    asyncio.run(play())


def test_nothing_is_held_that_the_api_server_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkwise.agent.holds.PUBLISH_SECONDS", 0.2)

    async def play() -> None:
        async with running(stores=False) as bench:
            refused = await (await bench.ask()).reply()
            assert "the API server does not show the hold" in refused["sentence"]
            await bench.until(lambda: bench.held() == [])

    asyncio.run(play())


@story
async def test_a_test_runs_on_held_devices_and_the_agent_publishes_its_rows(bench: Bench) -> None:
    samples = [list(row) for row in matrix(8)]
    samples[1][4] = 4.64
    (bench.folder / "output").write_text(output(8, tuple(map(tuple, samples))))
    script = f'echo "$CUDA_VISIBLE_DEVICES" > {bench.folder}/visible; sleep 0.5; cat {bench.folder}/output'
    measuring = await bench.measure("-o", "json", tool=bench.tool(script))
    await bench.until((bench.folder / "visible").exists)
    assert bench.held() == IDS
    text, _ = await measuring.communicate()
    assert measuring.returncode == 0
    assert (bench.folder / "visible").read_text().strip() == ",".join(IDS)
    assert json.loads(text)["suspects"] == [[IDS[1], IDS[4]]]
    await bench.until(lambda: bench.spec().get("bandwidth", [[0, 0]])[0][1] == 41.0)
    assert bench.spec()["rows"] == IDS
    assert bench.spec()["facts"]["bandwidth"].startswith("nvbandwidth device_to_device_memcpy_write_ce")
    assert bench.spec()["bandwidth"][1][4] == 4.64  # as measured: the scheduler cleans it
    await bench.until(lambda: bench.held() == [])


@story
async def test_a_measurement_on_a_busy_node_has_the_rows_of_the_idle_devices(bench: Bench) -> None:
    bench.api.put(pod("w", 0, 2))
    await bench.kubelet.admit("w", GPU, main=2)
    (bench.folder / "output").write_text(output(6))
    measuring = await bench.measure("-o", "json", tool=bench.tool(f"cat {bench.folder}/output"))
    text, _ = await measuring.communicate()
    assert json.loads(text)["indices"] == [1, 3, 4, 5, 6, 7]
    await bench.until(lambda: "bandwidth" in bench.spec() and bench.spec()["bandwidth"][1][3] == 41.0)
    assert any("no bandwidth is measured between 0-1" in warning for warning in bench.spec()["warnings"])


@story
async def test_a_pod_that_needs_a_device_kills_the_test_before_it_starts(bench: Bench) -> None:
    tool = bench.tool(f"sleep 600 & echo $$ $! > {bench.folder}/pids\nsleep 600")
    measuring = await bench.measure(tool=tool)
    await bench.until((bench.folder / "pids").exists)
    await bench.kubelet.admit("w", GPU, ids=[IDS[5]], main=1)
    pids = (bench.folder / "pids").read_text().split()
    assert not any(_runs(int(pid)) for pid in pids)
    _, errors = await measuring.communicate()
    assert measuring.returncode == 1
    assert b"the kubelet allocates a device to a pod" in errors
    assert not bandwidth_file(bench.settings.kubelet).exists()


@story
async def test_a_killed_measurement_ends_its_test_and_its_hold(bench: Bench) -> None:
    measuring = await bench.measure(tool=bench.tool(f"echo $$ > {bench.folder}/pids\nexec sleep 600"))
    await bench.until((bench.folder / "pids").exists)
    measuring.kill()
    await measuring.communicate()
    await bench.until(lambda: bench.held() == [])
    assert not _runs(int((bench.folder / "pids").read_text()))


@story
async def test_a_child_that_survives_a_killed_measurement_keeps_its_devices_from_pods(bench: Bench) -> None:
    bench.agent.holds.patience = 0.2
    measuring = await bench.measure(tool=bench.tool(f"sleep 600 & echo $$ > {bench.folder}/child\nsleep 600"))
    await bench.until((bench.folder / "child").exists)
    measuring.kill()
    await measuring.wait()
    with pytest.raises(AdmissionError, match="in use by a measurement"):
        await bench.kubelet.admit("w", GPU, ids=[IDS[5]], main=1)
    assert is_measuring(bench.state)
    os.killpg(int((bench.folder / "child").read_text()), 9)
    await bench.until(lambda: bench.held() == [] and not is_measuring(bench.state))


@story
async def test_an_agent_that_stops_ends_the_measurement(bench: Bench) -> None:
    measuring = await bench.measure(tool=bench.tool(f"echo $$ > {bench.folder}/pids\nexec sleep 600"))
    await bench.until((bench.folder / "pids").exists)
    for task in asyncio.all_tasks():
        if task.get_name() == "holds":
            task.cancel()
    _, errors = await measuring.communicate()
    assert b"the agent has closed the connection" in errors
    assert not is_measuring(bench.state)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
