"""The HTTPS server: authentication, health, discovery, bookmarks, shutdown, and our own client against it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Bind
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.errors import InputError
from linkwise.kube.client.api import connect
from linkwise.kube.perform.bind import Binder
from linkwise.kube.watch.watcher import Watching
from support.embedded.conformance import Space, pod
from support.embedded.thread import EmbeddedThread
from support.fakes.scripted_api import until
from support.virtual_clock import run_idle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from linkwise.broker.watch_events import WatchEvent


def bind_of(uid: str) -> Bind:
    return Bind("default", "a", uid, "n1", None, 1, {"x": "y"})


@pytest.fixture
def served() -> Iterator[EmbeddedThread]:
    with EmbeddedThread(bookmark_interval=0.05) as thread:
        yield thread


def test_our_own_client_binds_and_follows_through_a_kubeconfig(tmp_path: Path) -> None:
    async def story() -> tuple[str, int, list[str]]:
        async with EmbeddedApi() as api:
            file = tmp_path / "config"
            file.write_text(api.kubeconfig())
            connection = connect(file)
            sights: list[WatchEvent] = []
            watching = Watching(connection, sights.extend)
            running = asyncio.create_task(watching.run())
            made = api.store.create("pods", pod("a"), "default")
            try:
                async with asyncio.timeout(200):
                    ended = await Binder(connection).bind(bind_of(made.uid))
                    await until(lambda: watching.synced and any(getattr(one, "node", "") == "n1" for one in sights))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await connection.close()
            return ended.outcome, sum(stats.lists for stats in watching.stats.values()), list(watching.problems)

    outcome, lists, problems = asyncio.run(story())
    assert (outcome, problems) == ("written", [])
    assert lists >= 10


def test_the_kubeconfig_trusts_the_certificate(tmp_path: Path) -> None:
    async def story() -> tuple[int, str]:
        async with EmbeddedApi() as api:
            (tmp_path / "config").write_text(api.kubeconfig())
            connection = connect(tmp_path / "config")
            answer = await connection.call("GET", "/api/v1/namespaces/default")
            await connection.close()
            return answer.status, api.url

    status, url = asyncio.run(story())
    assert status == 200
    assert url.startswith("https://127.0.0.1:")


def test_a_port_in_use_is_reported() -> None:
    async def story() -> None:
        async with EmbeddedApi(tls=False) as api, EmbeddedApi(tls=False, port=api.port):
            pass

    with pytest.raises(InputError, match="choose another port"):
        asyncio.run(story())


def test_the_server_stops_promptly_with_open_watches() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        async with EmbeddedApi(tls=False) as api:
            reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
            head = f"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n"
            writer.write(head.encode())
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            begin = loop.time()
        writer.transport.abort()
        return loop.time() - begin

    assert run_idle(story()) < 1.5


def test_health_and_version_need_no_token(space: Space) -> None:
    stranger = space.api.another("wrong")
    paths = ("/healthz", "/readyz", "/version", "/api", "/api/v1/pods", "/faults", "/openapi/v2")
    assert [stranger.raw("GET", path)[0] for path in paths] == [200, 200, 200, 401, 401, 401, 401]
    stranger.close()


def test_bookmarks_are_sent_to_clients_that_allow_them(space: Space) -> None:
    with space.api.watch("/api/v1/nodes?watch=1&allowWatchBookmarks=true") as lines:
        version = int(space.config("a")["metadata"]["resourceVersion"])
        marks = (line["object"]["metadata"]["resourceVersion"] for line in lines if line["type"] == "BOOKMARK")
        assert any(int(mark) >= version for mark in marks)


def test_the_end_of_the_initial_events_is_marked_on_request(space: Space) -> None:
    space.config("a")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with space.api.watch(f"{space.path('configmaps')}?{query}") as lines:
        first, mark = next(lines), next(lines)
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_of_an_expired_resource_version_ends_with_410(space: Space) -> None:
    with space.api.watch(f"{space.path('configmaps')}?watch=1&resourceVersion=1") as lines:
        last = next(lines)
    assert last["type"] == "ERROR"
    assert (last["object"]["code"], last["object"]["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("body", "kind", "place"),
    [
        (b'{\n "metadata": {"name" "a"}\n}', "application/json", "line 2, column 22"),
        (b"metadata:\n  name: a\n labels: b\n", "application/yaml", "line 3, column 2"),
        (b"metadata: {name: a\n", "application/yaml", "line 2, column 1"),
    ],
)
def test_syntax_errors_have_line_and_column(space: Space, body: bytes, kind: str, place: str) -> None:
    found = space.status("POST", space.path("configmaps"), body, kind)
    assert found["code"] == 400
    assert place in found["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"3", b'"text"', b"null", b"\xff\xfe", b"[" * 5000])
def test_a_body_that_is_not_an_object_is_a_bad_request(space: Space, body: bytes) -> None:
    assert space.status("POST", space.path("configmaps"), body)["code"] == 400


@pytest.mark.parametrize(
    "text", [b"a: &a [1,2]\nb: &b [*a,*a,*a,*a]\nc: [*b]\n" + b"1: x\n", b"- &a [*a]\n", b"!!python/x 1"]
)
def test_yaml_without_a_json_equivalent_is_a_bad_request(space: Space, text: bytes) -> None:
    assert space.status("POST", space.path("configmaps"), text, "application/yaml")["code"] == 400


def test_aggregated_discovery_is_served_on_request(space: Space) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    found = json.loads(space.api.raw("GET", "/apis", accept=accept)[1])
    groups = {group["metadata"]["name"]: group for group in found["items"]}
    (version,) = groups["linkwise.dev"]["versions"]
    assert version["resources"][0]["resource"] == "deviceinventories"
    core = json.loads(space.api.raw("GET", "/api", accept=accept)[1])
    assert "pods" in {found["resource"] for found in core["items"][0]["versions"][0]["resources"]}


def test_openapi_has_a_document_for_every_version(space: Space) -> None:
    for place in space.call("GET", "/openapi/v3")["paths"].values():
        found = space.call("GET", place["serverRelativeURL"])
        assert found["paths"]
        assert all("x-kubernetes-group-version-kind" in one for one in found["components"]["schemas"].values())


def test_an_unsupported_accept_header_is_not_acceptable(space: Space) -> None:
    assert space.api.raw("GET", "/api/v1/pods", accept="text/html")[0] == 406


def test_a_log_request_is_rejected_with_a_message(space: Space) -> None:
    space.make("pods", pod("a"))
    assert "does not have a host assigned" in space.refused("GET", space.path("pods", "a", "log")).message
    space.bind("a")
    assert "containers on simulated nodes do not run" in space.refused("GET", space.path("pods", "a", "log")).message
