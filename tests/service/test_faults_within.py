"""The service goes on where something in it fails, and says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.effects import BindResult
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod
from linkwise.testing.recorder import Recorder
from support.fakes.http_service import Served
from support.fakes.scripted_api import until
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    import pytest

    from linkwise.broker.effects import Bind, Effect


class Stumbling(Broker):
    """Always has something to do, and fails at it `fails` times."""

    fails = 1

    def next_deadline(self) -> float | None:
        return 0.0

    def step(self, now: float, budget: int = 1) -> tuple[Effect, ...]:
        del now, budget
        if self.fails:
            self.fails -= 1
            raise KeyError("an unexpected word")
        return ()


def test_a_step_that_fails_is_reported_and_tried_again() -> None:
    async def story() -> tuple[str, str]:
        service = Service(Stumbling(), Recorder(), Counting(), clock=lambda: 1.0)
        service.synced = True
        running = asyncio.create_task(service.run())
        await until(lambda: service.trouble or running.done())
        first = service.trouble
        await until(lambda: not service.trouble or running.done())
        running.cancel()
        return first, service.trouble

    first, last = run_idle(story())
    assert "an unexpected word" in first
    assert last == ""


def test_a_step_that_fails_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    broker = Stumbling()
    broker.fails = 3

    async def story() -> None:
        service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0)
        service.synced = True
        running = asyncio.create_task(service.run())
        await until(lambda: (not broker.fails and not service.trouble) or running.done())
        running.cancel()

    run_idle(story())
    logged = [record.message for record in caplog.records if "background scheduling work failed" in record.message]
    assert len(logged) == 1


def test_a_bind_of_an_unobserved_pod_is_counted_separately() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        body = {"PodName": "p", "PodNamespace": "default", "PodUID": "made-up", "Node": "a"}
        assert "not been observed yet" in served.post("/bind", body).json["Error"]
        counted = served.get("/metrics").text
    assert 'linkwise_binds_total{outcome="unseen"} 1.0' in counted
    assert 'linkwise_binds_total{outcome="conflict"} 0.0' in counted


class Confused(Recorder):
    """Fails once to find out what became of a bind."""

    fails = 1

    async def settle(self, effect: Bind) -> BindResult:
        if self.fails:
            self.fails -= 1
            raise KeyError("an unexpected pod")
        return await super().settle(effect)


def test_a_bind_whose_end_cannot_be_found_out_for_a_fault_is_looked_for_again() -> None:
    async def story() -> str:
        service = Service(broker_of(FakeNode("a")), Confused([BindResult("unknown")]), Counting(), clock=lambda: 1.0)
        service.synced = True
        service.filter(device_pod("p", 1), ["a"], keep=True)
        await service.bind("uid-p", "a")
        entry_of = service.broker.entry
        await until(lambda: (entry := entry_of("uid-p")) is None or entry.outcome != "unknown")
        return entry.outcome or "" if (entry := entry_of("uid-p")) else ""

    assert run_idle(story()) == "written"
