"""Walks traced on running code: a filter, a bind, watch events, a gang, an explanation, Volcano's calls, and the node agent.

Every module is imported first, so that code that runs at import alone is not counted. The explanation and the gang come
before the others, with the caches of a process that has just started.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import pkgutil
import time
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import linkwise
from linkwise.agent.node_agent import NodeAgent
from linkwise.broker.broker import Broker
from linkwise.broker.effects import BindResult
from linkwise.cli.program import main
from linkwise.config.settings import AgentSettings
from linkwise.kube.client.api import connect
from linkwise.kube.perform.performer import Performer
from linkwise.kube.watch.kinds import PODS
from linkwise.kube.watch.reflector import Reflector
from linkwise.model.device import Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.views import NodeView
from linkwise.net.timing import Timing
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import NVIDIA, FakeNode, binds, broker_of, device_pod, in_gang
from linkwise.testing.recorder import Recorder
from linkwise.vendors.machines import profile
from linkwise.wire.kubernetes.to_objects import pod_object
from support.builders.volcano import node_info, task_info, volcano_pod
from support.e2e.node_objects import machine
from support.e2e.pod_objects import pod
from support.embedded.thread import EmbeddedThread
from support.fakes.agent_cluster import NodeApi
from support.fakes.http_service import Served
from support.fakes.kubelet import FakeKubelet
from support.fakes.scripted_api import until
from support.shape.trace import Walk, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkwise.broker.effects import Bind
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.kube.client.api import Connection
    from linkwise.serve.service import Service
    from support.e2e.api_client import Api

__all__ = ["trace_walks"]

PACKAGE: Final = Path(linkwise.__file__).parent
NODES: Final = (FakeNode("a", count=4), FakeNode("b", count=1))
POD: Final = "/api/v1/namespaces/default/pods/p"

Walks = dict[str, Walk]


class Writer(Recorder):
    """Writes binds to an API server, and records everything else."""

    def __init__(self, performer: Performer) -> None:
        super().__init__()
        self._performer = performer

    async def bind(self, effect: Bind) -> BindResult:
        result = await self._performer.bind(effect)
        return BindResult(result.outcome, result.sentence)


def filter_walk() -> Walks:
    """`/filter` of a pod that the watch has delivered, where its index is up to date and where one node has changed."""
    pods = [device_pod(name, 2) for name in ("before", "second", "third")]
    broker = broker_of(FakeNode("a", count=8), FakeNode("b", count=1))
    broker.observe(pods, 0.0)
    calls = [{"Pod": pod_object(view), "NodeNames": ["a", "b"]} for view in pods]
    with Served(broker) as served:
        served.post("/filter", calls[0])
        broker.dry_run(pods[1], 100.0)  # the offer to the first pod changed a node, which the index has seen then
        warm = _traced(served, lambda: served.post("/filter", calls[1]))
        changed = _traced(served, lambda: served.post("/filter", calls[2]))
    return {"/filter of a known pod, tables warm": warm, "/filter, one node has changed": changed}


def bind_walk() -> Walks:
    """One `/bind` with the real client: to the API server's answer and back."""
    with EmbeddedThread() as server, _connection(server) as connection:
        created = server.api().create(pod("default", "p", {NVIDIA: 2}))
        view = device_pod("p", 2, uid=created["metadata"]["uid"])
        broker = broker_of(*NODES)
        broker.observe([view], 0.0)
        with Served(broker, Writer(Performer(connection))) as served:
            served.post("/filter", {"Pod": pod_object(view), "NodeNames": ["a", "b"]})
            call = {"PodName": "p", "PodNamespace": "default", "PodUID": view.uid, "Node": "a"}
            return {"/bind, written to the API server": _traced(served, lambda: served.post("/bind", call))}


def watch_walk() -> Walks:
    """Watch events of a pod: created, bound by the service, deleted."""
    with EmbeddedThread() as server, _connection(server) as connection, Served(broker_of(*NODES)) as served:
        walks: Walks = served.on_loop(_watch_events(server.api(), connection, served.service))
        return walks


async def _watch_events(api: Api, connection: Connection, service: Service) -> Walks:
    arrivals = 0

    def sink(events: Sequence[WatchEvent]) -> None:
        nonlocal arrivals
        service.observe(events)
        arrivals += 1

    async def after(change: Callable[[], object]) -> Walk:
        """Make a change in another thread, and trace this one until the change has arrived."""
        before = arrivals
        with trace(PACKAGE) as walk:
            await asyncio.to_thread(change)
            await until(lambda: arrivals > before)
        return walk

    reflector = Reflector(connection=connection, source=PODS, sink=sink, path="/api/v1/pods")
    watching = asyncio.create_task(reflector.run())
    await until(lambda: reflector.stats.watches)
    await after(lambda: api.create(pod("default", "before", {NVIDIA: 1})))  # the watch is open once this has arrived
    created = await after(lambda: api.create(pod("default", "p", {NVIDIA: 2})))
    (effect,) = binds(service.broker.bind(api.get(POD)["metadata"]["uid"], "a", 100.0).effects)
    service.broker.outcome(effect, "written", 100.0)
    target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    binding = {"metadata": {"name": "p", "annotations": dict(effect.annotations)}, "target": target}
    bound = await after(lambda: api.call("POST", f"{POD}/binding", binding))
    deleted = await after(lambda: api.delete(POD))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return {"watch event: pod created": created, "watch event: pod bound": bound, "watch event: pod deleted": deleted}


