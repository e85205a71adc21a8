"""What can't be read or taken in: it is named, and stops nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import PodListComplete
from linkwise.kube.watch.kinds import NODES, Decoded
from linkwise.model.views import PodView
from support.fakes.followed_source import LIST, WATCH, follow, node, pod
from support.fakes.scripted_api import Reply, line, listed

if TYPE_CHECKING:
    import msgspec

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.wire.kubernetes.watch_stream import Head


def test_everything_is_listed_again_after_a_line_that_is_not_an_event() -> None:
    watch = Reply(pieces=(line("ADDED", pod("a", 2)), b"<html>oops</html>\n"), ending="open")
    seen, api = follow({LIST: (listed(),), WATCH: (watch,)}, lambda _, api: len(api.asked("WATCH")) == 2)
    assert (len(api.asked("GET")), seen.names(), seen.reflector.stats.errors["garbage"]) == (2, ["a"], 1)


def test_a_list_that_is_none_is_asked_for_again() -> None:
    lists = (Reply(200, b"<html>a proxy</html>"), listed(pod("a")))
    seen, _ = follow({LIST: lists}, lambda _, api: api.asked("WATCH"))
    assert (seen.names(), seen.reflector.stats.errors["failed"]) == (["a"], 1)


def test_one_pod_that_cannot_be_read_stops_no_other() -> None:
    broken = pod("b") | {"spec": {"containers": 7}}
    seen, _ = follow({LIST: (listed(pod("a"), broken, pod("c")),)}, lambda _, api: api.asked("WATCH"))
    assert seen.names() == ["a", "c"]
    assert "containers" in seen.reflector.stats.unreadable["team/b"]


def test_a_pod_that_cannot_be_decoded_is_not_reported_as_deleted() -> None:
    broken = pod("b") | {"spec": {"containers": 7}}
    seen, _ = follow({LIST: (listed(pod("a"), broken),)}, lambda _, api: api.asked("WATCH"))
    assert seen.sights[-1] == PodListComplete(frozenset({"u-a", "u-b"}))


def test_a_bound_pod_that_cannot_be_read_still_holds_its_devices() -> None:
    wants = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    broken = pod("b") | {"spec": {"nodeName": "n1", "containers": [wants], "tolerations": 7}}
    seen, _ = follow({LIST: (listed(broken),)}, lambda _, api: api.asked("WATCH"))
    shown = seen.sights[0]
    assert isinstance(shown, PodView)
    assert (shown.node, shown.containers[0].limits) == ("n1", {"nvidia.com/gpu": "2"})
    assert "counted on node n1" in seen.reflector.stats.unreadable["team/b"]


def test_a_nameless_object_in_a_list_prevents_reports_of_deletions() -> None:
    seen, _ = follow({LIST: (listed(pod("a"), {"metadata": {"name": 7}}),)}, lambda _, api: api.asked("WATCH"))
    assert seen.names() == ["a"]
    assert not [sight for sight in seen.sights if isinstance(sight, PodListComplete)]


def test_what_could_not_be_read_is_forgotten_when_it_can_be() -> None:
    broken = pod("b") | {"spec": {"containers": 7}}
    watch = Reply(pieces=(line("MODIFIED", pod("b", 2)),), ending="open")
    seen, _ = follow({LIST: (listed(broken),), WATCH: (watch,)}, lambda seen, _: seen.names())
    assert seen.reflector.stats.unreadable == {}


def test_an_unreadable_object_deleted_between_watches_is_forgotten() -> None:
    broken = pod("b") | {"spec": {"containers": 7}}
    cut = Reply(pieces=(b"<html>oops</html>\n",), ending="open")
    scripts = {LIST: (listed(broken), listed(pod("c"))), WATCH: (cut, Reply(pieces=(), ending="open"))}
    seen, _ = follow(scripts, lambda _, api: len(api.asked("WATCH")) == 2)
    assert (seen.names(), seen.reflector.stats.unreadable) == (["c"], {})


def no_poison(sights: list[WatchEvent]) -> None:
    if any(isinstance(sight, PodView) and sight.name == "poison" and not sight.node for sight in sights):
        raise KeyError("an unexpected word")


@pytest.mark.parametrize("shown", ["list", "watch"])
def test_an_object_that_cannot_be_taken_in_is_named_and_stops_no_other(shown: str) -> None:
    pods = (pod("a"), pod("poison"), pod("c"))
    watch = Reply(pieces=(b"".join(line("ADDED", one) for one in pods),), ending="open")
    scripts = {LIST: (listed(*pods),)} if shown == "list" else {LIST: (listed(),), WATCH: (watch,)}
    seen, _ = follow(scripts, lambda seen, api: "c" in seen.names() and api.asked("WATCH"), check=no_poison)
    assert seen.names() == ["a", "c"]
    (counted,) = seen.reflector.stats.unreadable.items()
    assert counted[0] == "team/poison"
    assert "an unexpected word" in counted[1]
    assert seen.reflector.stats.errors == {"poison": 1}


def test_an_object_that_can_be_taken_in_later_is_no_problem_any_more() -> None:
    watch = Reply(pieces=(line("MODIFIED", pod("poison", 2, node="n1")),), ending="open")
    scripts = {LIST: (listed(pod("poison")),), WATCH: (watch,)}
    seen, _ = follow(scripts, lambda seen, _: seen.names(), check=no_poison)
    assert seen.reflector.stats.unreadable == {}


def test_a_list_that_the_sink_rejects_is_reported_and_the_watch_continues() -> None:
    def refuse_lists(sights: list[WatchEvent]) -> None:
        assert not any(isinstance(sight, PodListComplete) for sight in sights), "no lists here"

    watch = Reply(pieces=(line("ADDED", pod("b")),), ending="open")
    seen, _ = follow({LIST: (listed(),), WATCH: (watch,)}, lambda seen, _: seen.names(), check=refuse_lists)
    assert "no lists here" in seen.reflector.stats.unreadable["(the complete list)"]


def test_an_object_that_fails_unexpectedly_is_named_and_stops_no_other() -> None:
    def decode(document: msgspec.Raw, head: Head) -> Decoded:
        return NODES.decode(document, head) if head.name != "odd" else Decoded(None, str(1 // 0))

    scripts = {"GET /api/v1/nodes": (listed(node("odd"), node("b")),)}
    seen, _ = follow(scripts, lambda _, api: api.asked("WATCH"), source=replace(NODES, decode=decode))
    assert seen.names() == ["b"]
    assert "ZeroDivisionError" in seen.reflector.stats.unreadable["odd"]
