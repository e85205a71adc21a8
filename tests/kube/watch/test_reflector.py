"""Lists and watches against an API server that says what the test wrote down."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import NodeGone, PodDeleted, PodListComplete
from linkwise.kube.errors import AbsentError, ForbiddenError, RestoredError
from linkwise.kube.settings import WatchSettings
from linkwise.kube.watch.kinds import NODES, PODS, SOURCES
from linkwise.kube.watch.reflector import Reflector
from linkwise.model.views import PodView
from support.fakes.followed_source import GONE, LIST, LOOK, WATCH, Seen, follow, node, pod
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, line, listed, play, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.kube.client.api import Connection


def test_a_list_is_read_page_by_page_to_its_end() -> None:
    pages = (listed(pod("a"), pod("b"), rest="more/x"), listed(pod("c"), version="101"))
    seen, api = follow({LIST: pages}, lambda _, api: api.asked("WATCH"))
    assert seen.names() == ["a", "b", "c"]
    assert [request.query.get("continue") for request in api.asked("GET")] == [None, "more/x"]
    assert api.asked("GET")[0].query["limit"] == "500"


def test_pods_missing_from_a_complete_list_are_reported_at_its_end() -> None:
    seen, _ = follow({LIST: (listed(pod("a"), pod("b")),)}, lambda _, api: api.asked("WATCH"))
    assert seen.sights[-1] == PodListComplete(frozenset({"u-a", "u-b"}))


def test_a_watch_goes_on_from_the_version_of_the_list() -> None:
    _, api = follow({LIST: (listed(version="777"),)}, lambda _, api: api.asked("WATCH"))
    query = api.asked("WATCH")[0].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"], query["timeoutSeconds"]) == ("777", "true", "600")


def test_a_page_is_handed_on_in_slices() -> None:
    pods = [pod(f"p{number}") for number in range(7)]
    seen, _ = follow({LIST: (listed(*pods),)}, lambda _, api: api.asked("WATCH"), settings=WatchSettings(slice=3))
    assert [len(batch) for batch in seen.batches] == [3, 3, 1, 1]


def test_events_that_come_together_are_handed_on_together() -> None:
    together = line("ADDED", pod("a", 2)) + line("MODIFIED", pod("b", 3)) + line("DELETED", pod("c", 4))
    watch = Reply(pieces=(together,), ending="open")
    seen, _ = follow({LIST: (listed(),), WATCH: (watch,)}, lambda seen, _: len(seen.sights) == 4)
    assert [type(sight) for sight in seen.batches[-1]] == [PodView, PodView, PodDeleted]


def test_a_line_that_comes_in_pieces_is_one_event() -> None:
    whole = line("ADDED", pod("a", 2))
    watch = Reply(pieces=(whole[:10], whole[10:40], whole[40:]), ending="open")
    seen, _ = follow({LIST: (listed(),), WATCH: (watch,)}, lambda seen, _: seen.names())
    assert seen.names() == ["a"]


def test_a_watch_that_is_cut_in_the_middle_of_a_line_goes_on_from_the_last_whole_one() -> None:
    cut = Reply(pieces=(line("ADDED", pod("a", 120)), line("ADDED", pod("b", 130))[:25]), ending="cut")
    seen, api = follow({LIST: (listed(),), WATCH: (cut,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert api.asked("WATCH")[1].query["resourceVersion"] == "120"
    assert (len(api.asked("GET")), seen.names()) == (1, ["a"])


def test_a_bookmark_moves_the_version_and_shows_nothing() -> None:
    watch = Reply(pieces=(line("BOOKMARK", {"metadata": {"resourceVersion": "500"}}),))
    seen, api = follow({LIST: (listed(),), WATCH: (watch,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert api.asked("WATCH")[1].query["resourceVersion"] == "500"
    assert seen.names() == []


def test_a_watch_that_ends_in_time_is_restarted_at_once() -> None:
    watch = Reply(pieces=(line("ADDED", pod("a", 120)),))
    seen, _ = follow({LIST: (listed(),), WATCH: (watch,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert seen.time.slept == []


@pytest.mark.parametrize(
    "gone", [GONE, Reply(pieces=(line("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}),))]
)
def test_everything_is_listed_again_when_its_version_is_gone(gone: Reply) -> None:
    lists = (listed(pod("a")), listed(pod("b"), version="200"))
    seen, api = follow({LIST: lists, WATCH: (gone,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert seen.sights[-1] == PodListComplete(frozenset({"u-b"}))
    assert api.asked("WATCH")[1].query["resourceVersion"] == "200"


def test_the_list_restarts_when_a_page_is_gone() -> None:
    lists = (listed(pod("a"), rest="x"), GONE, listed(pod("b")))
    seen, api = follow({LIST: lists}, lambda _, api: api.asked("WATCH"))
    assert [request.query.get("continue") for request in api.asked("GET")] == [None, "x", None]
    assert [sight for sight in seen.sights if isinstance(sight, PodListComplete)] == [
        PodListComplete(frozenset({"u-b"}))
    ]


def test_another_error_in_a_watch_is_waited_for_and_tried_again() -> None:
    broken = Reply(pieces=(line("ERROR", {"code": 500, "message": "etcd is slow"}),))
    seen, api = follow({LIST: (listed(),), WATCH: (broken,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert (seen.reflector.stats.errors["failed"], len(api.asked("GET"))) == (1, 1)


def test_a_server_that_fails_is_asked_again_less_and_less_often() -> None:
    lists = (*(Reply(500, {"message": "no"}),) * 4, listed())
    seen, _ = follow({LIST: lists}, lambda _, api: api.asked("WATCH"))
    assert seen.time.slept == [0.25, 0.5, 1.0, 2.0]
    assert not seen.reflector.stats.trouble


def test_after_a_good_watch_the_waits_are_short_again() -> None:
    lists = (*(Reply(500, {"message": "no"}),) * 3, listed())
    cut = Reply(pieces=(line("ADDED", pod("a", 120)),), ending="cut")
    seen, _ = follow({LIST: lists, WATCH: (cut,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert seen.time.slept == [0.25, 0.5, 1.0, 0.25]


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_begun_in_a_hot_loop() -> None:
    empty = Reply(pieces=())
    seen, _ = follow({LIST: (listed(),), WATCH: (empty,) * 3}, lambda _, api: len(api.asked("WATCH")) == 4)
    assert seen.time.slept == [0.25, 0.5, 1.0]


def test_repeated_events_are_handed_on_as_they_are() -> None:
    watch = Reply(pieces=(line("ADDED", pod("a", 2)) * 2,), ending="open")
    seen, _ = follow({LIST: (listed(),), WATCH: (watch,)}, lambda seen, _: len(seen.names()) == 2)
    assert seen.names() == ["a", "a"]


def test_nodes_deleted_between_watches_are_reported_as_gone() -> None:
    lists = (listed(node("n1"), node("n2")), listed(node("n2")))
    scripts = {"GET /api/v1/nodes": lists, "WATCH /api/v1/nodes": (GONE,)}
    seen, _ = follow(scripts, lambda _, api: len(api.asked("WATCH")) == 2, NODES)
    assert seen.sights[-1] == NodeGone("n1")


def test_a_node_that_is_deleted_twice_is_reported_once() -> None:
    watch = Reply(pieces=(line("DELETED", node("n1", 5)) * 2, line("ADDED", node("n2", 6))), ending="open")
    scripts = {"GET /api/v1/nodes": (listed(node("n1")),), "WATCH /api/v1/nodes": (watch,)}
    seen, _ = follow(scripts, lambda seen, _: "n2" in seen.names(), NODES)
    assert seen.sights.count(NodeGone("n1")) == 1


def test_pods_created_during_a_list_are_not_reported_as_deleted() -> None:
    answers: Iterator[set[str]] = iter([{"u-old"}, {"u-old", "u-new"}])
    seen, _ = follow({LIST: (listed(pod("a")),)}, lambda _, api: api.asked("WATCH"), known=lambda: next(answers))
    assert seen.sights[-1] == PodListComplete(frozenset({"u-a", "u-new"}))


def test_everything_is_listed_again_after_the_time_for_it() -> None:
    ended = (Reply(pieces=()),) * 2
    scripts = {LIST: (listed(),), WATCH: ended}
    settings = WatchSettings(resync=0.5)
    _, api = follow(scripts, lambda _, api: len(api.asked("WATCH")) == 3, settings=settings)
    assert len(api.asked("GET")) == 2


def test_a_relist_that_fails_does_not_stop_the_watch() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> list[str]:
        api.script(LIST, listed(pod("a")), Reply(503, {"message": "busy"}))
        api.script(WATCH, Reply(pieces=(), ending="open"), Reply(pieces=(line("ADDED", pod("b", 5)),), ending="open"))
        seen = Seen(connection, settings=WatchSettings(resync=3600.0))
        await seen.until(lambda: api.asked("WATCH"))
        seen.time.seconds += 3600.0
        api.cut_all()
        await seen.until(lambda: "b" in seen.names())
        await seen.end()
        return [request.verb for request in api.requests]

    assert play(scenario) == ["GET", "WATCH", "GET", "LOOK", "WATCH"]


def test_a_kind_that_is_not_served_ends_the_following() -> None:
    with pytest.raises(AbsentError, match=r"deviceinventories.linkwise.dev is not served"):
        follow({}, lambda _, __: False, next(source for source in SOURCES if source.resource == "deviceinventories"))


def test_nodes_are_not_lost_because_a_server_says_that_there_is_no_such_kind() -> None:
    lists = (listed(node("n1")), Reply(404, {"message": "no backend"}), listed(node("n1", 2)))
    scripts = {"GET /api/v1/nodes": lists, "WATCH /api/v1/nodes": (GONE,)}
    seen, _ = follow(scripts, lambda _, api: len(api.asked("WATCH")) == 2, NODES)
    assert NodeGone("n1") not in seen.sights


def test_what_is_not_allowed_is_said_with_verb_and_resource() -> None:
    with pytest.raises(ForbiddenError, match="may not list pods: no you; grant list and watch"):
        follow({LIST: (Reply(403, {"message": "no you"}),)}, lambda _, __: False)


def test_a_server_that_is_not_there_is_waited_for() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> list[float]:
        api.script(LIST, listed(pod("a")))
        there = connection.http.origin
        connection.http.origin = replace(there, port=0)
        seen = Seen(connection)
        await seen.until(lambda: len(seen.time.slept) >= 2)
        connection.http.origin = there
        await seen.until(lambda: seen.names() == ["a"])
        await seen.end()
        return seen.time.slept

    assert play(scenario)[:2] == [0.25, 0.5]


def test_when_something_was_last_heard_does_not_hang_on_a_clock_that_can_be_set() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> float:
        api.script(LIST, listed())
        timing = replace(FakeTime(1_000.0).timing, now=lambda: 5.0)
        found = Reflector(connection=connection, source=PODS, sink=lambda _: None, timing=timing, path="/api/v1/pods")
        task = asyncio.create_task(found.run())
        await until(lambda: found.stats.synced)
        task.cancel()
        return found.stats.heard_at

    assert play(scenario) == 1_000.0


def test_a_server_that_is_at_an_earlier_time_than_before_ends_the_following() -> None:
    watch = Reply(pieces=(line("ADDED", pod("a", 120)), line("ERROR", {"code": 410, "message": "too old"})))
    with pytest.raises(
        RestoredError, match=r"pods went back from 120 to 110; if etcd was restored from a backup, restart"
    ):
        follow({LIST: (listed(), listed(version="110")), WATCH: (watch,)}, lambda _, __: False)


def test_a_server_that_is_at_an_earlier_time_when_it_is_back_is_noticed_before_anything_is_watched() -> None:
    cut = Reply(pieces=(line("ADDED", pod("a", 120)),), ending="cut")
    scripts = {LIST: (listed(),), WATCH: (cut,), LOOK: (Reply(ending="reset"), listed(version="110"))}
    with pytest.raises(RestoredError, match="pods went back from 120 to 110"):
        follow(scripts, lambda _, api: len(api.asked("WATCH")) == 2)


@pytest.mark.parametrize("version", ["", "abc", "9" * 5000])
def test_a_version_that_is_no_number_is_not_compared(version: str) -> None:
    lists = (listed(version="100"), listed(version=version), listed(version="101"))
    gone = Reply(pieces=(line("ERROR", {"code": 410, "message": "too old"}),))
    follow({LIST: lists, WATCH: (gone, gone)}, lambda _, api: api.asked("WATCH")[2:] or len(api.asked("GET")) > 3)


def test_a_server_that_is_at_an_earlier_time_is_noticed_when_a_watch_was_silent() -> None:
    scripts = {LIST: (listed(),), LOOK: (listed(version="90"),)}
    with pytest.raises(RestoredError, match="pods went back from 100 to 90"):
        follow(scripts, lambda _, __: False, settings=WatchSettings(idle_timeout=0.05))


def test_a_version_that_cannot_be_looked_at_does_not_keep_the_watch_from_going_on() -> None:
    watches = (
        Reply(pieces=(line("ADDED", pod("a", 120)),)),
        Reply(pieces=(line("ADDED", pod("b", 121)),), ending="open"),
    )
    busy = Reply(429, {"message": "busy"})
    seen, _ = follow({LIST: (listed(),), WATCH: watches, LOOK: (busy,)}, lambda seen, _: "b" in seen.names())
    assert seen.names() == ["a", "b"]


def test_a_list_that_is_asked_for_ends_the_watch_and_is_delivered_whole() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[list[object], int]:
        seen: list[object] = []
        api.script(LIST, listed(pod("a")), listed(pod("a"), pod("b"), version="200"))
        reflector = Reflector(connection=connection, source=PODS, sink=seen.extend, path="/api/v1/pods")
        running = asyncio.create_task(reflector.run())
        await until(lambda: api.asked("WATCH"))
        await reflector.list_now()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen, len(api.asked("GET"))

    seen, lists = play(scenario)
    assert (seen[-1], lists) == (PodListComplete(frozenset({"u-a", "u-b"})), 2)


def test_a_list_that_was_under_way_does_not_serve_a_later_request_for_one() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script(LIST, listed(pod("a")))
        reflector = Reflector(connection=connection, source=PODS, sink=list[object]().extend, path="/api/v1/pods")
        running = asyncio.create_task(reflector.run())
        await until(lambda: api.asked("GET"))
        await reflector.list_now()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return len(api.asked("GET"))

    assert play(scenario) == 2


def test_a_list_that_is_asked_for_and_fails_is_tried_again() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script(LIST, listed(pod("a")), Reply(500, {}), listed(pod("a")))
        reflector = Reflector(
            connection=connection,
            source=PODS,
            sink=list[object]().extend,
            timing=FakeTime().timing,
            path="/api/v1/pods",
        )
        running = asyncio.create_task(reflector.run())
        await until(lambda: api.asked("WATCH"))
        await reflector.list_now()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return len(api.asked("GET"))

    assert play(scenario) == 3
