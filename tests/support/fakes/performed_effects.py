"""Performer that writes effects to a scripted API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.effects import Condition, Event, RankTable, Record, Wake
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.kube.client.api import Connection

__all__ = ["EVENTS", "FINE", "Performed", "chosen", "tell"]

FINE: Final = Reply(200, {})
EVENTS: Final = "/api/v1/namespaces/team/events"


def chosen(name: str = "p", sentence: str = "devices 0, 1", kind: Literal["Normal", "Warning"] = "Normal") -> Event:
    """An event about a pod that got devices."""
    return Event(kind, "DevicesChosen", sentence, "team", name, f"u-{name}", "n1")


class Performed:
    """A performer after all of its effects are done."""

    def __init__(self, api: ScriptedApi, performer: Performer, time: FakeTime) -> None:
        self.api = api
        self.performer = performer
        self.time = time

    def paths(self, verb: str) -> list[str]:
        """The last parts of the paths that were asked for."""
        return [request.path.rpartition("/")[2] for request in self.api.asked(verb)]


def tell(
    *rounds: Iterable[Wake | Event | Condition | RankTable | Record],
    scripts: dict[str, tuple[Reply, ...]] | None = None,
    settings: PerformSettings | None = None,
) -> Performed:
    """Perform effects, round by round, each after the one before is done."""

    async def scenario(api: ScriptedApi, connection: Connection) -> Performed:
        for name in "abcdefp":
            api.script(f"PATCH /api/v1/namespaces/team/pods/{name}", FINE)
        api.script(f"POST {EVENTS}", Reply(201, {}))
        api.script("POST /api/v1/namespaces/default/events", Reply(201, {}))
        for asked, replies in (scripts or {}).items():
            api.script(asked, *replies)
        time = FakeTime()
        performer = Performer(connection, settings or PerformSettings(), time.timing)
        running = asyncio.create_task(performer.run())
        for effects in rounds:
            performer.tell(effects)
            await until(lambda: not performer.queued)
        await performer.close()
        await running
        return Performed(api, performer, time)

    return play(scenario)
