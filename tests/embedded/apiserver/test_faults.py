"""Fault injection: which requests fail, what was written nevertheless, and recovery."""

from __future__ import annotations

import asyncio
import re
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

import pytest
from lightkube.config.models import User

from linkwise.broker.effects import Bind
from linkwise.embedded.apiserver.faults import Fault, Faults
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.errors import ClusterError
from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.kube.perform.bind import Binder
from linkwise.kube.settings import PerformSettings
from linkwise.net.http.client import CutError, Http, Origin, SlowError
from support.embedded.conformance import Space, pod
from support.embedded.thread import EmbeddedThread
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")
BINDING = "/binding$"


def play(story: Callable[[EmbeddedApi, Connection], Awaitable[T]]) -> T:
    async def played() -> T:
        async with EmbeddedApi(tls=False) as api:
            http = Http(Origin("127.0.0.1", api.port))
            connection = Connection(http, Credentials(User(token=api.token), "test"), api.url)
            try:
                async with asyncio.timeout(20):
                    return await story(api, connection)
            finally:
                await connection.close()

    return run_idle(played())


def bind_of(uid: str) -> Bind:
    return Bind("default", "a", uid, "n1", None, 1, {"x": "y"})


@pytest.fixture
def served() -> Iterator[EmbeddedThread]:
    with EmbeddedThread() as thread:
        yield thread


def bound(api: EmbeddedApi) -> str:
    return str(api.store.get("pods", "a", "default").read()["spec"].get("nodeName", ""))


def test_a_write_that_lands_without_an_answer_is_found_out() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[str, str]:
        made = api.store.create("pods", pod("a"), "default")
        api.faults.add(Fault("reset", on="POST", path=BINDING, landed=True))
        ended = await Binder(connection).bind(bind_of(made.uid))
        return ended.outcome, bound(api)

    assert play(story) == ("written", "n1")


def test_a_write_that_does_not_land_is_sent_again() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[str, str]:
        made = api.store.create("pods", pod("a"), "default")
        api.faults.add(Fault("reset", on="POST", path=BINDING))
        ended = await Binder(connection).bind(bind_of(made.uid))
        return ended.outcome, bound(api)

    assert play(story) == ("written", "n1")


@pytest.mark.parametrize(("landed", "node"), [(True, "n1"), (False, "")])
def test_a_reset_ends_the_connection_before_or_after_the_write(node: str, *, landed: bool) -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> str:
        api.store.create("pods", pod("a"), "default")
        api.faults.add(Fault("reset", on="WRITE", landed=landed))
        with pytest.raises(CutError):
            await connection.call("POST", "/api/v1/namespaces/default/pods/a/binding", b'{"target":{"name":"n1"}}')
        return bound(api)

    assert play(story) == node


def test_a_write_that_lands_and_times_out_was_written() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[int, str]:
        api.store.create("pods", pod("a"), "default")
        api.faults.add(Fault("answer", on="POST", code=504, landed=True))
        body = b'{"target":{"name":"n1"}}'
        answer = await connection.call("POST", "/api/v1/namespaces/default/pods/a/binding", body)
        return answer.status, bound(api)

    assert play(story) == (504, "n1")


def test_a_server_that_hangs_is_given_up() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> None:
        api.faults.add(Fault("hang", on="GET"))
        with pytest.raises(SlowError):
            await connection.call("GET", "/api/v1/pods", wait=0.2)
        assert (await connection.call("GET", "/api/v1/pods")).status == 200

    play(story)


def test_an_outcome_without_an_answer_stays_unknown_until_a_read() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[str, str]:
        made = api.store.create("pods", pod("a"), "default")
        api.faults.add(Fault("answer", code=500, landed=True, times=3))
        binder = Binder(connection, PerformSettings(bind_seconds=1))
        effect = bind_of(made.uid)
        first = await binder.bind(effect)
        return first.outcome, (await binder.settle(effect)).outcome

    assert play(story) == ("unknown", "written")


def test_a_delay_slows_the_given_number_of_requests() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[bool, bool]:
        loop = asyncio.get_running_loop()
        api.faults.add(Fault("delay", seconds=0.1, times=1))
        begin = loop.time()
        await connection.call("GET", "/version")
        return loop.time() - begin >= 0.1, api.faults.to_list()[0]["done"] == 1

    assert play(story) == (True, True)


@pytest.mark.parametrize(
    ("code", "reason"), [(409, "Conflict"), (410, "Expired"), (500, "InternalError"), (429, "TooManyRequests")]
)
def test_an_answer_fault_replaces_the_given_number_of_responses(
    space: Space, served: EmbeddedThread, code: int, reason: str
) -> None:
    served.do(lambda server: server.faults.add(Fault("answer", on="PATCH", code=code, times=2)))
    space.config("a")
    for _ in range(2):
        error = space.refused(
            "PATCH", space.path("configmaps", "a"), {"data": {"x": "1"}}, "application/merge-patch+json"
        )
        assert (error.status, error.reason) == (code, reason)
    assert space.patch("configmaps", "a", {"data": {"x": "1"}})["data"] == {"x": "1"}


