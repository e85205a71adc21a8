"""Health, metrics and what may be looked into."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise import __version__
from linkwise.broker.broker import Broker
from linkwise.broker.effects import BindResult, FilterAnswer
from linkwise.broker.snapshot import BrokerState
from linkwise.errors import NotNowError
from linkwise.explain.inspect import inspect_nodes
from linkwise.net.http.messages import Request, Response
from linkwise.net.http.routes import Route, Routes, health_routes
from linkwise.serve.debug import debug_routes
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.testing.recorder import Recorder
from linkwise.wire.kubernetes.to_objects import pod_object
from linkwise.wire.snapshot import decode_snapshot
from support.fakes.http_service import Served
from support.fakes.scripted_api import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.effects import Bind

BIND = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}
FILTER = {"Pod": pod_object(device_pod("p", 2)), "NodeNames": ["a"]}


def test_the_service_lives_before_it_is_ready_and_decides_nothing_until_then() -> None:
    async def start(served: Served) -> None:
        served.service.start()

    with Served(broker_of(FakeNode("a")), synced=False) as served:
        assert (served.get("/livez").status, served.get("/readyz").status) == (200, 503)
        assert served.get("/readyz").text == "not ready: pods: not listed yet\n"
        assert "still listing" in served.post("/filter", FILTER).json["Error"]
        assert served.post("/prioritize", FILTER).status == 503
        assert "still listing" in served.get("/debug/explain/default/unknown").text
        served.on_loop(start(served))
        assert served.get("/readyz").status == 200
        assert served.post("/filter", FILTER).json["NodeNames"] == ["a"]


def test_metrics_count_decisions_binds_and_devices() -> None:
    broker = broker_of(FakeNode("a", count=4, unhealthy=frozenset({3})))
    broker.observe([device_pod("q", 2)], 0.0)
    with Served(broker) as served:
        served.post("/filter", FILTER)
        served.post("/bind", BIND)
        for name in ("q", "made-up"):
            served.post("/filter", {"Pod": pod_object(device_pod(name, 2)), "NodeNames": ["a"]})
        text = served.get("/metrics").text
    for line in (
        'linkwise_decisions_total{policy="link-affinity",reason=""} 1.0',
        'linkwise_decisions_total{policy="link-affinity",reason="000.partition"} 2.0',
        'linkwise_refusals_total{code="NoRoom"} 2.0',
        'linkwise_pending_pods{code="NoRoom"} 0.0',
        'linkwise_binds_total{outcome="written"} 1.0',
        'linkwise_devices{state="taken"} 2.0',
        'linkwise_devices{state="free"} 1.0',
        'linkwise_devices{state="unhealthy"} 1.0',
        'linkwise_request_duration_seconds_count{verb="filter"} 3.0',
        "linkwise_waiting_pods 1.0",
        f'linkwise_build_info{{version="{__version__}"}} 1.0',
    ):
        assert line in text


def test_a_snapshot_of_the_running_service_can_be_restored() -> None:
    broker = broker_of(FakeNode("a"))
    place(broker, device_pod("p", 1), "a")
    with Served(broker) as served:
        snapshot = decode_snapshot(served.get("/debug/snapshot").body, BrokerState)
    assert inspect_nodes(Broker.restore(snapshot), "a", 100.0) == inspect_nodes(broker, "a", 100.0)


def test_explanations_cover_pods_nodes_and_unknown_objects() -> None:
    broker = broker_of(FakeNode("a"))
    broker.observe([device_pod("p", 8)], 0.0)
    with Served(broker) as served:
        assert "8" in served.get("/debug/explain/default/p").text
        assert served.get("/debug/explain/default/p", {"Accept": "application/json"}).json["lines"]
        assert "a" in served.get("/debug/explain/node/a").text
        assert served.get("/debug/explain/default/unknown").status == 404


def test_requests_through_a_proxy_need_the_debug_token() -> None:
    through = {"X-Forwarded-For": "10.0.0.7"}
    with Served(broker_of(FakeNode("a")), token="s3cret") as served:  # noqa: S106 - a token of this test
        refused = served.get("/debug/snapshot", through)
        wrong = served.get("/debug/snapshot", {**through, "Authorization": "Bearer other"})
        right = served.get("/debug/snapshot", {**through, "Authorization": "Bearer s3cret"})
    assert (refused.status, wrong.status, right.status) == (401, 401, 200)


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"]
)
def test_every_proxy_header_marks_the_caller_as_remote(header: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        assert served.get("/debug/snapshot", {header: "somebody"}).status == 403
        assert served.get("/debug/snapshot", {"X-Request-Id": "somebody"}).status == 200


def asked(routes: Sequence[Route], path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """The answer to a GET that comes from this address."""

    async def answered() -> Response:
        request = Request(path.encode(), {}, host, asyncio.Event())
        request.method = "GET"
        response = Routes(routes).handle(request)
        return response if isinstance(response, Response) else await response

    response = asyncio.run(answered())
    return response.status, response.body.decode()


@pytest.mark.parametrize(("host", "status"), [("10.0.0.7", 403), ("::ffff:127.0.0.1", 200), ("fe80::1%eth0", 403)])
def test_without_a_token_only_this_machine_may_look_inside(host: str, status: int) -> None:
    service = Service(broker_of(FakeNode("a")), Recorder(), Counting())
    assert asked(debug_routes(service, ""), "/debug/snapshot", host)[0] == status


def test_a_reason_for_not_being_ready_is_not_repeated_as_a_note() -> None:
    routes = health_routes(lambda: {"pods": "no way there"}, lambda: ["pods: no way there", "events: may not create"])
    assert asked(routes, "/readyz") == (503, "not ready: pods: no way there\nnote: events: may not create\n")


@pytest.mark.parametrize("namespace", ["node", "group"])
def test_pods_in_namespaces_that_are_called_like_routes_are_explained(namespace: str) -> None:
    broker = broker_of(FakeNode("a"))
    broker.observe([replace(device_pod("p", 8), namespace=namespace)], 0.0)
    with Served(broker) as served:
        assert f"pod {namespace}/p" in served.get(f"/debug/explain/{namespace}/p").text


def test_the_version_is_printed() -> None:
    with Served(broker_of()) as served:
        assert served.get("/version").text.strip() == __version__


def test_draining_lets_binds_end_and_takes_no_more_asks() -> None:
    recorder = Recorder()

    async def drain_while_a_bind_is_under_way(served: Served) -> tuple[int, str]:
        recorder.gate = asyncio.Event()
        bind = asyncio.create_task(served.service.bind("uid-p", "a"))
        await asyncio.sleep(0)
        drain = asyncio.create_task(served.service.drain(100))
        await asyncio.sleep(0)
        recorder.gate.set()
        return await drain, await bind

    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", FILTER)
        assert served.on_loop(drain_while_a_bind_is_under_way(served)) == (0, "")
        assert "stopping" in served.post("/filter", FILTER).json["Error"]


def test_a_caller_that_hangs_up_does_not_undo_a_bind() -> None:
    recorder = Recorder()

    async def hang_up(served: Served) -> None:
        recorder.gate = asyncio.Event()
        call = asyncio.create_task(served.service.bind("uid-p", "a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        recorder.gate.set()
        await until(lambda: (entry := served.service.broker.entry("uid-p")) is not None and entry.outcome == "written")

    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", FILTER)
        served.on_loop(hang_up(served))
        entry = served.service.broker.entry("uid-p")
    assert entry is not None
    assert entry.outcome == "written"


def test_a_bind_that_is_cut_short_by_the_end_is_answered_and_keeps_its_promise() -> None:
    recorder = Recorder()

    async def drain_without_patience(served: Served) -> int:
        recorder.gate = asyncio.Event()
        bind = asyncio.create_task(served.service.bind("uid-p", "a"))
        await asyncio.sleep(0)
        left: int = await served.service.drain(0)
        with pytest.raises(NotNowError, match="stopped before the bind completed"):
            await bind
        return left

    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", FILTER)
        assert served.on_loop(drain_without_patience(served)) == 1
        entry = served.service.broker.entry("uid-p")
        assert 'linkwise_binds_total{outcome="unknown"} 1.0' in served.get("/metrics").text
    assert entry is not None


def test_draining_counts_binds_whose_outcome_is_still_unknown() -> None:
    class NeverKnown(Recorder):
        asked = asyncio.Event()

        async def settle(self, effect: Bind) -> BindResult:
            del effect
            self.asked.set()
            outcome: asyncio.Future[BindResult] = asyncio.get_running_loop().create_future()
            return await outcome

    recorder = NeverKnown([BindResult("unknown", "timed out")])

    async def bind_and_drain(served: Served) -> int:
        assert await served.service.bind("uid-p", "a") == "timed out"
        await recorder.asked.wait()
        left: int = await served.service.drain(0)
        return left

    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", FILTER)
        assert served.on_loop(bind_and_drain(served)) == 1


@pytest.mark.parametrize("path", ["/", "/filter/", "/metrics/x", "/debug"])
def test_other_paths_are_not_found(path: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        assert served.get(path).status in {404, 405}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (FilterAnswer([], {}, {"a": "nvidia.com/gpu: '1.5' is not a whole number of 0 or more"}), "Invalid"),
        (FilterAnswer([], {"a": "node(s) had no two free devices on one board"}, policy="boards"), "NoTopology"),
        (FilterAnswer([], {"a": "node(s) had too few free devices"}, policy="whole-device"), "NoRoom"),
    ],
)
def test_refusals_are_counted_by_code_also_those_of_a_plug_in(answer: FilterAnswer, code: str) -> None:
    counting = Counting()
    counting.decision(answer)
    assert counting.registry.get_sample_value("linkwise_refusals_total", {"code": code}) == 1
