"""Explanations of a large cluster: they grow with its size and no faster, and calls are answered meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Self, TypeVar

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Condition
from linkwise.broker.watch_events import NodeGone, PodDeleted
from linkwise.config.settings import ExplainSettings
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.net.http.messages import Request, Response
from linkwise.net.http.routes import Routes
from linkwise.serve.debug import debug_routes
from linkwise.serve.explanations.explainer import Explainer
from linkwise.serve.explanations.publisher import Publisher
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import device_pod, in_gang
from linkwise.testing.recorder import Recorder
from linkwise.vendors.machine import machine_devices
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from linkwise.broker.effects import Effect

MACHINE = profile("dgx-a100")
LIMIT = 10_000  # function calls: some milliseconds that kube-scheduler may wait for

T = TypeVar("T")


def full(nodes: int) -> Broker:
    """Three pods on every node; a gang and a single pod that wait for whole nodes, and a gang that will never fit."""
    broker = Broker()
    for number in range(nodes):
        name = f"n{number:05}"
        broker.see(fleet_node(MACHINE, name))
        devices = [device.id for device in machine_devices(MACHINE, name)]
        for place in range(3):
            pod = device_pod(f"p{number}-{place}", 2)
            grant = Grant(
                pod.uid, "link-affinity", Offer(name, (Part("main", tuple(devices[2 * place : 2 * place + 2])),))
            )
            broker.see([replace(pod, node=name, phase="Running", annotations={GRANT: grant_text(grant)})])
    members = in_gang(*(device_pod(f"g{number}", 8) for number in range(8)), least=8)
    hopeless = in_gang(*(device_pod(f"h{number}", 8, cpu="1000") for number in range(2)), least=2, name="h")
    broker.observe([*members, *hopeless, device_pod("big", 8)], 0.0)
    return broker


def asked(path: str) -> Request:
    request = Request(path.encode(), {}, "127.0.0.1", asyncio.Event())
    request.method = "GET"
    return request


async def answered(routes: Routes, request: Request) -> Response:
    answer = routes.handle(request)
    return answer if isinstance(answer, Response) else await answer


class Calls:
    """Counts the calls of Python functions, in threads that start meanwhile too: the cost of work on any machine."""

    def __init__(self) -> None:
        self.longest = self.total = self._piece = 0

    def __enter__(self) -> Self:
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def lap(self) -> None:
        """End a piece of work."""
        self.longest, self._piece = max(self.longest, self._piece), 0

    def _count(self, _: FrameType, event: str, __: object) -> None:
        if event == "call":
            self.total += 1
            self._piece += 1


def cost(work: Callable[[], object]) -> int:
    """Function calls."""
    with Calls() as calls:
        work()
    return calls.total


async def pieces(broker: Broker, explainer: Explainer, work: Awaitable[T]) -> tuple[T, int]:
    """The result of work, and the function calls of its longest piece between two of which others may run."""
    with Calls() as calls:

        def pause() -> None:
            calls.lap()
            explainer.pause()

        broker.pause_with(pause)
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            calls.lap()
        return await task, calls.longest


@pytest.mark.parametrize("what", ["pod", "member", "group", "hopeless group"])
def test_an_explanation_takes_time_in_proportion_to_the_cluster(what: str) -> None:
    def explanation(broker: Broker) -> object:
        if what.endswith("group"):
            return explain_group(broker, "default/h" if what.startswith("hopeless") else "default/g", 1.0)
        return explain_pod(broker, "uid-big" if what == "pod" else "uid-g0", 1.0)

    small, large = (full(nodes) for nodes in (50, 300))
    assert cost(lambda: explanation(large)) < 9 * cost(lambda: explanation(small))  # squared it would be 36


@pytest.mark.parametrize("path", ["default/big", "group/default/g", "group/default/h", "default/p7-1", "node/n00007"])
def test_the_loop_is_never_kept_for_long(path: str) -> None:
    broker = full(300)
    service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0)
    work = answered(Routes(debug_routes(service, "")), asked(f"/debug/explain/{path}"))
    answer, longest = asyncio.run(pieces(broker, service.explainer, work))
    assert answer.status == 200
    assert longest < LIMIT


def test_publishing_never_keeps_the_loop_for_long() -> None:
    broker = full(300)
    effects: list[Effect] = []
    pods = [broker.pods[uid] for uid in ("uid-big", "uid-g0", "uid-h0")]
    settings = ExplainSettings(schedulers=("linkwise",), delay=0.0, interval=1.0)
    explainer = Explainer(broker, lambda: 1.0)
    publisher = Publisher(explainer, effects.extend, settings)
    publisher.observe(pods)
    _, longest = asyncio.run(pieces(broker, explainer, publisher.round()))
    assert {effect.name for effect in effects if isinstance(effect, Condition)} == {"big", "g0", "h0"}
    assert longest < LIMIT


def test_an_explanation_during_which_devices_change_is_made_again() -> None:
    broker = full(20)
    service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0)
    routes = Routes(debug_routes(service, ""))
    changes = iter([fleet_node(MACHINE, "fresh")])

    def pause() -> None:
        for objects in changes:
            broker.observe(objects, 1.0)
        service.explainer.pause()

    broker.pause_with(pause)
    answer = asyncio.run(answered(routes, asked("/debug/explain/default/big")))
    assert "it would get devices 0, 1, 2, 3, 4, 5, 6, 7 on node fresh" in answer.body.decode()


def test_nodes_and_pods_that_go_away_meanwhile_do_no_harm() -> None:
    broker = full(300)
    service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0)
    routes = Routes(debug_routes(service, ""))

    async def story() -> set[int]:
        paths = ["default/big", "group/default/g", "default/g3", "default/p9-1", "node/n00009"] * 2
        requests = [asked(f"/debug/explain/{path}") for path in paths]
        tasks = [asyncio.ensure_future(answered(routes, request)) for request in requests]
        for number in range(299, 20, -1):
            broker.observe([NodeGone(f"n{number:05}"), PodDeleted(f"uid-p{number}-0")], 1.0)
            await asyncio.sleep(0)
        return {(await task).status for task in tasks}

    assert asyncio.run(story()) <= {200, 503}
    assert asyncio.run(answered(routes, asked("/debug/explain/default/big"))).status == 200


def test_a_captured_snapshot_is_that_of_the_moment() -> None:
    broker = full(20)
    expected, make = encode_snapshot(broker.snapshot(1.0)), broker.capture(1.0)
    broker.observe([NodeGone("n00003"), PodDeleted("uid-p4-0"), device_pod("later", 1)], 2.0)
    broker.filter(device_pod("later", 1), ["n00001"], 2.0)
    assert encode_snapshot(make()) == expected
