"""Service on a real socket with a recorder instead of an API server, for tests of its routes."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from linkwise.net.http.client import Origin
from linkwise.net.http.server import Limits, Server, listen
from linkwise.serve.app import application, tenant_application
from linkwise.serve.gauges import Gauges
from linkwise.serve.metrics import Counting
from linkwise.serve.service import ALONE, Service
from linkwise.testing.recorder import Recorder
from support.blocking_http import BlockingHttp

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.service import LeaderStatus

__all__ = ["Reply", "Served"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Served:
    """A service in its own thread, for the duration of the `with`."""

    def __init__(  # noqa: PLR0913 - a builder: everything has a default
        self,
        broker: Broker,
        performer: Recorder | None = None,
        *,
        clock: Callable[[], float] = lambda: 100.0,
        refusal: Callable[[], str] = str,
        leadership: Callable[[], LeaderStatus] = lambda: ALONE,
        synced: bool = True,
        token: str = "",
        limits: Limits | None = None,
        access: Access | None = None,
        tenants: Literal["here", "elsewhere", "alone"] = "here",
    ) -> None:
        self.performer = performer or Recorder()
        self.service = Service(broker, self.performer, Counting(), refusal, clock, leadership=leadership)
        self.service.synced = synced
        self.service.counting.registry.register(Gauges(self.service, dict, dict))
        routes = (
            tenant_application(self.service, access)
            if tenants == "alone"
            else application(self.service, self._waits_for, token=token, access=access, tenants=tenants == "here")
        )
        self._server = Server(routes, limits or Limits())
        self._door = listen("127.0.0.1", 0)
        self.port: int = self._door.getsockname()[1]
        self._http = BlockingHttp(Origin("127.0.0.1", self.port), 100.0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(100)
        self._door.close()
        if self._thread.is_alive():
            raise AssertionError("the server did not end")

    def call(
        self, method: str, path: str, body: bytes | str | object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request; a body other than text is sent as JSON."""
        raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else _json(body)
        answer = self._http.call(method, path, {"Content-Type": "application/json", **(headers or {})}, raw)
        return Reply(answer.status, answer.body)

    def post(self, path: str, body: object) -> Reply:
        """One POST."""
        return self.call("POST", path, body)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """One GET."""
        return self.call("GET", path, None, headers)

    def on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Run a coroutine on the loop of the service and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(100)

    def _waits_for(self) -> Mapping[str, str]:
        return {} if self.service.synced else {"pods": "not listed yet"}

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        work = asyncio.create_task(self.service.run())
        await self._server.serve(self._door)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _json(body: object) -> bytes:
    return b"" if body is None else json.dumps(body).encode()
