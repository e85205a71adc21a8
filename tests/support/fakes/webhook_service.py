"""Assembled webhook on a real TLS socket beside an embedded API server, with a clock that the test sets."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from linkwise.assembly.webhook import WebhookServing
from linkwise.broker.broker import Broker
from linkwise.config.settings import WebhookSettings
from linkwise.embedded.apiserver.server import EmbeddedApi
from linkwise.kube.client.api import Connection
from linkwise.kube.client.kubeconfig import Credentials
from linkwise.net.http.client import Answer, Http, Origin
from linkwise.net.timing import Timing
from linkwise.serve.metrics import Counting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["Clock", "RunningWebhook", "bearer", "running_webhook"]


@dataclass(slots=True)
class Clock:
    """A wall clock that a test sets; who sleeps wakes when the test says so."""

    now: float = field(default_factory=lambda: datetime.now(UTC).timestamp())
    looks: int = 0
    """how often somebody went to sleep"""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def timing(self) -> Timing:
        """The same as `Timing`."""
        return Timing(now=lambda: self.now, sleep=self._sleep)

    async def wake(self) -> None:
        """Let the sleeper go on, and wait until it sleeps again."""
        before = self.looks
        self._woken.set()
        while self.looks == before:  # noqa: ASYNC110 - the condition is the test's own
            await asyncio.sleep(0.001)

    async def _sleep(self, seconds: float) -> None:
        del seconds
        self.looks += 1
        await self._woken.wait()
        self._woken.clear()


@dataclass(slots=True)
class RunningWebhook:
    """A running webhook."""

    serving: WebhookServing
    clock: Clock
    api: EmbeddedApi
    counting: Counting
    broker: Broker

    async def post(self, path: str, body: bytes | object, content: str = "application/json") -> Answer:
        """One call on a new connection, by a client that trusts what the Secret says."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        http = Http(Origin("127.0.0.1", self.serving.port, tls=await self.trust()))
        try:
            return await http.call("POST", path, f"Content-Type: {content}\r\n".encode(), raw, 10.0)
        finally:
            await http.close()

    async def response(self, path: str, body: object) -> dict[str, Any]:
        """The response of a review that is answered."""
        answer = await self.post(path, body)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)["response"]
        return found

    async def trust(self) -> ssl.SSLContext:
        """What a client of the webhook trusts: the authorities in the Secret."""
        secret = json.loads(self.api.store.get("secrets", "linkwise-webhook", "linkwise-system").data)
        return ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())


def bearer(token: str) -> Credentials:
    """Credentials of a token."""
    credentials = Credentials(None, "test")
    credentials._line = f"Authorization: Bearer {token}\r\n".encode()  # noqa: SLF001 - as a kubeconfig would
    return credentials


@asynccontextmanager
async def running_webhook(
    settings: WebhookSettings | None = None, broker: Broker | None = None
) -> AsyncIterator[RunningWebhook]:
    """A webhook that answers, for the duration of the `async with`."""
    wanted = replace(settings or WebhookSettings(), enabled=True, port=0)
    clock, counting, deciding = Clock(), Counting(), broker or Broker()
    async with EmbeddedApi(tls=False) as api:
        api.store.create("namespaces", {"metadata": {"name": "linkwise-system"}})
        connection = Connection(Http(Origin("127.0.0.1", api.port)), bearer(api.token), api.url)
        serving = WebhookServing(wanted, connection, deciding, counting, clock.timing)
        task = asyncio.create_task(serving.run())
        try:
            while clock.looks == 0 and not task.done():  # noqa: ASYNC110 - it sleeps once it serves
                await asyncio.sleep(0.001)
            yield RunningWebhook(serving, clock, api, counting, deciding)
        finally:
            serving.stop()
            await asyncio.gather(task, return_exceptions=True)
            await connection.close()
