"""Wakes and events that the API server does not take: the first are made up for, the second are no lasting trouble."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event, Wake
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection

PATCH = "PATCH /api/v1/namespaces/team/pods/a"
WAKE = Wake("team", "a", "u-a", "there is room")
EVENT = Event("Normal", "DevicesChosen", "devices 0, 1", "team", "a", "u-a", "n1")
FINE = Reply(200, {})
REFUSED = Reply(403, {"message": "denied by a policy"})


def woken(
    *replies: Reply, holds: Callable[[Performer], object], waits: Callable[[str], bool] = lambda _: True
) -> tuple[Performer, FakeTime, int]:
    """A performer that wakes a pod until a condition holds, and how often it tried."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[Performer, FakeTime, int]:
        api.script(PATCH, *replies)
        time = FakeTime()
        performer = Performer(connection, PerformSettings(), time.timing, waits=waits)
        running = asyncio.create_task(performer.run())
        performer.tell([WAKE])
        await until(lambda: holds(performer))
        await performer.close()
        await running
        return performer, time, len(api.asked("PATCH"))

    return play(scenario)


@pytest.mark.parametrize("refused", [REFUSED, Reply(422, {"message": "denied by a webhook"})])
def test_who_could_not_be_woken_is_woken_later(refused: Reply) -> None:
    performer, time, tries = woken(refused, refused, FINE, holds=lambda found: found.waker.done["written"])
    assert (tries, time.slept) == (3, [5.0, 5.0])
    assert performer.problems == ()


def test_who_has_a_node_by_now_is_not_woken_any_more_and_no_trouble() -> None:
    performer, _, tries = woken(
        REFUSED, waits=lambda _: False, holds=lambda found: found.waker.done["failed"] and not found.waker.trouble
    )
    assert (tries, performer.problems) == (1, ())


def test_closing_does_not_wait_for_those_who_could_not_be_woken() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script(PATCH, REFUSED)
        performer = Performer(connection, PerformSettings(retry_failed=60.0), waits=lambda _: True)
        running = asyncio.create_task(performer.run())
        performer.tell([WAKE])
        await until(lambda: performer.waker.done["failed"])
        await performer.close()
        await running
        return len(api.asked("PATCH"))

    assert play(scenario) == 1


def test_a_wake_that_failed_is_replaced_by_the_next_one() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script(PATCH, REFUSED, FINE)
        performer = Performer(connection, PerformSettings(retry_failed=0.05), waits=lambda _: True)
        running = asyncio.create_task(performer.run())
        performer.tell([WAKE])
        await until(lambda: performer.waker.done["failed"])
        performer.tell([WAKE])
        await until(lambda: performer.waker.done["written"])
        await asyncio.sleep(0.1)
        await performer.close()
        await running
        return len(api.asked("PATCH"))

    assert play(scenario) == 2


def performer_after(*replies: Reply) -> Performer:
    """A performer after an event, to which the server answers so."""

    async def scenario(api: ScriptedApi, connection: Connection) -> Performer:
        api.script("POST /api/v1/namespaces/team/events", *replies)
        performer = Performer(connection, PerformSettings(), FakeTime().timing)
        performer.tell([EVENT])
        await performer.close()
        return performer

    return play(scenario)


def test_an_event_that_is_there_when_it_is_sent_again_was_made() -> None:
    there = Reply(409, {"message": 'events "a.1" already exists'})
    performer = performer_after(Reply(ending="reset"), there)
    assert (dict(performer.reporter.done), performer.problems) == ({"made": 1}, ())


@pytest.mark.parametrize(
    "reply",
    [
        Reply(403, {"message": "unable to create new content in namespace team because it is being terminated"}),
        Reply(404, {"message": 'namespaces "team" not found'}),
    ],
)
def test_an_event_of_a_namespace_that_ends_is_no_trouble(reply: Reply) -> None:
    performer = performer_after(reply)
    assert (dict(performer.reporter.done), performer.problems) == ({"gone": 1}, ())


def test_an_event_that_may_not_be_written_is_a_trouble() -> None:
    assert performer_after(REFUSED).problems == ("denied by a policy",)
