"""Order of a start: lists, plans of partially bound groups, then calls."""

from __future__ import annotations

import asyncio

import pytest

from linkwise.broker.broker import Broker
from linkwise.errors import NotNowError
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, device_pod, in_gang, woken
from linkwise.testing.recorder import Recorder
from support.restarts import ApiObjects


def killed_after_the_first_bind() -> ApiObjects:
    """A gang that needs all nodes, of which one member is bound; and a single pod that fits on any node."""
    members = in_gang(*(device_pod(f"g{number}", 2) for number in range(3)), least=3)
    api = ApiObjects([FakeNode(f"n{number}") for number in range(3)], members)
    api.place("g0")
    api.pods["single"] = device_pod("single", 2)
    return api


def listed(api: ApiObjects, broker: Broker) -> tuple[Service, Recorder]:
    """A service whose initial lists are complete."""
    performer = Recorder()
    service = Service(broker, performer, Counting(), clock=lambda: 2000.0)
    service.observe([event for node in api.nodes.values() for event in node.events()])
    service.observe(list(api.pods.values()))
    return service, performer


def test_a_single_pod_is_not_answered_before_the_gang_has_its_devices() -> None:
    async def story() -> list[str]:
        api = killed_after_the_first_bind()
        service, performer = listed(api, Broker())
        await service.prepare()
        with pytest.raises(NotNowError, match="try again in a moment"):
            service.filter(api.pods["single"], list(api.nodes), keep=True)
        await service.recover()
        with pytest.raises(NotNowError, match="try again in a moment"):
            service.filter(api.pods["single"], list(api.nodes), keep=True)
        service.start()
        assert service.filter(api.pods["single"], list(api.nodes), keep=True).nodes == []
        assert len(service.filter(api.pods["g1"], list(api.nodes), keep=True).nodes) == 1
        return woken(performer.effects)

    assert sorted(asyncio.run(story())[:2]) == ["g1", "g2"]


class Slow(Broker):
    """Needs several steps."""

    steps = 5

    def recover(self, now: float) -> bool:
        """One step."""
        self.steps -= 1
        return super().recover(now) or self.steps > 0


def test_probes_are_answered_between_the_steps_of_a_recovery() -> None:
    async def story() -> int:
        service, _ = listed(killed_after_the_first_bind(), Slow())
        recovering, turns = asyncio.create_task(service.recover()), 0
        while not recovering.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(story()) >= Slow.steps


class Broken(Broker):
    """Cannot recover."""

    def recover(self, now: float) -> bool:
        """Fail."""
        raise KeyError(now)


def test_a_recovery_that_fails_keeps_no_other_request_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[str]:
        api = killed_after_the_first_bind()
        service, _ = listed(api, Broken())
        await service.recover()
        service.start()
        return service.filter(api.pods["single"], list(api.nodes), keep=True).nodes

    assert asyncio.run(story())
    assert "plans not recovered" in caplog.text
