"""Web page on a port of this machine: forwards requests to the service with the user's own token, until a signal.

The service is reached as `linkwise explain` reaches it: through the API server, or at an address. Other users of the machine
can't use the token: every address begins with a secret, and a web site that resolves to 127.0.0.1 is refused by its Host.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.assembly.service_client import ServiceClient, ServiceUnavailableError
from linkwise.errors import ClusterError
from linkwise.net.http.messages import Response, passed_on, text
from linkwise.net.http.routes import Route, Routes
from linkwise.net.http.server import Server, listen
from linkwise.serve.explanations.access import is_loopback_host
from linkwise.serve.page.files import page_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from linkwise.assembly.service_client import ServiceAddress
    from linkwise.kube.client.api import Connection
    from linkwise.net.http.messages import Request

__all__ = ["PageProxy", "serve_page"]

PLAN: Final = "v1/page/plan"
STREAM: Final = "v1/page/stream"


def serve_page(
    service: ServiceAddress, port: int, opened: Callable[[str], None], kubeconfig: Path | None, context: str | None
) -> None:
    """Serve the page until SIGINT or SIGTERM; `opened` is called with its address."""

    async def run(connection: Connection) -> None:
        proxy = PageProxy(ServiceClient(connection, service))
        await proxy.check()
        server = Server(proxy.application)
        with contextlib.closing(listen("127.0.0.1", port)) as listener:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, server.stop)
            opened(f"http://127.0.0.1:{listener.getsockname()[1]}{proxy.path}")
            await server.serve(listener)

    with_cluster(kubeconfig, context, run)


class PageProxy:
    """The application of the port."""

    def __init__(self, client: ServiceClient) -> None:
        self._client: Final = client
        self._secret: Final = token_urlsafe(24)
        self.application: Final = Routes(
            [
                Route("POST", f"/{{secret}}/{PLAN}", self._plan, guard=self._guard),
                Route("GET", f"/{{secret}}/{STREAM}", self._stream, guard=self._guard),
                Route("GET", "/{secret}/{rest:path}", self._get, guard=self._guard),
            ]
        )

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/{self._secret}/page/"

    async def check(self) -> None:
        """ServiceUnavailableError if the service does not serve the page to this user."""
        for path in ("/page/", "/v1/page/cluster"):
            answer = await self._client.call("GET", path)
            if answer.status == 200:
                continue
            sentence = answer.body.decode("utf-8", "replace").strip()
            if answer.status == 404 and sentence == f"{path} not found":
                sentence = "it does not serve the page: it is older than this command, or page.enabled is off"
            raise ServiceUnavailableError(f"the service answered {answer.status}: {sentence}")

    def _guard(self, request: Request) -> Response | None:
        if not is_loopback_host(request.header(b"host")):
            return text("the page is served to 127.0.0.1 and localhost only", 403)
        secret = request.path.split("/", 2)[1]
        return None if hmac.compare_digest(secret.encode(), self._secret.encode()) else text("not found", 404)

    async def _get(self, request: Request, variables: Mapping[str, str]) -> Response:
        del variables
        return await self._forward("GET", request)

    async def _plan(self, request: Request, variables: Mapping[str, str]) -> Response:
        del variables
        return await self._forward("POST", request)

    async def _forward(self, method: str, request: Request) -> Response:
        content = request.header(b"content-type")
        try:
            answer = await self._client.call(method, self._target(request), request.body, content)
        except ClusterError as error:
            return text(str(error), 503)
        headers = (("cache-control", "no-cache"), *page_headers(proxied=False))
        return Response(answer.body, answer.status, answer.content_type, headers)

    async def _stream(self, request: Request, variables: Mapping[str, str]) -> Response:
        del variables
        async with contextlib.AsyncExitStack() as stack:
            try:
                exchange = await stack.enter_async_context(self._client.stream(self._target(request)))
                if exchange.status != 200:
                    body = b"".join([part async for part in exchange.chunks()])
                    return Response(body, exchange.status, exchange.content_type)
            except ClusterError as error:
                return text(str(error), 503)
            headers = (("cache-control", "no-store"),)
            stream = passed_on(exchange.chunks(), stack.pop_all())
            return Response(content_type=exchange.content_type, headers=headers, stream=stream)

    def _target(self, request: Request) -> str:
        """The path and query for the service, as they were sent, without the secret."""
        return request.target.decode("latin-1").removeprefix(f"/{self._secret}")
