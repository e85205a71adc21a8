"""HTTP server connection: parses requests with a parser in C, answers them in order, and closes slow connections.

A connection is in one of these states, each but ANSWERING with a deadline:

    IDLE       nothing of the next request has arrived     aborted after `keep_alive`
    HEAD       a part of a request head has arrived        aborted after `head_seconds`
    BODY       the head is complete, the body is not       408 after `body_seconds`
    ANSWERING  a request waits for its response            no deadline; pipelined requests are not read
    STALLED    the client does not read its responses      aborted after `keep_alive`
    CLOSING    the last response was written               aborted if the client neither reads nor closes
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Final, cast

import httptools

from linkwise.net.http.messages import CLIENT_CLOSED, HangUpError, Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from linkwise.net.http.budget import Budget
    from linkwise.net.http.messages import Application

__all__ = ["FAILED", "STOPPED", "Limits", "ServerConnection"]

log: Final = logging.getLogger(__name__)

FAILED: Final = "internal error; see the log of the Linkwise service"
"""the sentence of internal errors"""
STOPPED: Final = "Linkwise stopped before it could answer; try again"
LINGER: Final = (
    2.0  # seconds; without it the client's unread bytes would reset the connection before it reads the answer
)
LINGER_BYTES: Final = 2 << 20
"""of a refused request that are read and dropped meanwhile; a client without rights makes the server read no more"""
OVERLOADED: Final = "the server holds too many bytes of other requests; try again in a moment"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: " for status in HTTPStatus
}
_BODYLESS: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection; the defaults are those of the service."""

    keep_alive: float = 120.0  # seconds; longer than the 90 of Go's clients, so that the client closes idle connections
    head_seconds: float = 10.0
    """for a request head to arrive, from its first byte"""
    body_seconds: float = 10.0
    """for a body to arrive, from the end of its head"""
    drain_seconds: float = 2.0
    """for requests in flight to complete after `stop`"""
    max_head: int = 64 << 10
    """bytes; kube-scheduler's request heads take a few hundred"""
    max_body: int = 64 << 20
    """bytes; five thousand full Node objects take half of it"""
    max_connections: int = 512
    """of the server, those in a TLS handshake included"""


class _State(Enum):
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    ANSWERING = "answering"
    STALLED = "stalled"
    CLOSING = "closing"


_BUSY: Final = (_State.ANSWERING, _State.STALLED)


