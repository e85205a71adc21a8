"""Client of the service: how it is reached, and what its answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lightkube.config.models import User

from linkwise.assembly.service_client import (
    DEFAULT_SERVICE,
    FIRST_WAIT,
    ServiceClient,
    ServiceRefusedError,
    ServiceUnavailableError,
    parse_service,
)
from linkwise.errors import InputError, NotFoundError
from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.views.blocks import Sentences, encode_page
from linkwise.views.table import Selection
from support.fakes.scripted_api import Reply, ScriptedApi, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOKEN = "s3cret"  # noqa: S105 - of this test
PROXY = "/api/v1/namespaces/linkwise-system/services/https:linkwise:tenants/proxy"
EXPLANATION = f"{PROXY}/v1/namespaces/default/pods/p/explanation"
TABLE = f"{PROXY}/v1/tables/node"
FORBIDDEN = Reply(403, {"kind": "Status", "message": 'services "linkwise:tenants" is forbidden'})
UNAVAILABLE = Reply(503, {"kind": "Status", "message": "server gave HTTP response to HTTPS client"})


def ask(
    work: Callable[[ServiceClient], Awaitable[Any]],
    secured: Reply,
    plain: Reply | None = None,
    path: str = EXPLANATION,
    token: str = TOKEN,
) -> tuple[Any, ScriptedApi]:
    """What the client returns if the API server's proxy answers `secured`, and `plain` without TLS."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[Any, ScriptedApi]:
        api.script(f"GET {path}", secured)
        api.script(f"GET {path.replace('https:', '')}", plain or secured)
        user = Connection(connection.http, Credentials(User(token=token) if token else None, "test"), connection.server)
        return await work(ServiceClient(user, parse_service(DEFAULT_SERVICE), FIRST_WAIT)), api

    return play(scenario)


async def explain(client: ServiceClient) -> Any:  # noqa: ANN401 - a document
    return await client.explanation("pod", "default", "p")


async def nodes(client: ServiceClient) -> Any:  # noqa: ANN401 - a table
    return await client.table(Selection("node"))


def test_the_service_is_asked_through_the_api_server_with_the_token_in_a_header_of_its_own() -> None:
    document = {"code": "NoRoom", "lines": ["pod default/p is pending"], "data": {}}
    shown, api = ask(explain, Reply(200, document))
    assert shown == document
    (request,) = api.requests
    assert request.headers["x-linkwise-token"] == "s3cret"
    assert request.headers["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            FORBIDDEN,
            "you may not get services/proxy of Service linkwise-system/linkwise: ask an administrator to turn on features.tenants",
        ),
        (Reply(404, {"kind": "Status", "message": "not found"}), "there is no Service linkwise-system/linkwise"),
        (Reply(503, {"kind": "Status", "message": "no endpoints"}), "does not answer: no endpoints"),
        (Reply(503, b"the service is still listing"), "the service answered 503: the service is still listing"),
        (Reply(200, b"<html>"), "what answers there is not the service of Linkwise"),
        (Reply(404, b"/v1/namespaces/default/pods/p/explanation not found"), "older than this command"),
    ],
)
def test_a_service_that_cannot_be_asked_is_unavailable(reply: Reply, why: str) -> None:
    with pytest.raises(ServiceUnavailableError, match=why):
        ask(explain, reply)


def test_a_service_that_does_not_answer_in_time_is_unavailable() -> None:
    with pytest.raises(ServiceUnavailableError, match="Service linkwise-system/linkwise does not answer"):
        ask(explain, Reply(ending="silence"))


@pytest.mark.parametrize("secured", [FORBIDDEN, UNAVAILABLE])
def test_a_service_without_tls_is_asked_without_it(secured: Reply) -> None:
    document = {"code": "NoRoom", "lines": [], "data": {}}
    assert ask(explain, secured, Reply(200, document))[0] == document


@pytest.mark.parametrize(
    ("secured", "plain", "why"),
    [
        (UNAVAILABLE, FORBIDDEN, "does not answer: server gave HTTP response to HTTPS client"),
        (FORBIDDEN, FORBIDDEN, "you may not get services/proxy"),
        (FORBIDDEN, Reply(503, {"kind": "Status", "message": "no endpoints"}), "does not answer: no endpoints"),
    ],
)
def test_of_two_failures_the_one_that_helps_is_reported(secured: Reply, plain: Reply, why: str) -> None:
    with pytest.raises(ServiceUnavailableError, match=why):
        ask(explain, secured, plain)


def test_a_user_with_a_client_certificate_is_unknown_to_the_service() -> None:
    with pytest.raises(ServiceUnavailableError, match="it does not know client certificates"):
        ask(explain, Reply(200, {}), token="")


def test_refusals_and_missing_objects_are_distinguished() -> None:
    with pytest.raises(ServiceRefusedError, match="user alice may not get pod default/p"):
        ask(explain, Reply(403, b"user alice may not get pod default/p: ask"))
    with pytest.raises(NotFoundError, match="pod default/p not found"):
        ask(explain, Reply(404, b"pod default/p not found"))
    with pytest.raises(InputError, match="unknown table"):
        ask(explain, Reply(400, b"unknown table"))


@pytest.mark.parametrize(
    "answer", [{}, [], {"columns": [{"name": "a"}], "rows": [{"name": "n", "cells": []}]}, {"columns": 1}]
)
def test_a_table_that_cannot_be_read_counts_as_no_answer(answer: Any) -> None:  # noqa: ANN401 - JSON
    with pytest.raises(ServiceUnavailableError, match="its version may differ"):
        ask(nodes, Reply(200, answer), path=TABLE)


def test_a_node_is_asked_about_as_a_user_of_a_namespace() -> None:
    async def describe(client: ServiceClient) -> Any:  # noqa: ANN401 - a page
        return await client.description("node", "team-a", "a")

    path = f"{PROXY}/v1/nodes/a/description"
    page = ((Sentences(("node a has no devices",)),),)
    shown, api = ask(describe, Reply(200, encode_page(page)), path=path)
    assert (shown, api.requests[0].query) == (page, {"namespace": "team-a"})
    for answer in ({}, {"page": 1}, {"page": [[{"type": "unknown"}]]}):
        with pytest.raises(ServiceUnavailableError, match="its version may differ"):
            ask(describe, Reply(200, answer), path=path)


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
