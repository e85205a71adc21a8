"""Events are written off the hot path: once each, warnings first, binds before the rest, and never too many."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Event
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.performed_effects import EVENTS, FINE, chosen, tell
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection


def test_an_event_is_about_its_pod() -> None:
    (request,) = tell([chosen()]).api.requests
    assert request.path == EVENTS
    about = {"kind": "Pod", "name": "p", "uid": "u-p", "namespace": "team", "apiVersion": "v1"}
    assert request.document["involvedObject"] | about == about
    assert (request.document["reportingComponent"], request.document["count"]) == ("linkwise", 1)


def test_an_event_about_a_pod_with_a_long_name_has_a_name_that_may_be() -> None:
    (request,) = tell([chosen("a" * 199 + "-.b" + "c" * 40)]).api.requests
    assert re.fullmatch(r"a{199}\.[0-9a-f]+", request.document["metadata"]["name"])


def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    (request,) = tell([Event("Warning", "Drift", "two pods, one device", node="n1")]).api.requests
    assert request.path == "/api/v1/namespaces/default/events"
    assert (request.document["involvedObject"]["kind"], request.document["involvedObject"]["name"]) == ("Node", "n1")


def test_an_event_about_a_pod_group_names_the_version_of_volcano() -> None:
    (request,) = tell([Event("Warning", "JobRefused", "no", "team", "g", "u-g", about="PodGroup")]).api.requests
    found = request.document["involvedObject"]
    assert (found["kind"], found["apiVersion"]) == ("PodGroup", "scheduling.volcano.sh/v1beta1")
    assert (request.path, found["name"], found["uid"]) == ("/api/v1/namespaces/team/events", "g", "u-g")


def test_an_event_that_happens_again_is_counted_up() -> None:
    made = f"{EVENTS}/p.3b9aca000001"
    ran = tell([chosen()], [chosen()], [chosen(), chosen()], scripts={f"PATCH {made}": (FINE,)})
    assert [request.document["count"] for request in ran.api.requests] == [1, 2, 4]
    assert ran.performer.stats["event"] == {"made": 1, "repeated": 2}


def test_an_event_that_the_server_has_forgotten_is_created_again() -> None:
    ran = tell([chosen()], [chosen()])
    assert [request.verb for request in ran.api.requests] == ["POST", "PATCH", "POST"]


def test_events_that_differ_are_not_counted_together() -> None:
    ran = tell([chosen(sentence="device 0"), chosen(sentence="device 1")])
    assert ran.performer.stats["event"] == {"made": 2}


def test_too_many_events_are_dropped_and_counted() -> None:
    ran = tell([chosen(sentence=str(number)) for number in range(5)], settings=PerformSettings(max_queued_events=3))
    assert ran.performer.stats["event"] == {"made": 3, "dropped": 2}


def test_warnings_are_written_first_and_make_room_for_themselves() -> None:
    ran = tell(
        [*(chosen(sentence=str(number)) for number in range(3)), chosen(sentence="look", kind="Warning")],
        settings=PerformSettings(max_queued_events=3),
    )
    assert [request.document["message"] for request in ran.api.requests] == ["look", "1", "2"]
    assert ran.performer.stats["event"] == {"made": 3, "dropped": 1}


def test_a_line_full_of_warnings_takes_nothing_else() -> None:
    warnings = [chosen(sentence=str(number), kind="Warning") for number in range(3)]
    ran = tell(
        [*warnings, chosen(), chosen(sentence="more", kind="Warning")], settings=PerformSettings(max_queued_events=3)
    )
    assert [request.document["message"] for request in ran.api.requests] == ["0", "1", "2"]
    assert ran.performer.stats["event"] == {"made": 3, "dropped": 2}


def test_events_let_binds_go_first_for_a_while_and_warnings_do_not() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        api.script(f"POST {EVENTS}", Reply(201, {}))
        time = FakeTime()
        performer = Performer(connection, PerformSettings(), time.timing)
        performer.binder.in_flight = 1
        running = asyncio.create_task(performer.run())
        begun = time.seconds
        performer.tell([chosen(), chosen(sentence="look", kind="Warning")])
        await until(lambda: not performer.queued)
        assert [request.document["message"] for request in api.requests] == ["look", "devices 0, 1"]
        assert time.seconds - begun == pytest.approx(2.0)
        performer.binder.in_flight = 0
        performer.tell([chosen(sentence="now")])
        await until(lambda: not performer.queued)
        assert time.seconds - begun == pytest.approx(2.0)
        await performer.close()
        await running

    play(scenario)


def test_events_keep_to_their_rate() -> None:
    ran = tell(
        [chosen(sentence=str(number)) for number in range(5)], settings=PerformSettings(events=1.0, events_burst=2)
    )
    assert ran.time.seconds - 1_000.0 == pytest.approx(3.0)


def test_a_long_sentence_is_cut_for_an_event() -> None:
    (request,) = tell([chosen(sentence="x" * 5_000)]).api.requests
    assert len(request.document["message"]) == 1_024
