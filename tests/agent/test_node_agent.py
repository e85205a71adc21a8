"""The agent beside a kubelet: gRPC over real unix sockets, with simulated devices."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from linkwise.agent.node_agent import AWAY, NodeAgent
from linkwise.broker.watch_events import NodeObject, PodDeleted
from linkwise.config.settings import AgentSettings, AscendSettings, HealthSettings
from linkwise.dialects.aliyun import ASSIGNED, INDEX
from linkwise.dialects.linkwise.cordon import CORDONED
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.registry import held_by
from linkwise.errors import LinkwiseError
from linkwise.model.device import Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.net.timing import Timing
from support.agent_stories import beside
from support.fakes.agent_cluster import NodeApi
from support.fakes.kubelet import PATIENCE, AdmissionError, FakeKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

GPU = "nvidia.com/gpu"
MEMORY = "aliyun.com/gpu-mem"
NODE = "worker"


def devices(count: int = 4, *, memory: int = 16276) -> tuple[Device, ...]:
    return tuple(
        Device(
            f"GPU-{index}",
            index,
            minor=index,
            numa=index // 2,
            bus_id=f"0000:0{index}:00.0",
            model="V100",
            memory=memory,
        )
        for index in range(count)
    )


@dataclass(slots=True)
class Machine(Driver):
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

    def spec(self) -> dict[str, Any]:
        spec: Any = self.api.published[-1].inventory["spec"]
        return dict(spec)

    def allocations(self) -> dict[str, list[str]]:
        status: Any = self.api.published[-1].inventory["status"] if self.api.published else {"allocations": []}
        return {one["podUID"]: one["devices"] for one in status["allocations"]}

    def held(self) -> dict[str, str]:
        return {one["uuid"]: one["reason"] for one in self.spec().get("holds", ())}

    def condition(self, kind: str) -> tuple[str, str]:
        status: Any = self.api.published[-1].inventory["status"]
        (found,) = [one for one in status["conditions"] if one["type"] == kind]
        return found["status"], found["reason"]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - the agent's parts have no event in common
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(  # noqa: PLR0913 - every field but one has a default
    folder: Path,
    *,
    share: bool = False,
    kubelet: FakeKubelet | None = None,
    machine: Machine | None = None,
    inventory: Mapping[str, object] | None = None,
    wall: Callable[[], float] = time.time,
    **settings: Any,  # noqa: ANN401 - fields of the settings
) -> AsyncIterator[Bench]:
    beside = kubelet or FakeKubelet(folder / "kubelet")
    if kubelet is None:
        await beside.start()
    api, machine = NodeApi(), machine or Machine()
    settings.setdefault("health", HealthSettings(recovery=0.2))
    chosen = replace(
        AgentSettings(cdi="never"),
        kubelet=str(folder / "kubelet"),
        interval=0.1,
        host_root=str(folder),
        cdi_folder=str(folder / "cdi"),
        **settings,
    )
    agent = NodeAgent(chosen, NODE, machine, api, api, Timing(), wall)
    api.watch = agent.observe
    agent.observe([NodeView(NODE, labels={"gpushare": "true"} if share else {}, runtime="containerd://1.6.0")])
    if inventory is not None:
        agent.observe([NodeObject(NODE, KIND, inventory)])
    task = asyncio.create_task(agent.run())
    try:
        yield Bench(agent, beside, api, machine)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await beside.stop()


Story = Callable[[Bench], Coroutine[Any, Any, None]]


def beside_a_kubelet(**settings: Any) -> Callable[[Story], Callable[[], None]]:  # noqa: ANN401 - fields of the settings
    """Make a test of a coroutine: it is run with an agent that has these settings."""
    return beside(running, settings)


def record(uid: str, *parts: tuple[str, tuple[int, ...], int]) -> dict[str, str]:
    containers = {
        name: {"core": 0, "devices": [f"GPU-{index}" for index in own], "share": share} for name, own, share in parts
    }
    mode = "share" if parts[0][2] else "whole"
    fields = {
        "containers": containers,
        "generation": 0,
        "mode": mode,
        "node": NODE,
        "plan": "",
        "pod": uid,
        "policy": "x",
    }
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


@beside_a_kubelet()
async def test_the_kubelet_counts_the_devices(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    await bench.until(lambda: bench.agent.registrar.status.enforced)
    assert bench.kubelet.registrations == [GPU]
    spec = bench.spec()
    assert (spec["enforced"], spec["mode"], spec["deviceCount"]) == (True, "whole", 4)


@beside_a_kubelet()
async def test_the_devices_on_record_for_a_deleted_pod_are_not_those_of_the_next(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("deleted", 3))
    del bench.api.stored["uid-deleted"]
    bench.agent.observe([PodDeleted("uid-deleted")])
    bench.api.put(gpu_pod("next", 1))
    given = (await bench.kubelet.admit("next", GPU, main=1))["main"]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


@pytest.mark.rule("000.agree")
@beside_a_kubelet()
async def test_a_container_sees_the_devices_on_record(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 1, 3))
    given = (await bench.kubelet.admit("a", GPU, main=2))["main"]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    assert given.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-3"
    assert [*given.nodes] == ["/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-1", "GPU-3"]})


@beside_a_kubelet()
async def test_a_pod_that_the_watch_has_not_shown_is_read(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.live = False
    bench.api.put(gpu_pod("a", 2))
    given = (await bench.kubelet.admit("a", GPU, main=1))["main"]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-2"


@beside_a_kubelet()
async def test_pods_served_in_another_order_get_their_records_swapped(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    for pod in (gpu_pod("a", 0), gpu_pod("b", 1)):
        bench.api.put(pod)
    await bench.kubelet.admit("b", GPU, main=1)
    await bench.kubelet.admit("a", GPU, main=1)
    await bench.until(lambda: [devices_on_record(pod) for pod in bench.api.stored.values()] == [("GPU-1",), ("GPU-0",)])
    await bench.until(lambda: len(bench.api.events) == 2)
    assert {event.reason for event in bench.api.events} == {"RecordCorrected"}
    assert bench.agent.records.corrected == {"swapped": 2}


@beside_a_kubelet()
async def test_a_pod_of_another_scheduler_gets_the_devices_that_linkwise_would_pick(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("stranger", count=1))
    given = (await bench.kubelet.admit("stranger", GPU, main=1))["main"]
    assert len(given.ids) == 1
    await bench.until(lambda: bench.allocations() == {"uid-stranger": list(given.ids)})
    assert bench.api.events == []


@pytest.mark.rule("004.report")
@beside_a_kubelet(share=True)
async def test_the_memory_of_every_device_is_counted_in_its_unit(bench: Bench) -> None:
    await bench.kubelet.capacity(MEMORY, 4 * 15)
    await bench.until(lambda: bench.agent.registrar.status.enforced)
    assert bench.api.published[-1].capacity == {"aliyun.com/gpu-count": "4"}


@pytest.mark.rule("004.environment")
@beside_a_kubelet(share=True)
async def test_each_container_of_a_share_has_its_own_amount(bench: Bench) -> None:
    await bench.kubelet.capacity(MEMORY, 60)
    bench.api.put(share_pod("a", 2, one=3, two=5))
    given = await bench.kubelet.admit("a", MEMORY, one=3, two=5)
    names = (
        "NVIDIA_VISIBLE_DEVICES",
        "ALIYUN_COM_GPU_MEM_IDX",
        "ALIYUN_COM_GPU_MEM_POD",
        "ALIYUN_COM_GPU_MEM_CONTAINER",
    )
    assert [given["one"].environment[name] for name in names] == ["GPU-2", "2", "8", "3"]
    assert [given["two"].environment[name] for name in names] == ["GPU-2", "2", "8", "5"]
    assert given["two"].environment["ALIYUN_COM_GPU_MEM_DEV"] == "15"


@pytest.mark.rule("004.allocate")
@beside_a_kubelet(share=True)
async def test_a_share_is_marked_as_assigned_once_all_containers_have_it(bench: Bench) -> None:
    await bench.kubelet.capacity(MEMORY, 60)
    bench.api.put(share_pod("a", 2, one=3, two=5))
    await bench.kubelet.admit("a", MEMORY, one=3)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-2"]})
    assert bench.api.stored["uid-a"].annotations[ASSIGNED] == "false"
    await bench.kubelet.admit("a", MEMORY, two=5)
    await bench.until(lambda: bench.api.stored["uid-a"].annotations[ASSIGNED] == "true")


@beside_a_kubelet(share=True)
async def test_a_share_without_a_record_is_refused_with_a_sentence(bench: Bench) -> None:
    await bench.kubelet.capacity(MEMORY, 60)
    with pytest.raises(AdmissionError, match="must be scheduled by Linkwise"):
        await bench.kubelet.admit("stranger", MEMORY, main=2)


@beside_a_kubelet(share=True, memory_unit="MiB", machine=Machine(Discovery("nvidia", devices(8, memory=81920))))
async def test_a_unit_that_makes_too_many_ids_is_refused_with_what_to_set(bench: Bench) -> None:
    await bench.until(lambda: any("set agent.memory_unit to GiB" in problem for problem in bench.agent.problems()))
    await bench.until(lambda: bench.condition("PluginRegistered") == ("False", "ModeNotServed"))
    assert bench.kubelet.registrations == []


@beside_a_kubelet()
async def test_a_device_that_fails_is_not_allocated_and_comes_back(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    good = bench.machine.found
    dead = replace(good.devices[1], healthy=False)
    bench.machine.found = replace(good, devices=(good.devices[0], dead, *good.devices[2:]), faults={"GPU-1": "lost"})
    await bench.kubelet.capacity(GPU, 3)
    assert "GPU-1" not in bench.kubelet.healthy(GPU)
    bench.machine.found = good
    await bench.kubelet.capacity(GPU, 4)


@beside_a_kubelet(health=HealthSettings(recovery=3600))
async def test_a_device_that_failed_is_held_back_after_its_fault_is_gone(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    good = bench.machine.found
    dead = replace(good.devices[1], healthy=False)
    bench.machine.found = replace(good, devices=(good.devices[0], dead, *good.devices[2:]), faults={"GPU-1": "lost"})
    await bench.kubelet.capacity(GPU, 3)
    bench.machine.found = good
    await bench.until(lambda: "used again after 3600 s" in str(bench.spec()["devices"][1].get("facts")))
    assert len(bench.kubelet.healthy(GPU)) == 3


FAILED = {"uuid": "GPU-1", "index": 1, "healthy": False, "facts": {"fault": "Xid 79"}}
LAST = {"metadata": {"name": NODE}, "spec": {"devices": [FAILED, {"uuid": "GPU-2", "healthy": False}, 3]}}


@beside_a_kubelet(health=HealthSettings(recovery=3600), inventory=LAST)
async def test_faults_that_the_last_agent_published_are_remembered(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 3)
    assert "GPU-1" not in bench.kubelet.healthy(GPU)


def cordoned(text: str) -> NodeView:
    return NodeView(NODE, annotations={CORDONED: text}, runtime="containerd://1.6.0")


@beside_a_kubelet()
async def test_a_cordoned_device_is_not_allocated_stays_with_its_pod_and_comes_back(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 1))
    await bench.kubelet.admit("a", GPU, main=1)
    bench.agent.observe([cordoned('{"GPU-1": "ticket", "#3": ""}')])
    await bench.kubelet.capacity(GPU, 2)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-1"]})
    assert bench.kubelet.healthy(GPU) == ["GPU-0", "GPU-2"]
    assert bench.spec()["healthyCount"] == 4  # nothing is wrong with them
    assert bench.condition("DevicesCordoned") == ("True", "Cordoned")
    bench.agent.observe([cordoned("")])
    await bench.kubelet.capacity(GPU, 4)


@beside_a_kubelet(share=True)
async def test_the_memory_of_a_cordoned_device_is_not_allocatable(bench: Bench) -> None:
    await bench.kubelet.capacity(MEMORY, 4 * 15)
    view = replace(cordoned('{"GPU-1": "ticket"}'), labels={"gpushare": "true"})
    bench.agent.observe([view])
    await bench.kubelet.capacity(MEMORY, 3 * 15)


@beside_a_kubelet()
async def test_an_invalid_cordon_changes_nothing(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.agent.observe([cordoned('{"GPU-1"')])
    bench.agent.observe([cordoned('{"GPU-9": "elsewhere", "GPU-2": 3}')])
    await bench.kubelet.capacity(GPU, 3)
    assert "GPU-2" not in bench.kubelet.healthy(GPU)


@beside_a_kubelet()
async def test_a_kubelet_that_restarts_gets_its_devices_again(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 1, 3))
    await bench.kubelet.admit("a", GPU, main=2)
    await bench.kubelet.stop()
    await bench.until(lambda: not bench.agent.registrar.status.enforced)
    await bench.kubelet.start()
    await bench.kubelet.capacity(GPU, 4)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-1", "GPU-3"]})


@beside_a_kubelet()
async def test_devices_are_held_while_the_kubelet_restarts(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    assert "holds" not in bench.spec()
    await bench.kubelet.stop()
    await bench.until(lambda: bench.held() == {f"GPU-{index}": AWAY for index in range(4)})
    await bench.kubelet.start()
    await bench.kubelet.capacity(GPU, 4)
    await bench.until(lambda: "holds" not in bench.spec())


def test_an_answer_that_another_container_has_is_dropped_though_the_clock_was_set_back() -> None:
    ahead = 3600.0

    async def story(folder: Path) -> None:
        nonlocal ahead
        async with running(folder, wall=lambda: time.time() + ahead) as bench:
            await bench.kubelet.capacity(GPU, 4)
            for name in ("a", "b"):
                bench.api.put(gpu_pod(name, count=2))
            await bench.kubelet.admit("a", GPU, main=2, ids=("GPU-0", "GPU-1"))
            await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-0", "GPU-1"]})
            ahead = 0.0
            bench.kubelet.remove("a")
            await bench.kubelet.admit("b", GPU, main=2, ids=("GPU-0", "GPU-1"))
            await bench.until(lambda: bench.allocations() == {"uid-b": ["GPU-0", "GPU-1"]})

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


GARBAGE = b"\xff\xff\xff\xff not a message"


@beside_a_kubelet()
async def test_an_agent_outlives_a_kubelet_whose_responses_are_garbage(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 0, 1))
    await bench.kubelet.admit("a", GPU, main=2)
    bench.kubelet.garbage = GARBAGE
    await bench.until(
        lambda: any("is not valid as ListPodResourcesResponse" in text for text in bench.agent.problems())
    )
    assert len(bench.kubelet.healthy(GPU)) == 4
    bench.kubelet.garbage = b""
    bench.api.put(gpu_pod("b", 2, 3))
    await bench.kubelet.admit("b", GPU, main=2)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-0", "GPU-1"], "uid-b": ["GPU-2", "GPU-3"]})


def test_an_agent_that_starts_beside_a_kubelet_whose_responses_are_garbage_serves_as_soon_as_they_are_not() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        kubelet.garbage = GARBAGE
        await kubelet.start()
        async with running(folder, kubelet=kubelet) as bench:
            await bench.until(lambda: bench.agent.registrar.status.state == "refused")
            assert "is not valid as Empty" in bench.agent.registrar.status.sentence
            kubelet.garbage = b""
            await bench.until(lambda: bench.agent.registrar.status.enforced)
            await kubelet.capacity(GPU, 4)

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


def test_an_agent_that_starts_beside_a_kubelet_that_lists_nothing_keeps_the_mode_of_its_containers() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        await kubelet.start()
        kubelet.served_by_another("a", GPU, ("GPU-0",), {})
        kubelet.garbage = GARBAGE
        async with running(folder, share=True, kubelet=kubelet) as bench:
            await bench.until(lambda: bench.agent.served is not None)
            assert bench.agent.served is not None
            assert bench.agent.served.resource == GPU
            kubelet.garbage = b""
            kubelet.remove("a")
            await kubelet.capacity(MEMORY, 60)

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


@beside_a_kubelet()
async def test_an_agent_that_ends_holds_its_devices_and_goes_on_serving_until_then(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    await bench.until(lambda: bool(bench.spec()["enforced"]))
    assert bench.agent.announce_end()
    assert bench.condition("PluginRegistered") == ("False", "AgentStopped")
    assert bench.held() == {f"GPU-{index}": AWAY for index in range(4)}
    assert bench.spec()["enforced"]  # what containers have does not change
    bench.api.put(gpu_pod("late", 1, 3))
    assert (await bench.kubelet.admit("late", GPU, main=2))["main"].ids == ("GPU-1", "GPU-3")


@beside_a_kubelet(plugin="never")
async def test_an_agent_that_serves_nothing_ends_without_holds(bench: Bench) -> None:
    await bench.until(lambda: bool(bench.api.published))
    assert not bench.agent.announce_end()
    assert "holds" not in bench.spec()


def test_holds_of_an_agent_that_ended_last_until_the_next_one_is_registered() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        until = datetime.fromtimestamp(time.time() + 600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        holds = [{"uuid": "GPU-0", "reason": AWAY, "until": until}]
        document = {
            "apiVersion": "linkwise.dev/v1alpha1",
            "kind": "DeviceInventory",
            "metadata": {"name": NODE},
            "spec": {"mode": "whole", "enforced": True, "devices": [], "holds": holds},
        }
        async with running(folder, kubelet=kubelet, inventory=document) as bench:
            await bench.until(lambda: bool(bench.api.published))
            assert bench.held() == {f"GPU-{index}": AWAY for index in range(4)}
            await kubelet.start()
            await bench.until(lambda: bench.condition("PluginRegistered")[0] == "True")
            assert "holds" not in bench.spec()

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


@beside_a_kubelet()
async def test_a_pod_gets_the_same_devices_after_a_reboot(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 2))
    await bench.kubelet.admit("a", GPU, main=1)
    await bench.kubelet.stop()
    bench.kubelet.lose_checkpoint()
    await bench.kubelet.start()
    await bench.kubelet.capacity(GPU, 4)
    assert (await bench.kubelet.admit("a", GPU, main=1))["main"].ids == ("GPU-2",)


@beside_a_kubelet()
async def test_without_an_api_server_whole_devices_are_still_served(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.away = True
    given = (await bench.kubelet.admit("static", GPU, main=2))["main"]
    assert len(given.environment["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2


@beside_a_kubelet(plugin="never")
async def test_without_the_plugin_the_agent_only_publishes(bench: Bench) -> None:
    await bench.until(lambda: bool(bench.api.published))
    assert bench.kubelet.registrations == []
    assert bench.spec()["enforced"] is False
    assert bench.condition("PluginRegistered") == ("False", "Disabled")


@beside_a_kubelet()
async def test_the_mode_changes_only_while_no_device_is_used(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 0))
    await bench.kubelet.admit("a", GPU, main=1)
    bench.agent.observe([NodeView(NODE, labels={"gpushare": "true"})])
    await bench.until(lambda: any("stays in mode whole" in problem for problem in bench.agent.problems()))
    bench.kubelet.remove("a")
    bench.agent.observe([PodDeleted("uid-a")])
    await bench.kubelet.capacity(MEMORY, 60)
    assert bench.kubelet.healthy(GPU) == []


@beside_a_kubelet()
async def test_unknown_ids_and_a_call_for_nothing_are_refused(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    with pytest.raises(AdmissionError, match="which this node does not have"):
        await bench.kubelet.admit("a", GPU, ids=["GPU-77"], main=1)


SERVICE = "/v1beta1.DevicePlugin"


def test_calls_that_cant_be_read_are_refused_and_logged_once_per_kind(caplog: pytest.LogCaptureFixture) -> None:
    async def story(folder: Path) -> None:
        async with running(folder) as bench:
            await bench.kubelet.capacity(GPU, 4)
            async with aio.insecure_channel(f"unix:{folder}/kubelet/device-plugins/linkwise.sock") as channel:
                for method in ("Allocate", "Allocate", "GetPreferredAllocation"):
                    call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}/{method}")
                    with pytest.raises(aio.AioRpcError) as refused:
                        await call(b"\xff\xff")
                    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                follow: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"{SERVICE}/ListAndWatch")
                with pytest.raises(aio.AioRpcError):
                    await follow(b"\xff\xff").read()
            assert len(bench.kubelet.healthy(GPU)) == 4

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))
    lines = [one.getMessage() for one in caplog.records if "be read as" in one.getMessage() or one.exc_info]
    sentence = "resource=nvidia.com/gpu a call can't be read as {}; more of them are not logged"
    assert lines == [sentence.format(kind) for kind in ("AllocateRequest", "PreferredAllocationRequest", "Empty")]


def test_a_second_agent_leaves_the_devices_to_the_first() -> None:
    async def story(folder: Path) -> None:
        async with running(folder) as first:
            await first.kubelet.capacity(GPU, 4)
            async with running(folder, kubelet=first.kubelet) as second:
                await second.until(lambda: second.agent.registrar.status.state == "foreign")
                assert second.spec()["enforced"] is False
                assert first.agent.registrar.status.enforced

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


def test_the_agent_may_start_before_the_kubelet() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        async with running(folder, kubelet=kubelet) as bench:
            await bench.until(lambda: "kubelet" in bench.agent.not_ready())
            await kubelet.start()
            await kubelet.capacity(GPU, 4)
            await bench.until(lambda: bench.agent.not_ready() == {})

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


def test_a_socket_that_a_killed_agent_left_is_replaced() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        await kubelet.start()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / "kubelet/device-plugins/linkwise.sock"))
        async with running(folder, kubelet=kubelet):
            await kubelet.capacity(GPU, 4)

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


def test_a_killed_agent_finds_the_allocations_of_the_kubelet_again() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        await kubelet.start()
        async with running(folder, kubelet=kubelet) as bench:
            await kubelet.capacity(GPU, 4)
            bench.api.put(gpu_pod("a", 1))
            await kubelet.admit("a", GPU, main=1)
        await kubelet.start()
        async with running(folder, kubelet=kubelet) as again:
            again.api.put(gpu_pod("a", 1))
            await again.until(lambda: again.allocations() == {"uid-a": ["GPU-1"]})

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


def test_an_agent_that_cannot_serve_ends_with_the_reason() -> None:
    async def story(folder: Path) -> None:
        chosen = replace(AgentSettings(), kubelet=str(folder), interval=0.1, mode="whole")
        (folder / "device-plugins").mkdir(parents=True)
        (folder / "device-plugins/kubelet.sock").touch()
        api = NodeApi()
        async with asyncio.timeout(PATIENCE):
            await NodeAgent(chosen, NODE, Machine(), api, api, Timing(), time.time).run()

    with TemporaryDirectory(prefix="lw") as short, pytest.raises(ExceptionGroup) as ended:
        asyncio.run(story(Path(short) / ("k" * 100)))
    assert ended.group_contains(LinkwiseError, match="at most 107 bytes")


CHIP = "huawei.com/Ascend910"


def npus(*unhealthy: int) -> Discovery:
    """Eight chips in two rings, with addresses."""
    chips = tuple(
        Device(f"Ascend910-{index}", index, index, model="Ascend 910A", healthy=index not in unhealthy)
        for index in range(8)
    )
    faults = {f"Ascend910-{index}": "broken" for index in unhealthy}
    addresses = {chip.id: f"10.0.0.{chip.index}" for chip in chips}
    return Discovery("ascend", chips, faults=faults, addresses=addresses)


def npu_pod(name: str, *picks: int, count: int = 0) -> PodView:
    names = ",".join(f"Ascend910-{index}" for index in picks)
    annotations = {CHIP: names, "predicate-time": "1700000000000000000"} if picks else {}
    main = ContainerView("main", limits={CHIP: str(count or len(picks))})
    return PodView("default", name, f"uid-{name}", (main,), annotations=annotations, node=NODE)


def counted(bench: Bench) -> None:
    """Show the agent its Node as the kubelet reports it."""
    bench.agent.observe([NodeView(NODE, capacity={CHIP: "8"}, allocatable={CHIP: "8"}, address="192.0.2.1")])


@pytest.mark.rule("000.agree", "003.record")
@beside_a_kubelet(machine=Machine(npus()))
async def test_a_container_has_the_chips_on_record_and_huaweis_tools_can_read_them(bench: Bench) -> None:
    await bench.kubelet.capacity(CHIP, 8)
    counted(bench)
    bench.api.put(npu_pod("a", 4, 5))
    given = (await bench.kubelet.admit("a", CHIP, main=2))["main"]
    control = ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]
    assert [*given.nodes] == ["/dev/davinci4", "/dev/davinci5", *control]
    assert given.environment == {"ASCEND_VISIBLE_DEVICES": "4,5"}
    await bench.until(lambda: "huawei.com/AscendReal" in bench.api.stored["uid-a"].annotations)
    written = bench.api.stored["uid-a"].annotations
    assert (
        written[CHIP] == written["huawei.com/AscendReal"] == written["huawei.com/kltDev"] == "Ascend910-4,Ascend910-5"
    )
    assert written["predicate-time"] == "18446744073709551615"
    ranks = json.loads(written["ascend.kubectl.kubernetes.io/ascend-910-configuration"])
    assert ranks["devices"][0] == {"device_id": "4", "device_ip": "10.0.0.4"}
    free = "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3,Ascend910-6,Ascend910-7"
    await bench.until(lambda: bench.api.published[-1].annotations.get(CHIP) == free)


@beside_a_kubelet(machine=Machine(npus()), ascend=AscendSettings(runtime="always"))
async def test_huaweis_runtime_is_given_the_chips_by_the_environment_alone(bench: Bench) -> None:
    await bench.kubelet.capacity(CHIP, 8)
    bench.api.put(npu_pod("a", 4, 5))
    given = (await bench.kubelet.admit("a", CHIP, main=2))["main"]
    assert given.environment == {"ASCEND_VISIBLE_DEVICES": "4,5", "ASCEND_RUNTIME_OPTIONS": ""}
    assert [*given.nodes] == []


@pytest.mark.rule("003.faulty")
@beside_a_kubelet(machine=Machine(npus()), ascend=AscendSettings(device_info=True))
async def test_a_faulty_chip_leaves_the_lists_and_the_kubelets_count_and_returns(bench: Bench) -> None:
    await bench.kubelet.capacity(CHIP, 8)
    counted(bench)
    bench.machine.found = npus(5)
    await bench.kubelet.until(lambda: len(bench.kubelet.healthy(CHIP)) == 7)
    unhealthy = f"{CHIP}-Unhealthy"
    await bench.until(lambda: bench.api.published[-1].annotations.get(unhealthy) == "Ascend910-5")
    info = bench.api.published[-1].device_info
    assert info is not None
    assert (info.node, info.lists[unhealthy]) == (NODE, "Ascend910-5")
    bench.machine.found = npus()
    await bench.kubelet.until(lambda: len(bench.kubelet.healthy(CHIP)) == 8)
    await bench.until(lambda: bench.api.published[-1].annotations.get(unhealthy) == "")


@pytest.mark.rule("000.agree")
@beside_a_kubelet(machine=Machine(npus()))
async def test_chips_that_no_scheduler_chose_are_in_one_ring(bench: Bench) -> None:
    await bench.kubelet.capacity(CHIP, 8)
    for name, count in (("a", 1), ("b", 4), ("c", 2)):
        bench.api.put(npu_pod(name, count=count))
        await bench.kubelet.admit(name, CHIP, main=count)
    await bench.until(lambda: len(bench.allocations()) == 3)
    assert bench.allocations() == {
        "uid-a": ["Ascend910-0"],
        "uid-b": ["Ascend910-4", "Ascend910-5", "Ascend910-6", "Ascend910-7"],
        "uid-c": ["Ascend910-1", "Ascend910-2"],
    }


def units(device: int, *numbers: int) -> list[str]:
    return [f"GPU-{device}-_-{number}" for number in numbers]


def gpushare_served(bench: Bench, name: str, device: int, ids: list[str]) -> None:
    """gpushare's plugin gives the device of the record, whatever ids the kubelet allocates."""
    bench.kubelet.served_by_another(name, MEMORY, ids, {"NVIDIA_VISIBLE_DEVICES": str(device), INDEX: str(device)})


