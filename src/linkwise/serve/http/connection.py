"""HTTP connections: closed when a request head is late or too large; extender calls are served by a fast path.

uvicorn limits neither the time nor the size of a request head. kube-scheduler makes three calls per pod, and going
through an ASGI application triples the cost of each. The fast path serves plain requests only; all others go through
the application and get the same answers.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from linkwise.errors import NotNowError
from linkwise.serve.http.endpoint import BODY_SECONDS, CLIENT_CLOSED, JSON, MAX_BODY_BYTES, Reply, body_timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from linkwise.serve.http.endpoint import Endpoint

__all__ = ["KEEP_ALIVE", "Connection", "FastConnection"]

KEEP_ALIVE: Final = 120  # seconds; longer than the 90 of Go's clients, so that the client closes idle connections
HEAD_SECONDS: Final = 10.0
"""for a request head to arrive, from its first byte"""
MAX_HEAD_BYTES: Final = 256 << 10
"""kube-scheduler's request heads take a few hundred"""


class Connection(HttpToolsProtocol):
    """One connection; aborted when it stays idle, or when a request head takes too long or is too large."""

    head_seconds: float = HEAD_SECONDS
    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0
    _heads = 0
    """complete heads so far"""

    @property
    def _expects_head(self) -> bool:
        """Whether no request is in progress."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's annotation lacks the None before the first request
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's signature
        """Start the idle timer."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(KEEP_ALIVE, self._abort_if_idle)

    def data_received(self, data: bytes) -> None:
        """Feed bytes to the parser and enforce the limits of the request head."""
        heads, expected_head = self._heads, self._expects_head
        super().data_received(data)
        if not (expected_head and self._expects_head) or self._heads > heads:
            self._cancel_timer()  # a head or a body is complete; the request may even be answered already
            return
        if not self._in_head:
            self._cancel_timer()
            self._in_head = True
            self._timer = self.loop.call_later(self.head_seconds, self._abort_if_idle)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.more_body:  # otherwise these bytes are the rest of an unread body
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._abort_if_idle()

    def on_headers_complete(self) -> None:
        """Count the head."""
        self._heads += 1
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _cancel_timer(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _abort_if_idle(self) -> None:
        if self._expects_head:
            self.transport.abort()


SLOW_PATH_HEADERS: Final = frozenset({b"connection", b"expect", b"transfer-encoding", b"upgrade"})
"""a request with any of these goes through the application"""
_JSON: Final = JSON.encode()
_NO_WAITERS: Final = asyncio.Event()
"""the fast path reads no body in pieces, so nothing waits on this event"""


class _FastRequest:
    """A request on the fast path; has the attributes that uvicorn reads from its own request cycle."""

    __slots__ = ("deadline", "disconnected", "keep_alive", "more_body", "parts", "response_complete", "started", "verb")

    message_event = _NO_WAITERS

    def __init__(self, verb: Endpoint) -> None:
        self.verb, self.started, self.parts = verb, time.perf_counter(), list[bytes]()
        self.more_body = self.keep_alive = True
        self.response_complete = self.disconnected = False
        self.deadline = 0.0  # for the body, on the loop's clock; 0 if the body came with the head


class FastConnection(Connection):
    """A connection that serves endpoints by path, without the application."""

    body_seconds: float = BODY_SECONDS

    def __init__(self, *, verbs: Mapping[bytes, Endpoint], **rest: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**rest)
        self._verbs = verbs
        self._request: _FastRequest | None = None
        """the request whose body is being read"""

    def data_received(self, data: bytes) -> None:
        """Feed bytes to the parser and enforce the time limit of the body."""
        super().data_received(data)
        if self._request is not None and self._timer is None:
            self._request.deadline = self._request.deadline or self.loop.time() + self.body_seconds
            self._timer = self.loop.call_at(self._request.deadline, self._time_out, self._request)

    def on_message_begin(self) -> None:
        """Reset the head; the ASGI scope is built later, for requests that go through the application."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Take the fast path, or pass the head on to uvicorn."""
        if self._heads and self.transport.is_closing():
            self._heads += 1
            return  # no reply could be sent any more
        self._unset_keepalive_if_required()
        verb = self._verbs.get(self.url)
        if verb is None or not self._expects_head or not self._is_plain():
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()
            return
        self._heads += 1
        self._request = _FastRequest(verb)
        self.cycle = self._request  # type: ignore[assignment]  # has every attribute that uvicorn reads

    def _is_plain(self) -> bool:
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1" or self.flow.write_paused:
            return False
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        return (
            headers.keys().isdisjoint(SLOW_PATH_HEADERS)
            and headers.get(b"content-type", _JSON) == _JSON
            and length.isdigit()
            and int(length) <= MAX_BODY_BYTES
        )

    def on_body(self, body: bytes) -> None:
        """Collect a part of the body."""
        if self._request is None:
            super().on_body(body)
        else:
            self._request.parts.append(body)

    def on_message_complete(self) -> None:
        """Call the endpoint with the complete body."""
        request, self._request = self._request, None
        if request is None:
            super().on_message_complete()
            return
        request.more_body = False
        body = request.parts[0] if len(request.parts) == 1 else b"".join(request.parts)
        request.parts.clear()
        try:
            result = request.verb.work(body)
        except Exception as error:  # noqa: BLE001 - `failed` logs it
            self._send(request, request.verb.failed(error))
            return
        if isinstance(result, bytes):
            self._send(request, Reply(result))
            return
        task = self.loop.create_task(self._send_when_done(request, result))
        self.tasks.add(task)  # the server waits for these before it shuts down
        task.add_done_callback(self.tasks.discard)

    async def _send_when_done(self, request: _FastRequest, result: Awaitable[bytes]) -> None:
        try:
            reply = Reply(await result)
        except asyncio.CancelledError:
            error = NotNowError("Linkwise stopped before it could answer; try again")
            self._send(request, request.verb.failed(error))
            raise
        except Exception as error:  # noqa: BLE001 - `failed` logs it
            reply = request.verb.failed(error)
        self._send(request, reply)

    def _send(self, request: _FastRequest, reply: Reply) -> None:
        """Write head and body at once, so that the client wakes up only once."""
        request.verb.count(reply.code, request.started)
        request.response_complete = True
        if request.disconnected or self.transport.is_closing():
            return
        close = "" if request.keep_alive else "connection: close\r\n"
        head = f"content-type: {reply.kind}\r\ncontent-length: {len(reply.body)}\r\n{close}\r\n"
        self.transport.write(STATUS_LINE[reply.code] + head.encode() + reply.body)
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a request whose body never arrived."""
        request, self._request = self._request, None
        if request is not None:
            request.verb.count(CLIENT_CLOSED, request.started)
        super().connection_lost(exc)

    def _time_out(self, request: _FastRequest) -> None:
        """Answer 408 if the body is still incomplete."""
        if self._request is request:
            self._request, request.keep_alive = None, False
            self._send(request, Reply.plain(body_timeout(self.body_seconds), 408))
