"""The assembled service with TLS, and its port for Volcano, from start to stop."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.assembly.service import Serving
from linkwise.config.settings import HttpSettings, LeaderSettings, ServeSettings, TlsSettings, VolcanoRouteSettings
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.errors import ClusterError
from linkwise.kube.client.api import Connection
from linkwise.net.certificates import Certificate
from linkwise.net.http.client import Answer, Http, Origin
from linkwise.net.http.server import listen
from support.environment import reserve
from support.fakes.webhook_service import bearer
from support.tls_client import trusting

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

PREDICATE = b'{"task": null}'


class Running:
    """A service, and the ports it listens on."""

    def __init__(self, api: EmbeddedApi, port: int, volcano: int) -> None:
        self.api, self.port, self.volcano = api, port, volcano

    def trust(self, *, known: bool) -> ssl.SSLContext:
        """The context of kube-scheduler, or of a client that trusts the service and has no certificate."""
        document = json.loads(self.api.store.get("secrets", "linkwise-scheduler-tls", "linkwise-system").data)
        texts = {key: base64.b64decode(value).decode() for key, value in document["data"].items()}
        return trusting(texts["ca.crt"], Certificate(texts["tls.crt"], texts["tls.key"]) if known else None)


async def call(port: int, path: str, tls: ssl.SSLContext | None = None, body: bytes = b"") -> Answer:
    http = Http(Origin("127.0.0.1", port, tls=tls))
    try:
        return await http.call("POST" if body else "GET", path, body=body)
    finally:
        await http.close()


@asynccontextmanager
async def running(settings: ServeSettings) -> AsyncIterator[Running]:
    async with AsyncExitStack() as stack:
        volcano = int(stack.enter_context(reserve()).getsockname()[1])
        settings = replace(
            settings,
            volcano=VolcanoRouteSettings(port=volcano),
            http=HttpSettings(drain=0.1),
            leader=LeaderSettings(enabled=False),
        )
        api = await stack.enter_async_context(EmbeddedApi(tls=False))
        api.store.create("namespaces", {"metadata": {"name": "linkwise-system"}})
        connection = Connection(Http(Origin("127.0.0.1", api.port)), bearer(api.token), api.url)
        listener = stack.enter_context(closing(listen("127.0.0.1", 0)))
        serving = Serving(settings, connection)
        task = asyncio.create_task(serving.run(listener))
        try:
            async with asyncio.timeout(200):
                while not serving.ready and not task.done():  # noqa: ASYNC110 - it says when it is ready
                    await asyncio.sleep(0.01)
            yield Running(api, listener.getsockname()[1], volcano)
        finally:
            serving.stop()
            await task


def test_volcano_is_answered_without_tls_on_its_port_and_with_a_certificate_on_the_other() -> None:
    async def story() -> None:
        async with running(ServeSettings(tls=TlsSettings(enabled=True))) as service:
            assert (await call(service.volcano, "/volcano/predicate", body=PREDICATE)).status == 200
            assert (await call(service.port, "/volcano/predicate", service.trust(known=False), PREDICATE)).status == 403
            assert (await call(service.port, "/volcano/predicate", service.trust(known=True), PREDICATE)).status == 200

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/filter", "/bind", "/gpushare-scheduler/bind", "/metrics", "/debug/snapshot"])
def test_the_port_of_volcano_serves_its_calls_and_probes_only(path: str) -> None:
    async def story() -> None:
        async with running(ServeSettings()) as service:
            assert (await call(service.volcano, path, body=b"{}")).status == 404
            assert (await call(service.volcano, "/readyz")).body.startswith(b"ok")

    asyncio.run(story())


def test_a_service_with_tls_does_not_answer_without_it_and_stops_with_connections_open() -> None:
    async def story() -> None:
        async with running(ServeSettings(tls=TlsSettings(enabled=True))) as service:
            with pytest.raises(ClusterError):
                await call(service.port, "/livez")
            assert (await call(service.port, "/readyz", service.trust(known=False))).body.startswith(b"ok")
            _, silent = await asyncio.open_connection("127.0.0.1", service.port)
        silent.transport.abort()

    asyncio.run(story())