def records(bench: Bench) -> dict[str, str]:
    return {uid: pod.annotations[INDEX] for uid, pod in bench.api.stored.items()}


async def settled_since(bench: Bench) -> None:
    """Wait until the kubelet's list was compared with the records twice more."""
    count = bench.agent.settled + 2
    await bench.until(lambda: bench.agent.settled >= count)


async def four_of_gpushare(bench: Bench) -> None:
    """Four pods have card 3, whose ids the kubelet has all allocated of card 0."""
    for number, name in enumerate("abcd"):
        gpushare_served(bench, name, 3, units(0, *range(number * 3, number * 3 + 3)))
        bench.api.put(share_pod(name, 3, main=3))


@pytest.mark.rule("004.allocate")
@beside_a_kubelet(share=True)
async def test_records_of_another_share_plugin_stand_when_the_agent_takes_over(bench: Bench) -> None:
    await four_of_gpushare(bench)
    await bench.kubelet.capacity(MEMORY, 60)
    await bench.until(lambda: bench.allocations() == {f"uid-{name}": ["GPU-3"] for name in "abcd"})
    await settled_since(bench)
    assert records(bench) == dict.fromkeys((f"uid-{name}" for name in "abcd"), "3")
    assert bench.api.events == []
    assert bench.condition("KubeletIdsMatch") == ("False", "SeenInContainers")


