"""Annotations that the API server does not take are written later, as long as their pod waits, and only the newest."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Annotate
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from linkwise.net.timing import Timing
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection

    Holds = Callable[[Performer, ScriptedApi], object]

PATCH = "PATCH /api/v1/namespaces/team/pods/a"
FINE = Reply(200, {})
REFUSED = Reply(403, {"message": "denied by a policy"})
INVALID = Reply(422, {"message": "denied by a webhook"})
LATER = PerformSettings(retry_failed=60.0)
ONCE = PerformSettings(max_attempts=1, wait=0.05)


def plan(text: str | None, **others: str) -> Annotate:
    return Annotate("team", "a", "u-a", {"plan": text, **others})


class Told:
    """A performer that was told annotations; without settings no time passes where it waits."""

    def __init__(self, *replies: Reply, settings: PerformSettings | None = None, waits: bool = True) -> None:
        self._replies, self._settings, self._waits = replies, settings, waits
        self.time = FakeTime()
        self.written: list[dict[str, str | None]] = []
        self.problems: tuple[str, ...] = ()

    def tell(self, *steps: tuple[Annotate, Holds]) -> Told:
        """Tell one, wait until what stands beside it holds, tell the next."""

        async def scenario(api: ScriptedApi, connection: Connection) -> None:
            api.script(PATCH, *self._replies)
            timing = Timing() if self._settings else self.time.timing
            performer = Performer(connection, self._settings or LATER, timing, waits=lambda _: self._waits)
            running = asyncio.create_task(performer.run())
            for effect, holds in steps:
                performer.tell([effect])
                await until(partial(holds, performer, api))
            await performer.close()
            await running
            self.written = [request.document["metadata"]["annotations"] for request in api.requests]
            self.problems = performer.problems

        play(scenario)
        return self


def written(performer: Performer, api: ScriptedApi) -> bool:
    del api
    return bool(performer.annotator.done["written"])


def failed(performer: Performer, api: ScriptedApi) -> bool:
    del api
    return bool(performer.annotator.done["failed"])


def asked(performer: Performer, api: ScriptedApi) -> bool:
    del performer
    return bool(api.requests)


def nothing_is_wrong(performer: Performer, api: ScriptedApi) -> bool:
    return failed(performer, api) and not performer.problems


@pytest.mark.parametrize("refused", [REFUSED, INVALID])
def test_what_could_not_be_taken_away_is_taken_away_later(refused: Reply) -> None:
    told = Told(refused, refused, FINE).tell((plan(None), written))
    assert told.written == [{"plan": None}] * 3
    assert (told.time.slept, told.problems) == ([60.0, 60.0], ())


def test_an_annotation_that_failed_is_written_with_the_next_one() -> None:
    told = Told(REFUSED, FINE, settings=LATER).tell((plan("old", word="1"), failed), (plan(None), written))
    assert told.written == [{"plan": "old", "word": "1"}, {"plan": None, "word": "1"}]
    assert told.problems == ()


def test_what_fails_while_something_newer_waits_is_written_with_it() -> None:
    silent = Reply(ending="silence")
    told = Told(silent, FINE, settings=ONCE).tell((plan("old", word="1"), asked), (plan("new"), written))
    assert told.written == [{"plan": "old", "word": "1"}, {"plan": "new", "word": "1"}]
    assert told.problems == ()


def test_who_has_a_node_by_now_is_not_annotated_any_more_and_no_trouble() -> None:
    told = Told(REFUSED, waits=False).tell((plan(None), nothing_is_wrong))
    assert (len(told.written), told.problems) == (1, ())


def test_closing_does_not_wait_for_what_could_not_be_written() -> None:
    told = Told(REFUSED, settings=LATER).tell((plan(None), failed))
    assert len(told.written) == 1
