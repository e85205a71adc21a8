"""Extender with TLS on a real socket beside an embedded API server, with a clock that the test sets."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.assembly.tls import ExtenderTls
from linkwise.config.settings import TlsSettings
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.kube.client.api import Connection
from linkwise.net.certificates import Certificate
from linkwise.net.http.client import Answer, Http, Origin
from linkwise.net.http.server import Server, listen
from linkwise.serve.app import application
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of
from linkwise.testing.recorder import Recorder
from support.fakes.webhook_service import Clock, bearer
from support.tls_client import trusting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["TlsExtender", "tls_extender"]


@dataclass(slots=True)
class TlsExtender:
    """A running extender."""

    tls: ExtenderTls
    clock: Clock
    api: EmbeddedApi
    counting: Counting
    port: int
    server: Server

    def secret(self, name: str = "linkwise-scheduler-tls") -> dict[str, str]:
        """The texts of a Secret."""
        document = json.loads(self.api.store.get("secrets", name, "linkwise-system").data)
        return {key: base64.b64decode(value).decode() for key, value in document["data"].items()}

    @property
    def client(self) -> Certificate:
        """The client certificate in the Secret for kube-scheduler."""
        return Certificate(self.secret()["tls.crt"], self.secret()["tls.key"])

    async def call(
        self, path: str, certificate: Certificate | None = None, body: object = None, authorities: str = ""
    ) -> Answer:
        """One call on a new connection: POST with a body, else GET."""
        tls = trusting(authorities or self.secret()["ca.crt"], certificate)
        http = Http(Origin("127.0.0.1", self.port, tls=tls))
        method, raw = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
        try:
            return await http.call(method, path, b"Content-Type: application/json\r\n", raw, 10.0)
        finally:
            await http.close()

    def refused(self, reason: str) -> float:
        """How many callers were refused for a reason."""
        return self.counting.registry.get_sample_value("linkwise_tls_refused_total", {"reason": reason}) or 0.0


@asynccontextmanager
async def tls_extender(settings: TlsSettings | None = None) -> AsyncIterator[TlsExtender]:
    """An extender with its certificates and a node called a, for the duration of the `async with`."""
    clock, counting = Clock(), Counting()
    async with EmbeddedApi(tls=False) as api:
        api.store.create("namespaces", {"metadata": {"name": "linkwise-system"}})
        connection = Connection(Http(Origin("127.0.0.1", api.port)), bearer(api.token), api.url)
        tls = ExtenderTls(settings or TlsSettings(enabled=True), connection, counting, clock.timing)
        service = Service(broker_of(FakeNode("a")), Recorder(), counting, clock=lambda: 100.0)
        service.synced = True
        server = Server(application(service, lambda: tls.not_ready, strangers=tls.strangers), tls=tls.context)
        listener = listen("127.0.0.1", 0)
        await server.start(listener)
        keeping = asyncio.create_task(tls.run())
        try:
            while clock.looks == 0 and not keeping.done():  # noqa: ASYNC110 - it sleeps after its first look
                await asyncio.sleep(0.001)
            yield TlsExtender(tls, clock, api, counting, listener.getsockname()[1], server)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await server.close()
            await connection.close()