def volcano_walk() -> Walks:
    """Volcano's calls for one pod on two nodes: its first predicate, the next one, and its allocation."""
    view, nodes = volcano_pod("p", 2), [FakeNode(name, "ring", 8) for name in ("a", "b")]
    broker = broker_of(*nodes)
    broker.observe([view], 0.0)
    tries = [{"task": task_info(view), "node": node_info(node.name)} for node in nodes]
    with Served(broker) as served:
        first, warm = (_traced(served, partial(served.post, "/volcano/predicate", call)) for call in tries)
        booked = {"task": task_info(view, "a", 2)}
        allocated = _traced(served, lambda: served.post("/volcano/allocateFunc", booked))
    return {"Volcano predicate, first": first, "Volcano predicate, warm": warm, "Volcano allocateFunc": allocated}


class FourDevices(Driver):
    """Driver of a machine with four devices."""

    name = "shape"

    def discover(self) -> Discovery:
        """Return the devices."""
        return Discovery("nvidia", tuple(Device(f"GPU-{index}", index, minor=index) for index in range(4)))

    def close(self) -> None:
        """Nothing is open."""


def agent_walk() -> Walks:
    """GetPreferredAllocation and Allocate of a pod that no scheduler of Linkwise placed, from a kubelet's sockets."""
    with TemporaryDirectory(prefix="lw") as folder:  # a short path, for Unix sockets
        return asyncio.run(_agent_walk(Path(folder)))


async def _agent_walk(folder: Path) -> Walks:
    kubelet, api = FakeKubelet(folder / "kubelet"), NodeApi()
    await kubelet.start()
    settings = replace(
        AgentSettings(cdi="never"), kubelet=str(kubelet.root), host_root=str(folder), cdi_folder=str(folder)
    )
    agent = NodeAgent(settings, "a", FourDevices(), api, api, Timing(), time.time)
    api.watch = agent.observe
    agent.observe([NodeView("a", runtime="containerd://2.0.0")])
    running = asyncio.create_task(agent.run())
    await kubelet.capacity(NVIDIA, 4)
    api.put(replace(device_pod("p", 2), node="a"))
    with trace(PACKAGE) as walk:
        given = await kubelet.admit("p", NVIDIA, main=2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await kubelet.stop()
    if len(given["main"].ids) != 2:
        raise AssertionError(f"the kubelet got {given}")
    return {"agent: preferred and allocated devices": walk}


def gang_walk() -> Walks:
    """`Broker.filter` of the first and second member of a gang of three on two nodes."""
    broker = Broker()
    for name in ("a", "b"):
        broker.observe(fleet_node(profile("dgx1-v100-measured"), name), 0.0)
    members = in_gang(*(device_pod(f"g-{number}", 4) for number in range(3)), least=3)
    broker.observe(members, 0.0)
    walks = Walks()
    for place, member in zip(("first", "second"), members, strict=False):
        with trace(PACKAGE) as walk:
            answer = broker.filter(member, ["a", "b"], 1.0)
        if not answer.nodes:
            raise AssertionError(f"the {place} member is refused: {dict(answer.failed)}")
        walks[f"{place} member of a gang"] = walk
    return walks


def explain_walk() -> Walks:
    """`linkwise explain pod/p` of a pod that fits nowhere, against an embedded cluster."""
    with EmbeddedThread() as server, TemporaryDirectory() as folder:
        api = server.api()
        for thing in (*machine("a", "nvlink"), *machine("b", "pcie"), pod("default", "p", {NVIDIA: 16})):
            api.create(thing)
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(server.server.kubeconfig(), "utf-8")
        call = ["explain", "pod/p", "--kubeconfig", str(kubeconfig)]
        with redirect_stdout(io.StringIO()) as printed, trace(PACKAGE) as walk:
            main(call, prog_name="linkwise", standalone_mode=False)
        if "default/p" not in printed.getvalue():
            raise AssertionError(f"no explanation: {printed.getvalue()}")
        return {"linkwise explain pod/p": walk}


def trace_walks() -> Walks:
    """Run all walks; by name, in the order in which they are reported."""
    for module in pkgutil.walk_packages(linkwise.__path__, "linkwise."):
        importlib.import_module(module.name)
    explained, gang = explain_walk(), gang_walk()
    calls = filter_walk() | bind_walk() | watch_walk()
    return calls | gang | explained | volcano_walk() | agent_walk()


def _traced(served: Served, request: Callable[[], object]) -> Walk:
    """Trace the thread of a service while another one sends a request."""

    async def traced() -> Walk:
        with trace(PACKAGE) as walk:
            await asyncio.to_thread(request)
        return walk

    walk: Walk = served.on_loop(traced())
    return walk


@contextmanager
def _connection(server: EmbeddedThread) -> Iterator[Connection]:
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(server.server.kubeconfig(), "utf-8")
        yield connect(kubeconfig, environ={})