class ServerConnection(asyncio.Protocol):
    """One connection; the callbacks have the names that asyncio and httptools expect."""

    def __init__(
        self,
        application: Application,
        limits: Limits,
        connections: set[ServerConnection],
        budget: Budget,
        client: str,
    ) -> None:
        self.gone: Final = asyncio.Event()
        """set once the connection is closed"""
        self.client: Final = client
        """IP address of the peer"""
        self.certified = False
        """whether the client has presented a certificate that the server trusts"""
        self._application, self._limits, self._connections, self._budget = application, limits, connections, budget
        self._loop = asyncio.get_running_loop()
        self.opened: Final = self._loop.time()
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._state = _State.IDLE
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0  # of the state, on the loop's clock; the timer may be earlier, never later
        self._draining = False
        # what is being read
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._reading: Request | None = None
        """the request whose body is being received"""
        self._body = BytesIO()
        """what has arrived of the body; grows in place, since joining the parts of a large one would hold the event loop"""
        self._in_head = False
        self._begun = self._completed = False
        """whether a message began, and whether one was completed, since the last bytes arrived"""
        self._bytes = self._body_bytes = 0
        """of the message that is being received; the first counts whatever is not body too"""
        self._unsent = 0
        """bytes of responses, while the client does not read"""
        self._buffered = 0
        """bytes that the budget counts: of an incomplete message, and unsent ones"""
        self._deaf = False
        """whether the rest of the input is ignored"""
        self._ignored = 0
        """bytes of it"""
        # what is being answered
        self._waiting: deque[Request | tuple[Request, Response]] = deque()
        """complete requests, and the one that was refused with its response, in the order of their responses"""
        self._answering: Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        self._can_write = asyncio.Event()
        self._can_write.set()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the idle timer."""
        self._transport = cast("asyncio.Transport", transport)
        self.certified = bool(transport.get_extra_info("peercert"))
        self._connections.add(self)
        self._enter(_State.IDLE, self._limits.keep_alive)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, answer what is complete, and enforce the limits of what is not."""
        if self._deaf:
            self._ignored += len(data)
            if self._ignored > LINGER_BYTES:
                self._transport.pause_reading()
            return
        self._begun = self._completed = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request itself is answered as HTTP/1.1, which is a refusal to upgrade. What follows is not HTTP.
            self._deaf = True
            if self._waiting and isinstance(self._waiting[-1], Request):
                self._waiting[-1].keep_alive = False
        except httptools.HttpParserCallbackError:
            log.exception("reading a request failed")  # a bug of this class, not of the client
            self._transport.abort()
        except httptools.HttpParserError as error:
            if not self._deaf:
                self._refuse(self._reading or self._request(), 400, f"invalid HTTP request: {error}")
        self._check_size(len(data))
        self._answer_next()

    def eof_received(self) -> None:
        """Let the transport close: without its client, a request in flight needs no response."""

    def pause_writing(self) -> None:
        """Answer no more until the client has read."""
        self._can_write.clear()
        self._unsent = self._transport.get_write_buffer_size()
        self._count_bytes()

    def resume_writing(self) -> None:
        """Continue to answer."""
        self._can_write.set()
        self._unsent = 0
        self._count_bytes()
        self._answer_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop streaming, and count a request whose body never arrived."""
        del exc
        self._connections.discard(self)
        self._deaf = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reading is not None:
            reading, self._reading = self._reading, None
            self._application.refuse(reading, CLIENT_CLOSED, "the client closed the connection")
        self._in_head, self._unsent = False, 0
        self._count_bytes()
        if self._streaming and self._task is not None:
            self._cancel(self._task)
        self._can_write.set()
        del self._parser  # it refers to this connection, whose TLS buffers would stay until garbage is collected
        self.gone.set()

    # httptools

    def on_message_begin(self) -> None:
        """Begin a request head."""
        if self._deaf:
            return
        self._target, self._headers, self._in_head, self._begun = b"", {}, True, True

    def on_url(self, url: bytes) -> None:
        """Collect a part of the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers of a chunked body are ignored."""
        if self._in_head:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Check the head; the body follows."""
        self._in_head = False
        if self._deaf:
            return
        request = self._reading = self._request()
        length = self._headers.get(b"content-length", b"")
        if request.version == "1.1" and b"host" not in self._headers:
            self._refuse(request, 400, "invalid HTTP request: it has no Host header")
        elif self._has_body(length) and (refusal := self._application.admit(request)) is not None:
            self._refuse_with(request, refusal)
        elif length.isdigit() and int(length) > self._limits.max_body:
            sentence = f"the request body has {int(length)} bytes; the limit is {self._limits.max_body}"
            self._refuse(request, 413, sentence)
        elif self._expects_continue(request):
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Collect a part of the body."""
        if self._deaf:
            return
        self._body.write(body)
        self._body_bytes += len(body)
        if self._reading and self._body_bytes > self._limits.max_body:
            self._refuse(self._reading, 413, f"the request body exceeds the limit of {self._limits.max_body} bytes")

    def on_message_complete(self) -> None:
        """Queue the request."""
        request, self._reading, self._completed = self._reading, None, True
        if request is None or self._deaf:
            return
        request.body = self._body.getvalue()  # hands over what it holds, without a copy
        request.keep_alive = request.version == "1.1" and self._parser.should_keep_alive()
        self._body, self._bytes, self._body_bytes = BytesIO(), 0, 0
        self._waiting.append(request)
        if not request.keep_alive:
            self._deaf = True  # clients must not send more requests than they announce

    # server

    def close_when_idle(self) -> None:
        """Close after the requests that have begun."""
        self._draining = True
        if self._state is _State.IDLE or self._state is _State.HEAD:
            self._transport.close()

    def give_up(self) -> None:
        """Answer the request in flight with an error, and close."""
        if self._task is not None:
            self._cancel(self._task)
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection without a response."""
        if self._task is not None:
            self._cancel(self._task)
        self._transport.abort()

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task once it has started; before that, the coroutines that it awaits would never be awaited."""
        self._loop.call_soon(task.cancel)

    # requests

    @property
    def is_expendable(self) -> bool:
        """Whether the connection may be closed to make room for another: no certificate, and no request in flight."""
        return not self.certified and not self._is_busy

    @property
    def _is_busy(self) -> bool:
        return self._answering is not None or bool(self._waiting)

    def _has_body(self, length: bytes) -> bool:
        return length not in {b"", b"0"} or b"transfer-encoding" in self._headers

    def _expects_continue(self, request: Request) -> bool:
        """Whether to send 100 Continue; not between the responses to earlier requests: the client waits but a moment."""
        expects = request.headers.get(b"expect", b"").lower() == b"100-continue"
        return expects and request.version == "1.1" and not self._is_busy

    def _request(self) -> Request:
        request = Request(self._target, self._headers, self.client, self.gone)
        request.certified = self.certified
        request.method = self._parser.get_method().decode("ascii", "replace")
        request.version = self._parser.get_http_version()
        return request

    def _refuse(self, request: Request, status: int, sentence: str) -> None:
        """Queue an error, the last response on the connection; the rest of the input is ignored."""
        self._refuse_with(request, self._application.refuse(request, status, sentence))

    def _refuse_with(self, request: Request, response: Response) -> None:
        self._reading, self._deaf = None, True
        self._in_head = False
        self._body = BytesIO()
        self._waiting.append((request, response))

    def shed(self) -> None:
        """Give up the bytes that are held, because the budget is exceeded."""
        if self._reading is not None and not self._unsent:
            self._refuse(self._reading, 503, OVERLOADED)
            self._loop.call_soon(self._answer_next)
        else:
            self._in_head, self._reading, self._unsent = False, None, 0
            self._transport.abort()
        self._count_bytes()

    def _count_bytes(self) -> None:
        """Report to the budget what is held."""
        size = self._unsent + (self._bytes if self._in_head or self._reading else 0)
        if size != self._buffered:
            self._buffered = size
            self._budget.hold(self, size)

    def _check_size(self, size: int) -> None:
        """Abort if a head, or the framing of a chunked body, is too large; count what is not complete."""
        if not (self._in_head or self._reading):
            self._count_bytes()
            return
        if self._begun:
            self._bytes = 0 if self._completed else size
        else:
            self._bytes += size
        # A chunk of one byte takes six, so only what exceeds this is trailers, chunk extensions or a head.
        if self._bytes - self._body_bytes > self._limits.max_head + 8 * self._body_bytes:
            self._transport.abort()
        self._count_bytes()

    def _answer_next(self) -> None:
        """Answer the next request if its turn has come."""
        if self._transport.is_closing():
            return  # no response could be sent any more
        if self._waiting and self._answering is None and self._can_write.is_set():
            self._answer(self._waiting.popleft())
            if self._waiting:  # others get their turn between the requests of one client
                self._loop.call_soon(self._answer_next)
        if not self._transport.is_closing() and self._state is not _State.CLOSING:
            self._update_state()

    def _update_state(self) -> None:
        """Set the state and its deadline, and pause reading while pipelined requests wait."""
        limits, before = self._limits, self._state
        if self._answering is not None or (self._waiting and self._can_write.is_set()):
            state, seconds = _State.ANSWERING, 0.0
        elif self._waiting:
            state, seconds = _State.STALLED, limits.keep_alive
        elif self._reading is not None:
            state, seconds = _State.BODY, limits.body_seconds
        elif self._in_head:
            state, seconds = _State.HEAD, limits.head_seconds
        else:
            state, seconds = _State.IDLE, limits.keep_alive
        if self._begun or state is not before:  # otherwise more of the same message arrived
            self._begun = False
            self._enter(state, seconds)
        if state in _BUSY:
            if self._waiting or self._in_head or self._reading:
                self._transport.pause_reading()
        elif before in _BUSY:
            self._transport.resume_reading()

    def _answer(self, item: Request | tuple[Request, Response]) -> None:
        if not isinstance(item, Request):
            self._send(*item, linger=True)
            return
        try:
            result = self._application.handle(item)
        except HangUpError:
            self._transport.abort()
            return
        except Exception:
            log.exception("%s %s failed", item.method, item.path)
            result = self._application.refuse(item, 500, FAILED)
        if isinstance(result, Response) and result.stream is None:
            self._send(item, result)
            return
        self._answering = item
        self._task = self._loop.create_task(self._answer_later(item, result))

    async def _answer_later(self, request: Request, result: Response | Awaitable[Response]) -> None:
        try:
            response = result if isinstance(result, Response) else await result
            if response.stream is None:
                self._send(request, response)
            else:
                await self._send_stream(request, response, response.stream)
        except HangUpError:
            self._transport.abort()
        except asyncio.CancelledError:
            if not self._streaming:
                request.keep_alive = False
                self._send(request, self._application.refuse(request, 503, STOPPED))
            self._transport.close()
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            if self._streaming:
                self._transport.abort()  # the client must not take what it got for all
            else:
                self._send(request, self._application.refuse(request, 500, FAILED))
        finally:
            self._answering = self._task = None
            self._streaming = False
            self._answer_next()

    # responses

    def _send(self, request: Request, response: Response, *, linger: bool = False) -> None:
        """Write head and body at once, so that the client wakes up only once."""
        if self._transport.is_closing():
            return
        ends = not request.keep_alive or self._draining or response.ends
        length = "" if response.status in _BODYLESS else f"\r\ncontent-length: {len(response.body)}"
        head = self._head(response, length, ends=ends)
        self._transport.write(head if request.method == "HEAD" else head + response.body)
        if ends:
            self._end(linger=linger)

    async def _send_stream(self, request: Request, response: Response, stream: AsyncGenerator[bytes, None]) -> None:
        self._streaming = True
        try:
            chunked = request.version == "1.1"
            request.keep_alive = request.keep_alive and chunked and not response.ends
            framing = "\r\ntransfer-encoding: chunked" if chunked else ""
            self._transport.write(self._head(response, framing, ends=not request.keep_alive))
            if request.method != "HEAD":
                async for part in stream:
                    if part:
                        self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    if not self._can_write.is_set():
                        await self._can_write.wait()
                self._transport.write(b"0\r\n\r\n" if chunked else b"")
        finally:
            await stream.aclose()
        if not request.keep_alive or self._draining:
            self._end(linger=False)

    def _head(self, response: Response, framing: str, *, ends: bool) -> bytes:
        extra = "".join([f"\r\n{name}: {value}" for name, value in response.headers]) if response.headers else ""
        close = "\r\nconnection: close" if ends else ""
        line = _STATUS_LINES.get(response.status) or f"HTTP/1.1 {response.status} Unknown\r\ncontent-type: "
        return f"{line}{response.content_type}{framing}{extra}{close}\r\n\r\n".encode("latin-1")

    def _end(self, *, linger: bool) -> None:
        """Close after the last response; a client that may still be sending gets a moment to read it first."""
        self._deaf = True
        self._waiting.clear()
        self._enter(_State.CLOSING, LINGER if linger else self._limits.keep_alive)
        if linger and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    # deadlines

    def _enter(self, state: _State, seconds: float) -> None:
        """Change the state and set its deadline."""
        self._state, self._deadline = state, self._loop.time() + seconds
        if state is _State.ANSWERING:
            return
        # A timer that is too early is set again when it fires: that is cheaper than a new one for every request.
        if self._timer is None or self._deadline < self._timer.when():
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._state is _State.ANSWERING:
            return  # the state that follows sets a timer
        if self._deadline > self._loop.time():
            self._set_timer()
        elif self._state is _State.BODY and self._reading is not None:
            seconds = self._limits.body_seconds
            self._refuse(self._reading, 408, f"the request body did not arrive within {seconds:g} s")
            self._answer_next()
        else:
            self._transport.abort()
