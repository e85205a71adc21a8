"""The service proxy: which requests it forwards, as what, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.model.access_policy import Requester
from linkwise.net.http.messages import Response
from support.embedded.conformance import Space
from support.embedded.thread import EmbeddedThread
from support.http_thread import HttpThread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.net.http.messages import Request

PROXY = "/api/v1/namespaces/default/services/echo:web/proxy"


class Echo:
    """Answers with what it was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def handle(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(b"hello " + request.body, 418, "text/x-echo")

    def admit(self, request: Request) -> None:
        del request

    def refuse(self, request: Request, status: int, sentence: str) -> Response:
        del request
        return Response(sentence.encode(), status)


@pytest.fixture
def served() -> Iterator[EmbeddedThread]:
    with EmbeddedThread() as thread:
        yield thread


@pytest.fixture
def echo(space: Space) -> Iterator[Echo]:
    application = Echo()
    with HttpThread(application) as server:
        expose(space, server.port)
        yield application


def expose(space: Space, port: int | None) -> None:
    about: dict[str, Any] = {"apiVersion": "v1", "metadata": {"name": "echo"}}
    space.make("services", {**about, "kind": "Service", "spec": {"ports": [{"name": "web", "port": 80}]}})
    if port is not None:
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "web", "port": port}]}
        space.make("endpoints", {**about, "kind": "Endpoints", "subsets": [subset]})


def test_a_request_is_forwarded_without_the_credentials(space: Space, echo: Echo) -> None:
    answer = space.api.answer("POST", f"{PROXY}/a%20b/c?x=1&y=2", b"world", "text/plain")
    assert (answer.status, answer.body, answer.content_type) == (418, b"hello world", "text/x-echo")
    [asked] = echo.requests
    assert (asked.method, asked.target) == ("POST", b"/a%20b/c?x=1&y=2")
    assert asked.header(b"content-type") == "text/plain"
    assert b"authorization" not in asked.headers


@pytest.mark.parametrize("name", ["echo:80", "echo", "http:echo:web"])
def test_a_port_is_named_counted_or_left_out(space: Space, echo: Echo, name: str) -> None:
    assert space.api.raw("GET", f"/api/v1/namespaces/default/services/{name}/proxy/")[0] == 418
    assert echo.requests[0].target == b"/"


def test_an_unknown_service_is_not_found(space: Space) -> None:
    status = space.status("GET", PROXY)
    assert (status["code"], status["message"]) == (404, 'services "echo" not found')


def test_a_service_without_endpoints_is_unavailable(space: Space) -> None:
    expose(space, None)
    status = space.status("GET", PROXY)
    assert (status["code"], status["message"]) == (503, 'no endpoints available for service "echo"')


def test_a_service_that_does_not_listen_is_unavailable(space: Space) -> None:
    with HttpThread(Echo()) as server:
        expose(space, server.port)
    status = space.status("GET", PROXY)
    assert status["code"] == 503
    assert status["message"].startswith("error trying to reach service: ")


@pytest.mark.usefixtures("echo")
def test_a_tenant_needs_the_right_to_this_port_of_the_service(served: EmbeddedThread, space: Space) -> None:
    token = served.do(lambda server: server.tokens.add(Requester("jane", ("system:authenticated",))))
    jane = space.api.another(token)
    status = Space(jane, "default").status("GET", PROXY)
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert 'cannot get resource "services/proxy" in API group "" in the namespace "default"' in status["message"]
    rules = [{"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": ["echo:web"], "verbs": ["get"]}]
    rbac = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{rbac}/v1", "metadata": {"name": "reach"}}
    reference = {"apiGroup": rbac, "kind": "Role", "name": "reach"}
    subjects = [{"apiGroup": rbac, "kind": "Group", "name": "system:authenticated"}]
    space.make("roles", {**about, "kind": "Role", "rules": rules}, group=f"{rbac}/v1")
    binding = {**about, "kind": "RoleBinding", "roleRef": reference, "subjects": subjects}
    space.make("rolebindings", binding, group=f"{rbac}/v1")
    named = "/api/v1/namespaces/default/services/{}/proxy/"
    assert [jane.raw("GET", named.format(name))[0] for name in ("echo:web", "echo:80", "echo", "http:echo:web")] == [
        *(418, 403, 403, 403)
    ]
    jane.close()