@beside_a_kubelet(share=True)
async def test_records_stand_where_it_cant_be_read_what_containers_were_given(bench: Bench) -> None:
    await four_of_gpushare(bench)
    bench.kubelet.remove_checkpoint()
    await bench.kubelet.capacity(MEMORY, 60)
    await bench.until(lambda: bench.allocations() == {f"uid-{name}": ["GPU-3"] for name in "abcd"})
    await settled_since(bench)
    assert records(bench) == dict.fromkeys((f"uid-{name}" for name in "abcd"), "3")
    assert bench.condition("KubeletIdsMatch") == ("False", "RecordsBelieved")


@beside_a_kubelet(share=True)
async def test_a_record_is_corrected_to_the_card_that_another_plugin_gave(bench: Bench) -> None:
    gpushare_served(bench, "a", 2, units(0, 0, 1))
    bench.api.put(share_pod("a", 3, main=2))
    await bench.until(lambda: records(bench) == {"uid-a": "2"})
    assert bench.allocations() == {"uid-a": ["GPU-2"]}


@pytest.mark.rule("000.agree", "004.allocate")
@beside_a_kubelet(share=True)
async def test_after_a_take_over_a_pod_gets_the_card_on_record_though_its_ids_are_taken(bench: Bench) -> None:
    await four_of_gpushare(bench)
    await bench.kubelet.capacity(MEMORY, 60)
    await bench.until(lambda: len(bench.allocations()) == 4)
    bench.api.put(share_pod("next", 0, main=15))
    given = (await bench.kubelet.admit("next", MEMORY, main=15))["main"]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    await bench.until(lambda: bench.allocations().get("uid-next") == ["GPU-0"])
    assert records(bench)["uid-next"] == "0"


