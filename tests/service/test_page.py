"""The page over HTTP: documents, changes as they come, files, and who may read what."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.net.http.messages import Request, Response
from linkwise.net.http.routes import Routes
from linkwise.net.timing import Timing
from linkwise.serve.explanations.access import REMEMBERED_SECONDS, Access
from linkwise.serve.metrics import Counting
from linkwise.serve.page.feed import MOST_CHANGES, REFRESH_SECONDS
from linkwise.serve.page.routes import CHECK, HEARTBEAT, MAX_MANIFEST, Page
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.testing.recorder import Recorder
from support.fakes.review_api import ReviewApi

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterator
    from pathlib import Path

USERS = {"s3cret": "alice", "root": "admin", "poor": "bob"}
RIGHTS = {"alice": {("get", "team-a", ""), ("list", "team-a", "")}, "admin": {("get", "", ""), ("list", "", "")}}
ALICE, ADMIN = {"x-linkwise-token": "s3cret"}, {"x-linkwise-token": "root"}
YAML = {"content-type": "application/yaml"}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: team-a}
spec:
  containers:
    - name: main
      resources: {limits: {nvidia.com/gpu: %s}}
"""


@dataclass
class World:
    """A service, its page, and a clock that the test moves."""

    service: Service
    page: Page
    now: list[float] = field(default_factory=lambda: [0.0])

    def request(self, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> Request:
        sent = {"host": "127.0.0.1:1", **headers}
        lines = {name.encode(): value.encode() for name, value in sent.items()}
        return Request(target.encode(), lines, "127.0.0.1", asyncio.Event(), method, body=body)

    async def ask(self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Response:
        answer = Routes(self.page.routes()).handle(self.request(method, target, headers or {}, body))
        return answer if isinstance(answer, Response) else await answer

    async def get(self, target: str, headers: dict[str, str] | None = None) -> Response:
        return await self.ask("GET", target, headers)

    def bind(self, name: str, node: str = "b") -> None:
        """A further pod has a device of a node."""
        place(self.service.broker, device_pod(name, 1, namespace="team-a"), node, 1.0)


@contextmanager
def world(*, local: bool = False, synced: bool = True, files: Path | None = None) -> Iterator[World]:
    """A pod of team-a and one of team-b have devices; another of team-a waits."""
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    place(broker, device_pod("own", 2, namespace="team-a"), "a")
    place(broker, device_pod("rival", 2, namespace="team-b"), "a")
    broker.observe([device_pod("big", 8, namespace="team-a")], 1.0)
    now = [0.0]
    timing = Timing(clock=lambda: now[0], sleep=lambda _: asyncio.sleep(0))
    with ReviewApi(USERS, RIGHTS) as api:
        service = Service(broker, Recorder(), Counting(), clock=lambda: 1.0, timing=timing)
        service.synced = synced
        more = {"files": files} if files else {}
        page = Page(service, Access(api.reviewer(), timing, local=local), root=local, timing=timing, **more)
        yield World(service, page, now)


def run(work: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever the work gives
    async def done() -> Any:  # noqa: ANN401 - same
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(done())


def names(document: dict[str, Any]) -> set[str]:
    return {held["pod"] for node in document["nodes"] for held in node["held"]}


def event(part: bytes) -> tuple[str, Any]:
    kind, _, data = part.decode().partition("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_the_cluster_names_only_pods_that_the_callers_rights_cover() -> None:
    with world() as it:
        alice, admin = (json.loads(run(it.get("/v1/page/cluster", who)).body) for who in (ALICE, ADMIN))
    assert names(alice) == {"team-a/own", ""}
    assert names(admin) == {"team-a/own", "team-b/rival"}
    assert alice["reader"] == {"everywhere": False, "namespaces": ["team-a"]}
    assert alice["totals"]["inUse"] == 4
    assert alice["waiting"][0]["sentence"] == "2 nodes had fewer devices than requested"


@pytest.mark.parametrize(
    "path",
    ["/v1/page/cluster", "/v1/page/stream", "/v1/page/nodes/a", "/v1/page/pods/team-a/own", "/v1/page/groups/team-a/g"],
)
def test_a_caller_without_a_token_gets_401(path: str) -> None:
    with world() as it:
        assert run(it.get(path)).status == 401


def test_a_caller_without_rights_gets_403() -> None:
    bob = {"x-linkwise-token": "poor"}
    with world() as it:
        paths = ("/v1/page/cluster", "/v1/page/stream", "/v1/page/nodes/a", "/v1/page/pods/team-a/own")
        answers = [run(it.get(path, bob)) for path in paths]
        hidden = run(it.get("/v1/page/pods/team-b/rival", ALICE))
    assert {answer.status for answer in (*answers, hidden)} == {403}


def test_objects_that_do_not_exist_get_404_without_other_names() -> None:
    with world() as it:
        paths = ("/v1/page/nodes/x", "/v1/page/pods/team-a/ow", "/v1/page/groups/team-a/x")
        answers = [run(it.get(path, ALICE)) for path in paths]
    assert [answer.status for answer in answers] == [404, 404, 404]
    assert answers[1].body == b"pod team-a/ow not found\n"


def test_until_the_cluster_is_listed_every_route_answers_503() -> None:
    with world(synced=False) as it:
        paths = ("/v1/page/cluster", "/v1/page/stream", "/v1/page/nodes/a")
        answers = [run(it.get(path, ADMIN)) for path in paths]
    assert {answer.status for answer in answers} == {503}
    assert all(b"still listing the cluster" in answer.body for answer in answers)


def test_an_unchanged_cluster_is_not_sent_again_and_can_be_compressed() -> None:
    async def work(it: World) -> tuple[Response, Response, Response]:
        first = await it.get("/v1/page/cluster", ADMIN)
        tag = dict(first.headers)["etag"]
        return (
            first,
            await it.get("/v1/page/cluster", {**ADMIN, "if-none-match": f"W/{tag}"}),
            await it.get("/v1/page/cluster", {**ADMIN, "accept-encoding": "br, gzip"}),
        )

    with world() as it:
        first, second, third = run(work(it))
    assert (second.status, second.body) == (304, b"")
    assert dict(third.headers)["content-encoding"] == "gzip"
    assert gzip.decompress(third.body) == first.body


def test_however_often_it_is_asked_for_the_cluster_is_computed_a_few_times_per_second() -> None:
    async def work(it: World) -> list[str]:
        tags = []
        for seconds in (0.0, 0.0, REFRESH_SECONDS):
            it.now[0] += seconds
            tags.append(dict((await it.get("/v1/page/cluster", ADMIN)).headers)["etag"])
            it.bind(f"more-{len(tags)}")
        return tags

    with world() as it:
        first, second, third = run(work(it))
    assert first == second != third


async def _streamed(it: World, query: str = "", who: dict[str, str] = ADMIN) -> AsyncGenerator[bytes, None]:
    answer = await it.get(f"/v1/page/stream{query}", who)
    assert answer.stream is not None
    return answer.stream


def test_a_stream_begins_with_the_cluster_and_goes_on_with_what_changes() -> None:
    async def work(it: World) -> list[tuple[str, Any]]:
        stream = await _streamed(it)
        first = event(await anext(stream))
        it.bind("more")
        second = event(await anext(stream))
        await stream.aclose()
        return [first, second]

    with world() as it:
        (first, document), (second, change) = run(work(it))
    assert (first, second) == ("cluster", "change")
    assert [node["name"] for node in change["nodes"]] == ["b"]
    assert "team-a/more" in names(change)
    assert change["version"] != document["version"]


def test_a_reader_that_has_the_version_gets_no_document_at_first() -> None:
    async def work(it: World) -> str:
        version = json.loads((await it.get("/v1/page/cluster", ADMIN)).body)["version"]
        stream = await _streamed(it, f"?since={version}")
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        it.bind("more")
        kind, _ = event(await task)
        await stream.aclose()
        return kind

    with world() as it:
        assert run(work(it)) == "change"


def test_a_reader_that_does_not_keep_up_gets_the_whole_document() -> None:
    async def work(it: World) -> list[str]:
        stream = await _streamed(it)
        kinds = [event(await anext(stream))[0]]
        for number in range(MOST_CHANGES + 1):
            it.bind(f"more-{number}", "b") if number < 4 else it.service.observe(
                [device_pod(f"waits-{number}", 8, namespace="team-a")]
            )
            it.now[0] += REFRESH_SECONDS
            await it.get("/v1/page/cluster", ADMIN)
        kinds.append(event(await anext(stream))[0])
        await stream.aclose()
        return kinds

    with world() as it:
        assert run(work(it)) == ["cluster", "cluster"]


def test_a_quiet_stream_has_heartbeats() -> None:
    async def work(it: World) -> bytes:
        stream = await _streamed(it)
        await anext(stream)
        it.now[0] += HEARTBEAT + 1
        part = await anext(stream)
        await stream.aclose()
        return part

    with world() as it:
        assert run(work(it)).startswith(b":")


def test_a_stream_ends_with_bye_when_the_service_stops() -> None:
    async def work(it: World) -> tuple[list[tuple[str, Any]], bool]:
        stream = await _streamed(it)
        await anext(stream)
        it.page.close("the service is stopping")
        parts = [event(part) async for part in stream]
        return parts, it.page.readers > 0

    with world() as it:
        assert run(work(it)) == ([("bye", {"reason": "the service is stopping"})], False)


def test_a_stream_ends_with_bye_when_this_replica_does_not_decide_any_more() -> None:
    async def work(it: World) -> list[tuple[str, Any]]:
        stream = await _streamed(it)
        await anext(stream)
        it.service.synced = False
        return [event(part) async for part in stream]

    with world() as it:
        ((kind, data),) = run(work(it))
    assert (kind, data) == ("bye", {"reason": "Linkwise is still listing the cluster; try again in a moment"})


def test_a_stream_ends_with_bye_when_the_token_is_revoked() -> None:
    async def work(it: World, api_users: dict[str, str]) -> list[tuple[str, Any]]:
        stream = await _streamed(it, who=ALICE)
        await anext(stream)
        del api_users["s3cret"]
        it.now[0] += max(CHECK, REMEMBERED_SECONDS) + 1
        return [event(part) async for part in stream]

    with ReviewApi(USERS, RIGHTS) as api:
        now = [0.0]
        timing = Timing(clock=lambda: now[0], sleep=lambda _: asyncio.sleep(0))
        service = Service(broker_of(FakeNode("a")), Recorder(), Counting(), clock=lambda: 1.0, timing=timing)
        service.synced = True
        place(service.broker, device_pod("own", 1, namespace="team-a"), "a")
        it = World(service, Page(service, Access(api.reviewer(), timing), timing=timing), now)
        ((kind, data),) = run(work(it, api.users))
    assert kind == "bye"
    assert "does not accept the token" in data["reason"]


def test_nothing_is_computed_without_readers() -> None:
    async def work(it: World) -> bool:
        stream = await _streamed(it)
        await anext(stream)
        await stream.aclose()
        while it.page.is_refreshing:  # noqa: ASYNC110 - the test's sleep lets it run
            await asyncio.sleep(0)
        return True

    with world() as it:
        assert run(work(it))


def test_a_plan_has_places_and_creates_nothing() -> None:
    with world() as it:
        answer = run(it.ask("POST", "/v1/page/plan", {**ALICE, **YAML}, (POD % 2).encode()))
        page = json.loads(answer.body)
        assert it.service.broker.find_pod("team-a", "new") == ""
    assert answer.status == 200
    assert [(place["pod"], place["node"], len(place["devices"])) for place in page["places"]] == [
        ("team-a/new", "b", 2)
    ]
    assert "rival" not in answer.body.decode()


def test_each_mistake_of_a_manifest_has_its_line_and_column() -> None:
    body = f"{POD % -3}---\n{(POD % 'two').replace('new', 'other')}".encode()
    with world() as it:
        page = json.loads(run(it.ask("POST", "/v1/page/plan", {**ADMIN, **YAML}, body)).body)
    assert [(one["line"], one["column"]) for one in page["errors"]] == [(7, 28), (15, 28)]
    assert page["places"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff",
        b"[1, 2]",
        b"x: [",
        b"a: &a [*a]",
        b"{" * 5000,
        b"kind: Pod\nmetadata: 3\nspec: []",
        b"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 99999999, template: {spec: {containers: []}}}",
    ],
)
def test_a_body_that_is_no_manifest_is_a_mistake(body: bytes) -> None:
    with world() as it:
        answer = run(it.ask("POST", "/v1/page/plan", {**ADMIN, **YAML}, body))
    page = json.loads(answer.body)
    assert answer.status == 200
    assert page["errors"][0]["sentence"]
    assert page["places"] == []


def test_a_manifest_of_another_content_type_or_size_is_refused_by_its_head() -> None:
    with world() as it:
        form = run(it.ask("POST", "/v1/page/plan", {**ADMIN, "content-type": "text/plain"}, b"x"))
        large = run(it.ask("POST", "/v1/page/plan", {**ADMIN, **YAML, "content-length": str(MAX_MANIFEST + 1)}))
        longer = run(it.ask("POST", "/v1/page/plan", {**ADMIN, **YAML}, b" " * (MAX_MANIFEST + 1)))
    assert (form.status, large.status, longer.status) == (415, 413, 413)


def test_on_the_machine_of_linkwise_up_no_token_is_needed() -> None:
    with world(local=True) as it:
        assert run(it.get("/v1/page/cluster")).status == 200


@pytest.mark.parametrize("host", ["evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_a_site_that_resolves_to_this_machine_is_refused_by_its_host(host: str) -> None:
    with world(local=True) as it:
        assert run(it.get("/v1/page/cluster", {"host": host})).status == 403


def test_a_request_through_a_proxy_needs_a_token_everywhere() -> None:
    with world(local=True) as it:
        assert run(it.get("/v1/page/cluster", {"x-forwarded-for": "10.0.0.1"})).status == 401


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><html><head></head><body></body></html>")
    (tmp_path / "assets/app-1a2b3c4d.js").write_text("run()")
    (tmp_path / "secret.key").write_text("no")
    return tmp_path


def test_addresses_inside_the_page_are_answered_with_the_index_and_where_they_begin(files: Path) -> None:
    with world(files=files) as it:
        bodies = [run(it.get(f"/page/{rest}")).body for rest in ("", "nodes/a", "pods/team-a/own")]
    assert [body.partition(b'<base href="')[2].partition(b'"')[0] for body in bodies] == [b"./", b"../", b"../../"]


def test_an_address_without_a_view_is_answered_with_the_page_which_has_one_for_it(files: Path) -> None:
    with world(files=files) as it:
        answer = run(it.get("/page/other"))
    assert (answer.status, b"<!doctype html>" in answer.body) == (404, True)


def test_an_address_of_an_object_whose_name_has_dots_is_not_taken_for_a_file(files: Path) -> None:
    with world(files=files) as it:
        assert run(it.get("/page/nodes/gpu-1.example.com")).status == 200
        assert run(it.get("/page/other/gpu-1.example.com")).status == 404


def test_hashed_files_are_kept_and_the_index_is_asked_for_again(files: Path) -> None:
    with world(files=files) as it:
        index, asset = (dict(run(it.get(f"/page/{rest}")).headers) for rest in ("", "assets/app-1a2b3c4d.js"))
    assert (index["cache-control"], "immutable" in asset["cache-control"]) == ("no-cache", True)
    assert "default-src 'self'" in index["content-security-policy"]
    assert "frame-ancestors 'none'" in index["content-security-policy"]
    assert asset["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "rest",
    ["../secret.key", "%2e%2e/pyproject.toml", "secret.key", "assets", "assets/", "a//b", "x.js", "nodes/a/b/c/d/e"],
)
def test_only_files_of_the_page_are_served(files: Path, rest: str) -> None:
    with world(files=files) as it:
        assert run(it.get(f"/page/{rest}")).status == 404


def test_the_root_leads_to_the_page_on_a_port_of_its_own() -> None:
    with world(local=True) as it:
        answer = run(it.get("/"))
    assert (answer.status, dict(answer.headers)["location"]) == (302, "page/")
    with world() as it:
        assert run(it.get("/")).status == 404


def test_without_its_files_the_page_says_how_they_are_made(tmp_path: Path) -> None:
    with world(files=tmp_path) as it:
        answer = run(it.get("/page/"))
    assert answer.status == 404
    assert b"make page" in answer.body
