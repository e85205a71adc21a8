"""The command of a user with rights in one namespace: what it asks, and what it shows if nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lightkube.config.models import User

from linkwise.assembly.tenant_reader import DEFAULT_SERVICE, TenantReader, parse_service
from linkwise.errors import ClusterError, InputError, NotFoundError
from linkwise.kube.client.api import Connection
from linkwise.kube.client.credentials import Credentials
from linkwise.testing.cluster import device_pod
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.scripted_api import Reply, ScriptedApi, listed, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOKEN = "s3cret"  # noqa: S105 - of this test
SERVICES = "/api/v1/namespaces/linkwise-system/services"
PROXY = f"{SERVICES}/https:linkwise:39999/proxy"
EXPLANATION = f"GET {PROXY}/v1/namespaces/default/pods/p/explanation"
PLAIN = EXPLANATION.replace("https:", "")
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "GET /api/v1/namespaces/default/events"
CONDITION = {
    "type": "linkwise.dev/Schedulable",
    "status": "False",
    "reason": "NoRoom",
    "message": "pod default/p is pending: no room",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
POD: dict[str, Any] = {**pod_object(device_pod("p", 2)), "status": {"phase": "Pending", "conditions": [CONDITION]}}
FORBIDDEN = Reply(403, {"kind": "Status", "message": 'services "linkwise:39999" is forbidden'})


def read(
    work: Callable[[TenantReader], Awaitable[Any]],
    token: str = TOKEN,
    **scripts: Reply,
) -> tuple[Any, ScriptedApi]:
    """What a user reads; `explanation`, `pod`, `pods` and `events` are what the API server answers."""
    paths = {
        "explanation": EXPLANATION,
        "plain": PLAIN,
        "pod": f"GET {PODS}/p",
        "pods": f"GET {PODS}",
        "events": EVENTS,
    }

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[Any, ScriptedApi]:
        for name, reply in scripts.items():
            api.script(paths[name], reply)
        user = Connection(connection.http, Credentials(User(token=token) if token else None, "test"), connection.server)
        return await work(TenantReader(user, parse_service(DEFAULT_SERVICE))), api

    return play(scenario)


def explain(reader: TenantReader) -> Awaitable[Any]:
    return reader.explanation("pod", "default", "p")


def test_the_service_is_asked_through_the_api_server_with_the_token_in_a_header_of_its_own() -> None:
    document = {"code": "NoRoom", "lines": ["pod default/p is pending"], "data": {}}
    (shown, note), api = read(explain, explanation=Reply(200, document))
    assert (shown, note) == (document, "")
    (request,) = api.requests
    assert request.headers["x-linkwise-token"] == "s3cret"
    assert request.headers["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            FORBIDDEN,
            "you may not get services/proxy of Service linkwise-system/linkwise: ask an administrator to apply",
        ),
        (Reply(404, {"kind": "Status", "message": "not found"}), "there is no Service linkwise-system/linkwise"),
        (
            Reply(503, {"kind": "Status", "message": "no endpoints available"}),
            "does not answer: no endpoints available",
        ),
        (
            Reply(503, b"the service is still listing the cluster"),
            "the service answered 503: the service is still listing",
        ),
        (Reply(200, b"<html>"), "what answers there is not the service of Linkwise"),
    ],
)
def test_if_the_service_cannot_be_asked_the_condition_and_events_of_the_pod_are_shown(reply: Reply, why: str) -> None:
    event = {"metadata": {}, "type": "Normal", "reason": "Pending", "message": "no room", "lastTimestamp": "2026"}
    (shown, note), _ = read(explain, explanation=reply, plain=reply, pod=Reply(200, POD), events=listed(event))
    assert shown["code"] == "NoRoom"
    assert shown["lines"] == ["pod default/p is pending: no room", "event Pending: no room"]
    assert note.startswith("only what is published on the pods is shown, because ")
    assert why in note


UNAVAILABLE = Reply(503, {"kind": "Status", "message": "server gave HTTP response to HTTPS client"})


@pytest.mark.parametrize("secured", [FORBIDDEN, UNAVAILABLE])
def test_a_service_without_tls_is_asked_without_it(secured: Reply) -> None:
    document = {"code": "NoRoom", "lines": [], "data": {}}
    (shown, note), _ = read(explain, explanation=secured, plain=Reply(200, document))
    assert (shown, note) == (document, "")


@pytest.mark.parametrize(
    ("secured", "plain", "why"),
    [
        (UNAVAILABLE, FORBIDDEN, "does not answer: server gave HTTP response to HTTPS client"),
        (FORBIDDEN, FORBIDDEN, "you may not get services/proxy"),
        (FORBIDDEN, Reply(503, {"kind": "Status", "message": "no endpoints"}), "does not answer: no endpoints"),
    ],
)
def test_of_two_failures_the_one_that_helps_is_shown(secured: Reply, plain: Reply, why: str) -> None:
    (_, note), _ = read(explain, explanation=secured, plain=plain, pod=Reply(200, POD))
    assert why in note


def test_a_user_with_a_client_certificate_reads_what_is_published() -> None:
    (shown, note), api = read(explain, token="", pod=Reply(200, POD))
    assert shown["lines"] == ["pod default/p is pending: no room"]
    assert "it does not know client certificates" in note
    assert not api.asked("GET", PROXY)


def test_a_refusal_of_the_service_is_final() -> None:
    with pytest.raises(ClusterError, match="user alice may not get pod default/p"):
        read(explain, explanation=Reply(403, b"user alice may not get pod default/p: ask"), pod=Reply(200, POD))
    with pytest.raises(NotFoundError, match="pod default/p not found"):
        read(explain, explanation=Reply(404, b"pod default/p not found"))


def test_without_rights_on_the_pod_the_error_names_the_role() -> None:
    with pytest.raises(ClusterError, match=r"may not read pod default/p: .*ask an administrator for the role view"):
        read(explain, explanation=FORBIDDEN, pod=Reply(403, {"message": "forbidden"}))


def test_pods_are_listed_by_what_is_published_on_them() -> None:
    web = {"metadata": {"name": "web", "namespace": "default", "uid": "w"}, "spec": {"containers": [{"name": "main"}]}}
    (rows, note), _ = read(lambda reader: reader.pods("default"), pods=listed(POD, web))
    ((row, document),) = rows
    assert (row.pod, row.state, row.code, row.why) == ("p", "Pending", "NoRoom", "pod default/p is pending: no room")
    assert document["code"] == "NoRoom"
    assert note


def test_a_group_needs_the_service() -> None:
    with pytest.raises(ClusterError, match="group default/g can't be explained: there is no Service"):
        read(lambda reader: reader.explanation("group", "default", "g"))


def test_the_address_of_the_service_is_a_url_or_a_service() -> None:
    named = parse_service("gpu/scheduler:8080")
    assert (named.namespace, named.name, named.port) == ("gpu", "scheduler", "8080")
    assert parse_service("linkwise") == parse_service(DEFAULT_SERVICE)
    origin = parse_service("http://127.0.0.1:1234").origin
    assert origin is not None
    assert (origin.host, origin.port) == ("127.0.0.1", 1234)
    for text in ("ftp://x", "http://", "A/b", "a/b/c", "http://x:port", "http://10.0.0.7:39999"):
        with pytest.raises(InputError, match="--service"):
            parse_service(text)