@pytest.mark.rule("004.allocate")
@beside_a_kubelet(share=True)
async def test_what_containers_have_is_known_before_the_kubelet_can_call(bench: Bench) -> None:
    bench.api.live = False  # the watch has shown no pod yet
    await four_of_gpushare(bench)
    bench.api.put(share_pod("next", 0, main=15))
    await bench.kubelet.capacity(MEMORY, 60)
    given = (await bench.kubelet.admit("next", MEMORY, main=15))["main"]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


@beside_a_kubelet(share=True)
async def test_after_a_take_over_no_card_is_given_more_memory_than_it_has(bench: Bench) -> None:
    """All units but three are in use; a pod of four would get some of them by the kubelet's count."""
    for device in range(4):
        gpushare_served(bench, f"full-{device}", device, units((device + 1) % 4, *range(12)))
        bench.api.put(share_pod(f"full-{device}", device, main=12))
    await bench.kubelet.capacity(MEMORY, 60)
    await bench.until(lambda: len(bench.allocations()) == 4)
    bench.api.put(share_pod("next", 0, main=4))
    with pytest.raises(AdmissionError, match=r"no device has 4 aliyun.com/gpu-mem free"):
        await bench.kubelet.admit("next", MEMORY, main=4)


@pytest.mark.rule("000.agree")
@beside_a_kubelet(machine=Machine(npus()))
async def test_chips_that_huaweis_plugin_mounted_stand_when_the_agent_takes_over(bench: Bench) -> None:
    ids = ["Ascend910-0", "Ascend910-1"]
    bench.kubelet.served_by_another("a", CHIP, ids, {}, ["/dev/davinci_manager", "/dev/davinci4", "/dev/davinci5"])
    bench.api.put(npu_pod("a", 4, 5))
    await bench.kubelet.capacity(CHIP, 8)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["Ascend910-4", "Ascend910-5"]})
    await settled_since(bench)
    assert bench.api.stored["uid-a"].annotations[CHIP] == "Ascend910-4,Ascend910-5"
    bench.api.put(npu_pod("b", 0, 1))
    given = (await bench.kubelet.admit("b", CHIP, main=2))["main"]
    assert given.environment["ASCEND_VISIBLE_DEVICES"] == "0,1"
    await bench.until(lambda: bench.allocations().get("uid-b") == ["Ascend910-0", "Ascend910-1"])