def watched(space: Space, served: EmbeddedThread, *faults: Fault) -> list[str]:
    """What a watch tells of ConfigMaps a, b and c."""
    served.do(lambda server: server.faults.add(*faults))
    with space.api.watch(f"{space.path('configmaps')}?watch=1") as lines:
        for name in (*"abc", "last"):
            space.config(name)
        names = (line["object"].get("metadata", {}).get("name") or line["object"]["reason"] for line in lines)
        found: list[str] = []
        try:
            found += takewhile(lambda name: name != "last", names)
        except CutError as error:
            found.append(type(error).__name__)
        return found


def test_a_watch_can_drop_an_event(space: Space, served: EmbeddedThread) -> None:
    assert watched(space, served, Fault("drop", skip=1)) == ["a", "c"]


def test_a_watch_can_repeat_an_event(space: Space, served: EmbeddedThread) -> None:
    assert watched(space, served, Fault("repeat", skip=1)) == ["a", "b", "b", "c"]


def test_a_watch_can_be_cut(space: Space, served: EmbeddedThread) -> None:
    found = watched(space, served, Fault("cut", skip=1))
    assert found[0] == "a"
    assert "c" not in found


def test_a_watch_can_end_with_expired(space: Space, served: EmbeddedThread) -> None:
    assert watched(space, served, Fault("expire", skip=2)) == ["a", "b", "Expired"]


def test_faults_are_added_and_removed_over_http(space: Space) -> None:
    fault = {"do": "answer", "on": "GET", "path": "/configmaps", "code": 503, "times": 0}
    found = space.call("POST", "/faults", fault)["faults"]
    assert [(one["do"], one["done"]) for one in found] == [("answer", 0)]
    assert space.api.raw("GET", space.path("configmaps"))[0] == 503
    assert space.call("GET", "/faults")["faults"][0]["done"] == 1
    space.call("DELETE", "/faults")
    assert space.api.raw("GET", space.path("configmaps"))[0] == 200


def test_an_invalid_fault_is_rejected(space: Space) -> None:
    assert space.refused("POST", "/faults", {"do": "explode"}).status == 400
    assert space.refused("POST", "/faults", {"do": "reset", "path": "("}).status == 400
    assert space.refused("POST", "/faults", [{"do": "reset", "often": 3}]).status == 400


def test_chance_is_the_same_for_the_same_seed() -> None:
    def run(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(Fault("reset", chance=0.5, times=0))
        return [bool(faults.on_request("GET", "/x")) for _ in range(20)]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_restart_keeps_objects_and_address() -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> tuple[int, bool]:
        api.store.create("configmaps", {"metadata": {"name": "a"}}, "default")
        before = api.url
        watch = asyncio.create_task(
            _lines(connection, f"/api/v1/configmaps?watch=1&resourceVersion={api.store.version}")
        )
        await asyncio.sleep(0.05)
        await api.restart()
        with pytest.raises(CutError):
            await watch
        answer = await connection.call("GET", "/api/v1/namespaces/default/configmaps/a")
        return answer.status, api.url == before

    assert play(story) == (200, True)


async def _lines(connection: Connection, path: str) -> bytes:
    async with connection.stream(path) as stream:
        return b"".join([piece async for piece in stream.chunks()])


@pytest.mark.parametrize("lost", [True, False])
def test_a_watch_resumes_after_a_restart_unless_history_is_lost(*, lost: bool) -> None:
    async def story(api: EmbeddedApi, connection: Connection) -> bytes:
        version = api.store.version
        api.store.create("configmaps", {"metadata": {"name": "a"}}, "default")
        await api.restart(lose_history=lost)
        return await _lines(connection, f"/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}")

    first = play(story).split(b"\n")[0]
    assert (b'"code":410' in first) is lost
    assert (b'"ADDED"' in first) is not lost


def test_a_restart_can_be_requested_over_http(space: Space) -> None:
    version = space.config("a")["metadata"]["resourceVersion"]
    space.config("b")
    space.call("POST", "/faults/restart", {"loseHistory": True})

    def expired() -> bool:
        try:
            with space.api.watch(f"{space.path('configmaps')}?watch=1&resourceVersion={version}") as lines:
                return bool(next(lines)["type"] == "ERROR")
        except ClusterError:
            return False

    space.until(expired, "history is lost")


def test_a_fault_with_an_invalid_expression_is_rejected_in_python_too() -> None:
    with pytest.raises(re.error):
        Faults().add(Fault("reset", path="("))
