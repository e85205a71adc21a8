"""Binds: how each ends, whatever the API server does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Bind, BindResult
from linkwise.kube.client.api import FencedConnection
from linkwise.kube.perform.bind import Binder
from linkwise.kube.settings import PerformSettings
from linkwise.net.http.client import NotSentError
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection

GRANT = "linkwise.dev/grant"
EFFECT = Bind("team", "p", "u1", "n1", None, 7, {GRANT: "{}", "scheduler.example/time": "5"})
PATH = "/api/v1/namespaces/team/pods/p"
POST, GET = f"POST {PATH}/binding", f"GET {PATH}"
MADE = Reply(201, {"kind": "Status", "status": "Success"})
RESET = Reply(ending="reset")
SILENCE = Reply(ending="silence")
HALF = Reply(201, pieces=(b'{"kind": "Sta',), ending="cut")


def refused(status: int, message: str = "no", **headers: str) -> Reply:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Reply(status, {"kind": "Status", "code": status, "message": message}, headers=named)


def there(node: str = "", uid: str = "u1", annotations: dict[str, str] | None = None, **meta: str) -> Reply:
    known: dict[str, object] = {"name": "p", "namespace": "team", "uid": uid, "annotations": annotations or {}, **meta}
    return Reply(200, {"metadata": known, "spec": {"nodeName": node} if node else {}})


BOUND = there("n1", annotations={GRANT: "{}", "scheduler.example/time": "4"})


def fence(may_write: Callable[[], bool]) -> Callable[[], None]:
    def guard() -> None:
        if not may_write():
            raise NotSentError("it does not lead")

    return guard


def bind(
    *posts: Reply, reads: tuple[Reply, ...] = (), settle: bool = False, may_write: Callable[[], bool] = lambda: True
) -> tuple[BindResult, ScriptedApi, FakeTime]:
    """Bind once, or settle a bind that was never answered."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[BindResult, ScriptedApi, FakeTime]:
        if posts:
            api.script(POST, *posts)
        if reads:
            api.script(GET, *reads)
        time = FakeTime()
        settings = PerformSettings(bind_seconds=2, bind_margin=-1.9, wait=0.1)
        binder = Binder(FencedConnection(connection, fence(may_write)), settings, time.timing)
        ended = await (binder.settle(EFFECT) if settle else binder.bind(EFFECT))
        assert binder.ended[ended.outcome] == 1
        return ended, api, time

    return play(scenario)


@pytest.mark.parametrize("status", [200, 201])
def test_node_and_annotations_are_written_in_one_request(status: int) -> None:
    ended, api, _ = bind(Reply(status, {"status": "Success"}))
    assert ended == BindResult("written")
    (request,) = api.requests
    assert request.query == {"timeout": "2s", "fieldValidation": "Ignore"}
    assert request.document["metadata"] == {"name": "p", "uid": "u1", "annotations": dict(EFFECT.annotations)}
    assert request.document["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415, 422])
def test_a_definite_no_is_refused_in_the_words_of_the_server(status: int) -> None:
    ended, api, _ = bind(refused(status, "you may not"))
    assert ended == BindResult("refused", "you may not")
    assert len(api.requests) == 1


def test_a_conflict_with_the_very_same_bind_is_written() -> None:
    ended, _, _ = bind(refused(409), reads=(BOUND,))
    assert ended == BindResult("written")


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        (there("n2"), "pod team/p is already bound to node n2"),
        (there("n1", annotations={GRANT: "other"}), "pod team/p is already bound to this node with other devices"),
        (there("n1", "u2", {GRANT: "{}"}), "pod team/p was deleted and recreated with another UID"),
        (there(), "it has scheduling gates"),
        (there(deletionTimestamp="2026-01-01T00:00:00Z"), "pod team/p is being deleted"),
        (refused(404), "pod team/p no longer exists"),
    ],
)
def test_a_conflict_with_anything_else_is_refused(read: Reply, sentence: str) -> None:
    ended, _, _ = bind(refused(409, "it has scheduling gates"), reads=(read,))
    assert ended == BindResult("refused", sentence)


def test_a_conflict_that_cannot_be_looked_into_is_unknown() -> None:
    ended, _, _ = bind(refused(409), reads=(RESET,))
    assert ended.outcome == "unknown"


def test_a_server_without_time_is_asked_again_after_the_time_it_names() -> None:
    ended, api, time = bind(refused(429, retry_after="1"), refused(429, retry_after="1"), MADE)
    assert ended == BindResult("written")
    assert (len(api.asked("POST")), time.slept) == (3, [1.0, 1.0])


def test_a_server_that_never_has_time_refuses() -> None:
    ended, api, _ = bind(refused(429, "too many", retry_after="1"))
    assert ended == BindResult("refused", "too many")
    assert len(api.asked("POST")) < 5


LOST = [RESET, SILENCE, HALF, refused(500), refused(503), refused(504), refused(408)]


@pytest.mark.parametrize("lost", LOST)
def test_a_write_whose_answer_is_lost_is_found_by_a_read(lost: Reply) -> None:
    ended, api, _ = bind(lost, reads=(BOUND,))
    assert ended == BindResult("written")
    assert len(api.asked("POST")) == 1


@pytest.mark.parametrize("lost", LOST)
def test_a_write_that_did_not_land_is_sent_once_more_as_it_is(lost: Reply) -> None:
    ended, api, _ = bind(lost, MADE, reads=(there(),))
    assert ended == BindResult("written")
    first, second = api.asked("POST")
    assert first.document == second.document