@beside_a_kubelet(machine=Machine(npus()))
async def test_a_pod_without_a_record_gets_chips_that_no_container_has(bench: Bench) -> None:
    """By the kubelet's count only the chips of the other pod are free."""
    busy = [f"/dev/davinci{number}" for number in range(4)]
    bench.kubelet.served_by_another("a", CHIP, [f"Ascend910-{number}" for number in range(4, 8)], {}, busy)
    bench.api.put(npu_pod("a", 0, 1, 2, 3))
    await bench.kubelet.capacity(CHIP, 8)
    await bench.until(lambda: len(bench.allocations()) == 1)
    bench.api.put(npu_pod("stranger", count=4))
    given = (await bench.kubelet.admit("stranger", CHIP, main=4))["main"]
    assert given.environment["ASCEND_VISIBLE_DEVICES"] == "4,5,6,7"


def test_an_agent_that_starts_again_finds_what_other_plugins_and_it_itself_gave() -> None:
    async def story(folder: Path) -> None:
        kubelet = FakeKubelet(folder / "kubelet")
        await kubelet.start()
        pods: dict[str, PodView] = {}
        async with running(folder, share=True, kubelet=kubelet) as bench:
            await four_of_gpushare(bench)
            await kubelet.capacity(MEMORY, 60)
            await bench.until(lambda: len(bench.allocations()) == 4)
            bench.api.put(share_pod("next", 0, main=15))
            await kubelet.admit("next", MEMORY, main=15)
            await bench.until(lambda: len(bench.allocations()) == 5)
            before, pods = bench.allocations(), dict(bench.api.stored)
        await kubelet.start()  # a kubelet that starts again as well
        async with running(folder, share=True, kubelet=kubelet) as again:
            for pod in pods.values():
                again.api.put(pod)
            await kubelet.capacity(MEMORY, 60)
            await again.until(lambda: again.allocations() == before)
            await settled_since(again)
            assert again.api.stored == pods
            assert again.api.events == []

    with TemporaryDirectory(prefix="lw") as short:
        asyncio.run(story(Path(short)))


