"""The agent as a driver of claims, beside a scripted kubelet: gRPC over real unix sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from linkwise.agent.kubelet.messages import DRA_PLUGIN, HEALTH, PLUGIN_REGISTRATION, STABLE_HEALTH
from linkwise.agent.node_agent import NodeAgent
from linkwise.broker.watch_events import NodeObject
from linkwise.config.settings import AgentSettings, HealthSettings
from linkwise.dialects.kubernetes.claims.driver import DRIVER
from linkwise.dialects.linkwise.cordon import CORDONED
from linkwise.model.device import Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.link import Link
from linkwise.model.topology import Topology
from linkwise.model.views import NodeView
from linkwise.net.timing import Timing
from support.agent_stories import beside
from support.fakes.agent_cluster import NodeApi
from support.fakes.claims import CLAIMS, ClaimKubelet, ClaimStore, call, claim_object
from support.fakes.kubelet import PATIENCE, FakeKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NODE = "worker"
RACE = [["X", "NV2", "SYS", "SYS"], ["NV2", "X", "SYS", "SYS"], ["SYS", "SYS", "X", "NV2"], ["SYS", "SYS", "NV2", "X"]]


def machine(*unhealthy: int, fault: str = "Xid 79") -> Discovery:
    """Four devices, of which 0 and 1, and 2 and 3 have NVLinks."""
    devices = tuple(
        Device(f"GPU-{i}", i, minor=i, bus_id=f"00000000:0{i}:00.0", model="V100", healthy=i not in unhealthy)
        for i in range(4)
    )
    links = tuple(tuple(map(Link, row)) for row in RACE)
    topology = Topology(tuple(device.id for device in devices), links)
    return Discovery("nvidia", devices, topology, faults={f"GPU-{i}": fault for i in unhealthy})


@dataclass(slots=True)
class Machine(Driver):
    """Driver of a machine whose devices a test may change."""

    found: Discovery
    name: str = "test"

    def discover(self) -> Discovery:
        return self.found

    def close(self) -> None:
        """Nothing."""


@dataclass(slots=True)
class Bed:
    """An agent in mode dra, its kubelet and its API server."""

    folder: Path
    agent: NodeAgent
    kubelet: ClaimKubelet
    store: ClaimStore
    machine: Machine
    plugins: FakeKubelet

    @property
    def status(self) -> str:
        return self.agent.driver_of_claims.status.state

    def specification(self, uid: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads((self.folder / f"cdi/linkwise.dev-claim-{uid}.json").read_text())

    def specifications(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "cdi").glob("linkwise.dev-claim-*"))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110 - the agent's parts have no event in common
                await asyncio.sleep(0.02)

    async def ready(self) -> None:
        await self.kubelet.register()
        await self.until(lambda: bool(self.store.slices) and self.slices_settled)

    @property
    def slices_settled(self) -> bool:
        slices = self.agent.driver_of_claims.slices
        return slices is not None and slices.settled


@asynccontextmanager
async def running(
    folder: Path,
    *,
    store: ClaimStore | None = None,
    found: Discovery | None = None,
    kubelet: FakeKubelet | None = None,
    **settings: Any,  # noqa: ANN401 - fields of the settings
) -> AsyncIterator[Bed]:
    kubelet = kubelet or FakeKubelet(folder / "kubelet")
    await kubelet.start()
    (folder / "dev").mkdir(exist_ok=True)
    (folder / "dev/nvidiactl").touch()
    api, store, driver = NodeApi(), store or ClaimStore(), Machine(found or machine())
    chosen = replace(
        AgentSettings(cdi="always", driver_files="never", health=HealthSettings(recovery=0)),
        **{"mode": "dra", **settings},
        kubelet=str(folder / "kubelet"),
        interval=0.1,
        host_root=str(folder),
        cdi_folder=str(folder / "cdi"),
    )
    agent = NodeAgent(chosen, NODE, driver, api, api, Timing(), lambda: 0.0, store)
    api.watch = agent.observe
    store.seen = lambda name, document: agent.observe([NodeObject("", f"ResourceSlice/{name}", document)])
    agent.observe([NodeView(NODE, runtime="containerd://2.4.2")])
    store.listed()
    task = asyncio.create_task(agent.run())
    try:
        yield Bed(folder, agent, ClaimKubelet(folder / "kubelet"), store, driver, kubelet)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.seen = lambda *_: None
        await kubelet.stop()


Story = Callable[[Bed], Coroutine[Any, Any, None]]


def beside_a_kubelet(**settings: Any) -> Callable[[Story], Callable[[], None]]:  # noqa: ANN401 - as `running` has them
    """Make a test of a coroutine: it is run with a registered agent in mode dra."""
    return beside(running, settings, Bed.ready)


@beside_a_kubelet()
async def test_the_kubelet_learns_name_socket_and_versions(bed: Bed) -> None:
    info = await bed.kubelet.register()
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(bed.kubelet.socket))
    assert list(info.supported_versions) == ["v1.DRAPlugin", STABLE_HEALTH, HEALTH]
    assert bed.status == "registered"
    assert bed.agent.not_ready() == {}


@beside_a_kubelet()
async def test_a_refused_registration_is_a_problem_with_the_kubelets_words(bed: Bed) -> None:
    await bed.kubelet.register(error="no version in common")
    assert bed.agent.not_ready() == {"kubelet": "the kubelet refused the driver gpu.linkwise.dev: no version in common"}


@beside_a_kubelet()
async def test_a_prepared_claim_has_a_specification_with_its_device_nodes(bed: Bed) -> None:
    bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0", "gpu-1"]})
    answer = (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"]
    assert answer.error == ""
    name = "linkwise.dev/claim=uid-train-gpus"
    given = [
        (list(one.request_names), one.pool_name, one.device_name, list(one.cdi_device_ids)) for one in answer.devices
    ]
    assert given == [(["gpus"], NODE, "gpu-0", [name]), (["gpus"], NODE, "gpu-1", [name])]
    spec = bed.specification("uid-train")
    (device,) = spec["devices"]
    assert f"{spec['kind']}={device['name']}" == name
    assert [node["path"] for node in device["containerEdits"]["deviceNodes"]] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert device["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=GPU-0,GPU-1", "CUDA_VISIBLE_DEVICES=GPU-0,GPU-1"]
    assert "/dev/nvidiactl" in [node["path"] for node in spec["containerEdits"]["deviceNodes"]]


@beside_a_kubelet()
async def test_each_request_of_a_claim_has_devices_of_its_own(bed: Bed) -> None:
    bed.store.claims["two"] = claim_object("two", {"main": ["gpu-0"], "side/second": ["gpu-2"]})
    answer = (await bed.kubelet.prepare(("two", "uid-two")))["uid-two"]
    assert [list(one.request_names) for one in answer.devices] == [["main"], ["side/second"]]
    main, side = bed.specification("uid-two")["devices"]
    assert side["name"] == "uid-two-side.second"
    assert main["containerEdits"]["env"] == ["NVIDIA_VISIBLE_DEVICES=GPU-0"]  # and not those that a container must use
    assert [node["path"] for node in side["containerEdits"]["deviceNodes"]] == ["/dev/nvidia2"]


@beside_a_kubelet()
async def test_a_set_gives_its_members(bed: Bed) -> None:
    bed.store.claims["pair"] = claim_object("pair", {"gpus": ["pair-2-3"]})
    await bed.kubelet.prepare(("pair", "uid-pair"))
    (device,) = bed.specification("uid-pair")["devices"]
    assert [node["path"] for node in device["containerEdits"]["deviceNodes"]] == ["/dev/nvidia2", "/dev/nvidia3"]


@beside_a_kubelet()
async def test_prepare_is_answered_alike_again_also_while_the_api_server_is_away(bed: Bed) -> None:
    bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
    first = (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"]
    (bed.folder / "cdi/linkwise.dev-claim-uid-train.json").unlink()
    bed.store.away = True
    assert (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"] == first
    assert bed.specifications() == ["linkwise.dev-claim-uid-train.json"]


@beside_a_kubelet()
async def test_unprepare_removes_the_specification_and_may_be_repeated(bed: Bed) -> None:
    bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
    await bed.kubelet.prepare(("train", "uid-train"))
    for _ in range(2):
        answers = await bed.kubelet.unprepare(("train", "uid-train"), ("never", "uid-never"))
        assert {uid: one.error for uid, one in answers.items()} == {"uid-train": "", "uid-never": ""}
    assert bed.specifications() == []
    bed.store.claims["next"] = claim_object("next", {"gpus": ["gpu-0"]})
    assert (await bed.kubelet.prepare(("next", "uid-next")))["uid-next"].error == ""


@beside_a_kubelet()
async def test_each_claim_of_a_call_has_an_answer_and_the_good_ones_start(bed: Bed) -> None:
    bed.store.claims |= {
        "good": claim_object("good", {"gpus": ["gpu-0"]}),
        "renewed": claim_object("renewed", {"gpus": ["gpu-1"]}, uid="uid-other"),
        "waiting": claim_object("waiting", {"gpus": ["gpu-1"]}) | {"status": {}},
        "gone": claim_object("gone", {"gpus": ["gpu-9"]}),
        "elsewhere": claim_object("elsewhere", {"gpus": ["gpu-1"]}, node="other"),
        "foreign": claim_object("foreign", {"gpus": ["gpu-1"]}, driver="gpu.example.com"),
        "taken": claim_object("taken", {"gpus": ["pair-0-1"]}),
    }
    await bed.kubelet.prepare(("good", "uid-good"))
    names = (*bed.store.claims, "absent")
    answers = await bed.kubelet.prepare(*((name, f"uid-{name}") for name in names))
    assert {uid.removeprefix("uid-"): one.error for uid, one in answers.items()} == {
        "good": "",
        "renewed": "ResourceClaim default/renewed has UID uid-other, and the kubelet asks for uid-renewed: it was created again",
        "waiting": "ResourceClaim default/waiting is not allocated",
        "gone": "ResourceClaim default/gone has device 'gpu-9', which this node does not have (any more)",
        "elsewhere": "ResourceClaim default/elsewhere has device 'gpu-1' of node 'other', not 'worker'",
        "foreign": "ResourceClaim default/foreign has no devices of gpu.linkwise.dev",
        "taken": "ResourceClaim default/taken has device GPU-0, which ResourceClaim default/good uses",
        "absent": 'ResourceClaim default/absent can\'t be read: resourceclaims "absent" not found',
    }
    assert bed.specifications() == ["linkwise.dev-claim-uid-good.json"]


@beside_a_kubelet()
async def test_administrative_access_takes_a_device_from_no_other_claim(bed: Bed) -> None:
    bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
    bed.store.claims["watch"] = claim_object("watch", {"all": ["gpu-0", "gpu-1"]}, admin=True)
    answers = await bed.kubelet.prepare(("train", "uid-train"), ("watch", "uid-watch"))
    assert {one.error for one in answers.values()} == {""}


@beside_a_kubelet()
async def test_parameters_are_refused_rather_than_ignored(bed: Bed) -> None:
    claim = claim_object("train", {"gpus": ["gpu-0"]})
    claim["status"]["allocation"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": {"mig": 2}}}]
    bed.store.claims["train"] = claim
    answer = (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"]
    assert answer.error == "ResourceClaim default/train has parameters for gpu.linkwise.dev, which takes none"


@pytest.mark.parametrize("uid", ["../../etc/passwd", "", "a/b", "x" * 80, "a\0b"])
def test_a_uid_that_is_none_never_becomes_a_file_name(uid: str) -> None:
    @beside_a_kubelet()
    async def told(bed: Bed) -> None:
        before = sorted(bed.folder.rglob("*"))
        for answers in (await bed.kubelet.prepare(("train", uid)), await bed.kubelet.unprepare(("train", uid))):
            assert "is not the UID of a claim" in answers[uid].error
        assert sorted(bed.folder.rglob("*")) == before

    told()


@beside_a_kubelet()
async def test_garbage_in_any_call_is_refused_and_the_next_call_is_answered(bed: Bed) -> None:
    registry = next(bed.kubelet.registry.glob("*.sock"))
    garbage = b"\x0a\xff\xff\xff\xff\x7f"
    for socket, method in (
        (registry, f"{PLUGIN_REGISTRATION}/GetInfo"),
        (registry, f"{PLUGIN_REGISTRATION}/NotifyRegistrationStatus"),
        (bed.kubelet.socket, f"{DRA_PLUGIN}/NodePrepareResources"),
        (bed.kubelet.socket, f"{DRA_PLUGIN}/NodeUnprepareResources"),
    ):
        with pytest.raises(aio.AioRpcError) as refused:
            await call(socket, method, garbage, CLAIMS["Claim"])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    async with aio.insecure_channel(f"unix:{bed.kubelet.socket}") as channel:
        watch: Any = channel.unary_stream(f"/{HEALTH}/NodeWatchResources")
        stream = watch(garbage)
        with pytest.raises(aio.AioRpcError):
            await anext(aiter(stream))
    assert (await bed.kubelet.register()).name == DRIVER
    assert await bed.kubelet.prepare() == {}


@beside_a_kubelet()
async def test_a_claim_that_is_no_claim_is_an_error_of_its_own(bed: Bed) -> None:
    bed.store.claims["odd"] = {"metadata": {"namespace": "default", "uid": "uid-odd"}, "status": [1, 2]}
    bed.store.claims["odder"] = {
        "metadata": {"namespace": "default", "name": 7, "uid": "uid-odder"},
        "status": {"allocation": {"devices": {"results": [{"driver": DRIVER, "pool": NODE, "device": 3}, "x"]}}},
    }
    answers = await bed.kubelet.prepare(("odd", "uid-odd"), ("odder", "uid-odder"))
    assert all(one.error for one in answers.values())


def test_a_restarted_agent_leaves_slices_as_they_are_and_goes_on_with_their_generation() -> None:
    async def run() -> None:
        with TemporaryDirectory(prefix="lw") as path:
            store = ClaimStore()
            async with running(Path(path), store=store, found=machine(0)) as bed:
                await bed.ready()
                bed.machine.found = machine()
                await bed.until(lambda: store.generations() == {2} and bed.slices_settled)
            written = store.version
            async with running(Path(path), store=store) as bed:
                await bed.ready()
                await bed.until(lambda: bed.slices_settled)
                assert store.version == written
                store.remove()
                await bed.until(lambda: bool(store.slices) and bed.slices_settled)
                assert store.generations() == {2}

    asyncio.run(run())


@beside_a_kubelet()
async def test_an_agent_that_stood_by_knows_what_the_one_before_it_prepared(bed: Bed) -> None:
    settings = bed.agent.settings
    next_agent = NodeAgent(settings, NODE, bed.machine, NodeApi(), None, Timing(), lambda: 0.0, bed.store)
    bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
    await bed.kubelet.prepare(("train", "uid-train"))
    claims = next_agent.driver_of_claims.claims
    claims.load()  # as it does when the other one has ended
    assert claims.prepared == bed.agent.driver_of_claims.claims.prepared
    assert list(claims.prepared) == ["uid-train"]


def test_a_restarted_agent_knows_its_claims_and_removes_what_it_did_not_finish() -> None:
    async def run() -> None:
        with TemporaryDirectory(prefix="lw") as path:
            folder, store = Path(path), ClaimStore()
            store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
            async with running(folder, store=store) as bed:
                await bed.ready()
                await bed.kubelet.prepare(("train", "uid-train"))
            (folder / "cdi/linkwise.dev-claim-uid-train.json").unlink()  # the folder may be in memory
            (folder / "cdi/linkwise.dev-claim-uid-killed.json").write_text(
                "{}"
            )  # written, and then the process was killed
            store.claims["other"] = claim_object("other", {"gpus": ["gpu-0"]})
            async with running(folder, store=store) as bed:
                await bed.ready()
                assert bed.specifications() == ["linkwise.dev-claim-uid-train.json"]
                error = (await bed.kubelet.prepare(("other", "uid-other")))["uid-other"].error
                assert "which ResourceClaim default/train uses" in error
                store.away = True
                assert (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"].error == ""
                store.away = False

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"claims/v1": []}', '{"claims/v1": {"u": {"devices": 1}}}', "\0"])
def test_a_checkpoint_that_cannot_be_read_is_kept_aside_and_reported(text: str) -> None:
    async def run() -> None:
        with TemporaryDirectory(prefix="lw") as path:
            folder = Path(path) / f"kubelet/plugins/{DRIVER}"
            folder.mkdir(parents=True)
            (folder / "checkpoint.json").write_text(text)
            async with running(Path(path)) as bed:
                await bed.ready()
                assert any("checkpoint.json can't be read" in one for one in bed.agent.problems())
                assert (folder / "checkpoint.unreadable").read_text() == text
                bed.store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
                assert (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"].error == ""

    asyncio.run(run())


@beside_a_kubelet()
async def test_without_an_api_server_a_new_claim_waits_and_says_why(bed: Bed) -> None:
    bed.store.away = True
    error = (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"].error
    assert error == "ResourceClaim default/train can't be read: the API server is away"
    bed.store.away, bed.store.claims["train"] = False, claim_object("train", {"gpus": ["gpu-0"]})
    assert (await bed.kubelet.prepare(("train", "uid-train")))["uid-train"].error == ""


@beside_a_kubelet()
async def test_a_device_with_a_fault_starts_nothing_new_and_what_runs_keeps_it(bed: Bed) -> None:
    bed.store.claims["runs"] = claim_object("runs", {"gpus": ["gpu-1"]})
    await bed.kubelet.prepare(("runs", "uid-runs"))
    bed.machine.found = machine(1, 2)
    await bed.until(lambda: "taints" in bed.store.devices()["gpu-2"])
    bed.store.claims["late"] = claim_object("late", {"gpus": ["gpu-2"]})
    answers = await bed.kubelet.prepare(("runs", "uid-runs"), ("late", "uid-late"))
    assert answers["uid-runs"].error == ""
    assert answers["uid-late"].error == "ResourceClaim default/late has device 'gpu-2', which can't be used: Xid 79"


@pytest.mark.parametrize("service", [HEALTH, STABLE_HEALTH])
def test_the_kubelet_is_told_of_a_fault_of_a_device_and_of_the_sets_that_it_is_in(service: str) -> None:
    @beside_a_kubelet()
    async def told(bed: Bed) -> None:
        async with bed.kubelet.health(service) as states, asyncio.timeout(PATIENCE):
            first = await anext(states)
            assert set(first) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "pair-0-1", "pair-2-3", "four-0-1-2-3"}
            assert set(first.values()) == {(1, "")}
            bed.machine.found = machine(3)
            async for state in states:
                if state["gpu-3"] == (2, "Xid 79"):
                    break
            assert [name for name, (health, _) in state.items() if health == 2] == ["gpu-3", "pair-2-3", "four-0-1-2-3"]

    told()


@beside_a_kubelet()
async def test_slices_have_a_new_generation_only_after_a_change(bed: Bed) -> None:
    assert bed.store.generations() == {1}
    written = bed.store.version
    bed.agent.observe([NodeView(NODE, labels={"other": "label"}, runtime="containerd://2.4.2")])
    assert bed.slices_settled
    assert bed.store.version == written
    bed.machine.found = machine(0)
    await bed.until(lambda: bed.store.generations() == {2} and bed.slices_settled)
    assert {name for name, one in bed.store.devices().items() if "taints" in one} == {
        "gpu-0",
        "pair-0-1",
        "four-0-1-2-3",
    }
    first = bed.store.devices()["gpu-0"]["taints"]
    bed.machine.found = machine(0, 2)
    await bed.until(lambda: bed.store.generations() == {3} and bed.slices_settled)
    assert bed.store.devices()["gpu-0"]["taints"] == first  # since when it has the fault is kept


@beside_a_kubelet()
async def test_slices_that_the_kubelet_removed_are_written_again_with_the_same_generation(bed: Bed) -> None:
    before = {name: one["spec"] for name, one in bed.store.slices.items()}
    bed.store.remove()
    await bed.until(lambda: len(bed.store.slices) == len(before) and bed.slices_settled)
    assert {name: one["spec"] for name, one in bed.store.slices.items()} == before


@beside_a_kubelet()
async def test_a_slice_that_somebody_edits_is_repaired_with_a_new_generation(bed: Bed) -> None:
    name = next(name for name, one in bed.store.slices.items() if "devices" in one["spec"])
    edited = bed.store.slices[name]
    edited["spec"]["devices"] = edited["spec"]["devices"][:1]
    edited["metadata"]["resourceVersion"] = "1000"
    bed.store.version = 1000
    bed.store.seen(name, edited)
    await bed.until(lambda: bed.store.generations() == {2} and bed.slices_settled)
    assert len(bed.store.devices()) == 7


@beside_a_kubelet()
async def test_slices_follow_once_the_api_server_is_back(bed: Bed) -> None:
    bed.store.away = True
    bed.machine.found = machine(0)
    await bed.until(lambda: any("the API server is away" in one for one in bed.agent.problems()))
    bed.store.away = False
    await bed.until(lambda: "taints" in bed.store.devices()["gpu-0"] and bed.slices_settled)
    assert not any("ResourceSlices" in one for one in bed.agent.problems())


@beside_a_kubelet(store=ClaimStore(drops=frozenset({"sharedCounters", "consumesCounters"})))
async def test_sets_are_not_published_where_the_api_server_drops_their_counters(bed: Bed) -> None:
    assert list(bed.store.devices()) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert any("DRAPartitionableDevices" in one for one in bed.agent.problems())


@beside_a_kubelet(store=ClaimStore(drops=frozenset({"taints"})), found=machine(0))
async def test_a_device_with_a_fault_is_left_out_where_the_api_server_drops_taints(bed: Bed) -> None:
    assert list(bed.store.devices()) == ["gpu-1", "gpu-2", "gpu-3"]


@beside_a_kubelet()
async def test_a_cordoned_device_has_a_taint_and_stays_healthy(bed: Bed) -> None:
    annotation = {CORDONED: json.dumps({"GPU-2": "ticket 4711"})}
    bed.agent.observe([NodeView(NODE, annotations=annotation, runtime="containerd://2.4.2")])
    await bed.until(lambda: "taints" in bed.store.devices()["gpu-2"] and bed.slices_settled)
    (taint,) = bed.store.devices()["gpu-2"]["taints"]
    assert (taint["key"], taint["value"], taint["effect"]) == ("linkwise.dev/cordoned", "ticket-4711", "NoSchedule")
    async with bed.kubelet.health() as states:
        assert (await anext(states))["gpu-2"] == (1, "")


@beside_a_kubelet()
async def test_sockets_that_were_removed_are_made_again(bed: Bed) -> None:
    registry = next(bed.kubelet.registry.glob("*.sock"))
    for socket in (bed.kubelet.socket, registry):
        socket.unlink()
        await bed.until(lambda: bed.status == "waiting" and bed.kubelet.socket.exists() and registry.exists())
        assert (await bed.kubelet.register()).name == DRIVER
        assert await bed.kubelet.prepare() == {}


def test_the_mode_ends_only_when_no_claim_has_devices() -> None:
    async def run() -> None:
        with TemporaryDirectory(prefix="lw") as path:
            folder, store = Path(path), ClaimStore()
            store.claims["train"] = claim_object("train", {"gpus": ["gpu-0"]})
            async with running(folder, store=store) as bed:
                await bed.ready()
                await bed.kubelet.prepare(("train", "uid-train"))
            async with running(folder, store=store, mode="whole") as bed:
                await bed.kubelet.register()
                await bed.until(lambda: not store.slices)
                assert (
                    "the node stays in mode dra until no ResourceClaim has its devices; 1 have" in bed.agent.problems()
                )
                assert bed.agent.served is None
                await bed.kubelet.unprepare(("train", "uid-train"))
                await bed.until(lambda: bed.agent.registrar.status.enforced)
                assert not bed.kubelet.socket.exists()

    asyncio.run(run())


def test_pods_with_a_resource_keep_the_node_from_serving_claims() -> None:
    async def run() -> None:
        with TemporaryDirectory(prefix="lw") as path:
            folder = Path(path)
            kubelet = FakeKubelet(folder / "kubelet")
            async with running(folder, kubelet=kubelet, mode="whole") as bed:
                await kubelet.capacity("nvidia.com/gpu", 4)
                await kubelet.admit("train", "nvidia.com/gpu", main=1)
            async with running(folder, kubelet=kubelet) as bed:
                await bed.until(lambda: bed.agent.registrar.status.enforced)
                assert "the node stays in mode whole until no pod uses nvidia.com/gpu" in bed.agent.problems()
                assert not bed.kubelet.socket.exists()
                assert not bed.store.slices

    asyncio.run(run())