@pytest.mark.parametrize("lost", LOST)
def test_what_is_lost_twice_is_unknown(lost: Reply) -> None:
    ended, api, _ = bind(lost, reads=(there(),))
    assert (ended.outcome, len(api.asked("POST"))) == ("unknown", 2)


@pytest.mark.parametrize("read", [there("n2"), there(uid="u2"), refused(404)])
def test_a_lost_write_of_a_pod_that_is_elsewhere_or_gone_is_refused(read: Reply) -> None:
    ended, api, _ = bind(RESET, reads=(read,))
    assert (ended.outcome, len(api.asked("POST"))) == ("refused", 1)


@pytest.mark.parametrize("read", [RESET, SILENCE, HALF, refused(500), Reply(200, b"no JSON")])
def test_a_lost_write_that_cannot_be_looked_for_is_unknown(read: Reply) -> None:
    ended, api, _ = bind(RESET, reads=(read,))
    assert (ended.outcome, len(api.asked("POST"))) == ("unknown", 1)


def test_the_first_write_that_lands_late_makes_the_second_a_conflict_and_is_written() -> None:
    ended, _, _ = bind(RESET, refused(409), reads=(there(), BOUND))
    assert ended == BindResult("written")


def test_a_refusal_of_the_second_request_does_not_reveal_the_first() -> None:
    ended, _, _ = bind(RESET, refused(403), reads=(there(),))
    assert ended.outcome == "unknown"


def test_a_conflict_of_the_second_request_does_not_reveal_the_first() -> None:
    ended, _, _ = bind(RESET, refused(409), reads=(there(),))
    assert ended.outcome == "unknown"


def test_a_bind_that_times_out_is_reported_and_nothing_more_is_sent() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[BindResult, int]:
        api.script(POST, refused(504))
        api.script(GET, there())
        timing = replace(FakeTime().timing, clock=lambda: 4.5 if api.requests else 0.0)
        ended = await Binder(connection, PerformSettings(bind_deadline=4.0), timing).bind(EFFECT)
        return ended, len(api.requests)

    assert play(scenario) == (BindResult("unknown", "no"), 1)


def test_a_server_that_cannot_be_reached_has_written_nothing() -> None:
    async def scenario(_: ScriptedApi, connection: Connection) -> BindResult:
        await connection.close()
        connection.http.origin = replace(connection.http.origin, port=0)
        return await Binder(connection).bind(EFFECT)

    ended = play(scenario)
    assert ended.outcome == "refused"
    assert ended.sentence.startswith("nothing was written: 127.0.0.1:0 can't be reached")


def test_nothing_is_sent_by_a_replica_that_may_not_bind() -> None:
    ended, api, _ = bind(MADE, may_write=lambda: False)
    assert (ended, api.requests) == (BindResult("refused", "nothing was written: it does not lead"), [])


def test_nothing_is_sent_again_by_a_replica_that_may_no_longer_bind() -> None:
    answers = iter([True, False])
    ended, api, _ = bind(RESET, reads=(there(),), may_write=lambda: next(answers))
    assert (ended.outcome, len(api.asked("POST"))) == ("unknown", 1)


def test_a_bind_without_a_record_is_compared_by_all_that_it_writes() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> BindResult:
        api.script(POST, refused(409))
        api.script(GET, there("n1"))
        return await Binder(connection).bind(Bind("team", "p", "u1", "n1", None, 0))

    assert play(scenario) == BindResult("written")


@pytest.mark.parametrize(("read", "outcome"), [(BOUND, "written"), (there("n2"), "refused"), (refused(404), "refused")])
def test_an_unknown_outcome_is_settled_by_the_first_conclusive_read(read: Reply, outcome: str) -> None:
    ended, api, _ = bind(reads=(RESET, refused(503), there(), read), settle=True)
    assert (ended.outcome, len(api.asked("GET"))) == (outcome, 4)


def test_a_bind_that_can_no_longer_land_is_refused_when_its_time_is_over() -> None:
    ended, _, time = bind(reads=(there(),), settle=True)
    assert ended == BindResult("refused", "the API server did not write the binding within its timeout")
    assert 12.0 <= time.seconds - 1_000.0 < 20.0


def test_a_read_before_the_time_is_over_does_not_refuse() -> None:
    reads = (*(there(),) * 4, BOUND)
    ended, _, time = bind(reads=reads, settle=True)
    assert (ended.outcome, time.seconds < 1_012.0) == ("written", True)


def test_a_read_that_began_before_the_time_was_over_does_not_refuse() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script(GET, there())
        timing = replace(FakeTime().timing, clock=lambda: 100.0 if api.requests else 0.0)
        ended = await Binder(connection, timing=timing).settle(EFFECT)
        assert ended.outcome == "refused"
        return len(api.requests)

    assert play(scenario) == 2


def test_a_server_is_not_asked_about_all_unknown_binds_at_once() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[int, int]:
        for number in range(50):
            api.script(f"GET /api/v1/namespaces/team/pods/p{number}", refused(404))
        binder = Binder(connection)
        lost = [Bind("team", f"p{number}", "u", "n1", None, number) for number in range(50)]
        await asyncio.gather(*(binder.settle(effect) for effect in lost))
        return len(api.requests), api.connections

    requests, connections = play(scenario)
    assert requests == 50
    assert connections <= 8


def test_settling_waits_for_a_server_that_cannot_be_reached() -> None:
    ended, _, time = bind(reads=(*(RESET,) * 12, there()), settle=True)
    assert (ended.outcome, len(time.slept) > 12) == ("refused", True)
    assert max(time.slept) <= 5.0