@beside_a_kubelet()
async def test_a_kubelet_that_lost_its_checkpoint_gives_new_pods_no_device_of_running_ones(bench: Bench) -> None:
    await bench.kubelet.capacity(GPU, 4)
    bench.api.put(gpu_pod("a", 2))
    await bench.kubelet.admit("a", GPU, main=1)
    await bench.until(lambda: bench.allocations() == {"uid-a": ["GPU-2"]})
    bench.api.put(replace(bench.api.stored["uid-a"], phase="Running"))
    bench.kubelet.lose_checkpoint()
    await bench.until(lambda: bench.allocations() == {})
    bench.api.put(gpu_pod("b", 1))
    assert (await bench.kubelet.admit("b", GPU, main=1))["main"].ids == ("GPU-1",)
    bench.api.put(gpu_pod("stranger", count=1))
    assert (await bench.kubelet.admit("stranger", GPU, main=1))["main"].ids in {("GPU-0",), ("GPU-3",)}


AMD = "amd.com/gpu"


def amd_gpus(*unhealthy: int) -> Discovery:
    """Four GPUs; the card of each is not the number of its render node, since the console has the first one."""
    gpus = tuple(
        Device(
            f"u{n}",
            n,
            128 + n,
            model="AMD Instinct MI300X",
            healthy=n not in unhealthy,
            nodes=(f"/dev/dri/card{n + 1}",),
        )
        for n in range(4)
    )
    return Discovery("amd", gpus, faults={f"u{index}": "broken" for index in unhealthy})


