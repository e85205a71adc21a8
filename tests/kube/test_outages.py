"""Servers that stand still, vanish or come back: nothing is believed too early, and nothing is waited for too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkwise.broker.effects import Bind, BindResult
from linkwise.broker.watch_events import NodeObject
from linkwise.kube.perform.bind import Binder
from linkwise.kube.settings import PerformSettings, WatchSettings
from linkwise.kube.watch.kinds import SOURCES
from linkwise.kube.watch.watcher import Watching
from support.fakes.followed_source import LIST, WATCH, Seen, follow, pod
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, line, listed, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

PATH = "/api/v1/namespaces/team/pods/p"
EFFECT = Bind("team", "p", "u1", "n1", None, 7, {"linkwise.dev/grant": "{}"})
UNBOUND = Reply(200, {"metadata": {"name": "p", "namespace": "team", "uid": "u1"}, "spec": {}})
META = {"name": "p", "namespace": "team", "uid": "u1", "annotations": {"linkwise.dev/grant": "{}"}}
BOUND = Reply(200, {"metadata": META, "spec": {"nodeName": "n1"}})
RESET = Reply(ending="reset")
INVENTORIES = "/apis/linkwise.dev/v1alpha1/deviceinventories"
EXPIRED = Reply(pieces=(line("ERROR", {"code": 410, "message": "too old"}),))


def settled(*reads: Reply) -> tuple[BindResult, FakeTime]:
    """How a bind that was never answered ends, when its pod is read so."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[BindResult, FakeTime]:
        api.script(f"GET {PATH}", *reads)
        time = FakeTime()
        return await Binder(connection, PerformSettings(bind_seconds=2), time.timing).settle(EFFECT), time

    return play(scenario)


def test_a_bind_may_land_after_a_server_that_stood_still_goes_on() -> None:
    ended, time = settled(*(RESET,) * 12, UNBOUND, UNBOUND, BOUND)
    assert (ended.outcome, time.seconds > 1_012.0) == ("written", True)


def test_a_bind_is_refused_when_a_server_that_stood_still_has_had_its_time() -> None:
    ended, time = settled(*(RESET,) * 12, UNBOUND)
    stood = sum(time.slept[:11])
    assert ended.outcome == "refused"
    assert 12.0 <= time.seconds - 1_000.0 - stood < 20.0


def test_a_watch_that_is_silent_is_restarted_from_where_it_was() -> None:
    silent = Reply(pieces=(line("ADDED", pod("a", 120)),), ending="open")
    seen, api = follow(
        {LIST: (listed(),), WATCH: (silent,)},
        lambda _, api: len(api.asked("WATCH")) == 2,
        settings=WatchSettings(idle_timeout=0.05),
    )
    assert [request.query.get("resourceVersion") for request in api.asked("WATCH")] == ["100", "120"]
    assert seen.names() == ["a"]


def test_a_watch_that_is_begun_counts_as_heard_though_it_says_nothing() -> None:
    def time_passes(seen: Seen, _: ScriptedApi) -> bool:
        if seen.reflector.stats.watches == 1:
            seen.time.seconds = 1_100.0
        return seen.reflector.stats.heard_at == 1_100.0

    seen, _ = follow({LIST: (listed(),)}, time_passes, settings=WatchSettings(idle_timeout=0.05))
    assert (seen.reflector.stats.lists, seen.reflector.stats.events) == (1, 0)


def test_after_an_outage_a_version_that_is_gone_is_not_waited_for_once_more() -> None:
    down = (Reply(503, {}),) * 9
    seen, _ = follow({LIST: (listed(),), WATCH: (*down, EXPIRED)}, lambda _, api: len(api.asked("GET")) == 2)
    assert seen.time.slept[8:10] == [30.0, 0.25]


def test_who_only_ever_says_that_versions_are_gone_is_asked_less_and_less_often() -> None:
    seen, _ = follow({LIST: (listed(),), WATCH: (EXPIRED,) * 4}, lambda _, api: len(api.asked("GET")) == 5)
    assert seen.time.slept[:4] == [0.25, 0.5, 1.0, 2.0]


def test_a_kind_that_is_recreated_is_soon_watched_again() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> float:
        group = Reply(200, {"versions": [{"version": "v1alpha1"}]})
        api.script("GET /apis/linkwise.dev", group, Reply(404, {}), Reply(404, {}), group)
        api.script("GET /apis/linkwise.dev/v1alpha1", Reply(200, {"resources": [{"name": "deviceinventories"}]}))
        api.script(f"GET {INVENTORIES}", listed({"metadata": {"name": "n1"}}))
        api.script(f"WATCH {INVENTORIES}", Reply(404, {}))
        sights: list[object] = []
        time, source = FakeTime(), next(one for one in SOURCES if one.resource == "deviceinventories")
        watching = Watching(connection, sights.extend, timing=time.timing, sources=(source,))
        task = asyncio.create_task(watching.run())
        await until(lambda: watching.stats[source.name].lists == 2)
        task.cancel()
        assert [sight.document is None for sight in sights if isinstance(sight, NodeObject)] == [False, True, False]
        return time.seconds - 1_000.0

    assert play(scenario) < 5.0