@pytest.mark.rule("002.nodes", "002.vendors")
@beside_a_kubelet(machine=Machine(amd_gpus(1)))
async def test_a_container_has_the_render_and_card_nodes_of_its_amd_gpus(bench: Bench) -> None:
    await bench.kubelet.capacity(AMD, 3)
    main = ContainerView("main", limits={AMD: "3"})
    bench.api.put(PodView("default", "a", "uid-a", (main,), node=NODE))
    given = (await bench.kubelet.admit("a", AMD, main=3))["main"]
    own = [f"/dev/dri/{name}" for n in (0, 2, 3) for name in (f"renderD{128 + n}", f"card{n + 1}")]
    assert [*given.nodes] == [*own, "/dev/kfd"]
    assert given.environment == {}


@beside_a_kubelet(machine=Machine(amd_gpus()), cdi="always")
async def test_cdi_names_give_a_container_all_nodes_of_its_amd_gpus(bench: Bench) -> None:
    await bench.kubelet.capacity(AMD, 4)
    main = ContainerView("main", limits={AMD: "4"})
    bench.api.put(PodView("default", "a", "uid-a", (main,), node=NODE))
    given = (await bench.kubelet.admit("a", AMD, main=4))["main"]
    assert ([*given.nodes], [*given.cdi]) == ([], [f"linkwise.dev/amd=u{n}" for n in range(4)])
    spec = json.loads((Path(bench.agent.settings.cdi_folder) / "linkwise.dev-amd.json").read_bytes())
    nodes = [node["path"] for node in spec["devices"][2]["containerEdits"]["deviceNodes"]]
    assert nodes == ["/dev/dri/renderD130", "/dev/dri/card3"]


@pytest.mark.rule("002.nodes")
@beside_a_kubelet(machine=Machine(Discovery("amd", tuple(Device(f"u{n}", n) for n in range(2)))))
async def test_an_amd_gpu_whose_render_node_is_not_known_is_not_guessed_at(bench: Bench) -> None:
    await bench.kubelet.capacity(AMD, 2)
    bench.api.put(PodView("default", "a", "uid-a", (ContainerView("main", limits={AMD: "1"}),), node=NODE))
    with pytest.raises(AdmissionError, match="its node can't be named"):
        await bench.kubelet.admit("a", AMD, main=1)
