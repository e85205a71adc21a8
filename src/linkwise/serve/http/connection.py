"""One connection of the HTTP server: whoever does not come to the point is hung up on.

uvicorn waits for the head of a request without end, and reads it however long it is.

Verbs answered where their requests are read.

kube-scheduler asks three times for every pod, and the way through an application costs three times what is needed for
that. Only plain requests are answered here; whatever is unusual about one goes the usual way, with the same answers.
"""
# Joined from caller, direct: one docstring for all.

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from linkwise.errors import NotNowError
from linkwise.serve.http.endpoint import CLOSED, JSON, LARGEST, SLOWEST, Reply, late

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from linkwise.serve.http.endpoint import Endpoint

__all__ = ["KEEP_ALIVE", "Connection", "FastConnection"]

KEEP_ALIVE: Final = 120  # seconds; longer than the 90 of Go's clients, so that they end an idle connection and not we
HEAD: Final = 10.0  # seconds
"""for a head that was begun"""
LARGEST_HEAD: Final = 256 << 10  # bytes
"""kube-scheduler's take a few hundred"""


class Connection(HttpToolsProtocol):
    """Ends a connection on which nothing is asked, or a head that goes on for too long."""

    head_seconds: float = HEAD
    _ending: asyncio.TimerHandle | None = None
    _begun = False
    _head = 0  # bytes
    _heads = 0
    """how many were whole"""

    @property
    def _waits(self) -> bool:
        """Whether the next that must come is a head."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's own type leaves the time before the first out
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody is there."""
        super().connection_made(transport)
        self._ending = self.loop.call_later(KEEP_ALIVE, self._end)

    def data_received(self, data: bytes) -> None:
        """They said something."""
        heads, waited = self._heads, self._waits
        super().data_received(data)
        if not (waited and self._waits) or self._heads > heads:  # a body or a head ended; it may be answered already
            self._listen()
            return
        if not self._begun:
            self._listen()
            self._begun = True
            self._ending = self.loop.call_later(self.head_seconds, self._end)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.more_body:  # else it is what is left of a body that was not read
            self._head += len(data)
        if self._head > LARGEST_HEAD:
            self._end()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._heads += 1
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._listen()
        super().connection_lost(exc)

    def _listen(self) -> None:
        """There is a whole head, or nobody to wait for."""
        self._begun, self._head = False, 0
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        if self._waits:
            self.transport.abort()


UNUSUAL: Final = frozenset({b"connection", b"expect", b"transfer-encoding", b"upgrade"})
"""headers of requests that go the usual way"""
_JSON: Final = JSON.encode()
_NOBODY: Final = asyncio.Event()
"""nobody waits for more of a body here"""


class _Asked:
    """A request that is answered here; uvicorn finds in it what it looks for in one of its own."""

    __slots__ = ("begun", "disconnected", "keep_alive", "more_body", "parts", "response_complete", "until", "verb")

    message_event = _NOBODY

    def __init__(self, verb: Endpoint) -> None:
        self.verb, self.begun, self.parts = verb, time.perf_counter(), list[bytes]()
        self.more_body = self.keep_alive = True
        self.response_complete = self.disconnected = False
        self.until = 0.0  # on the clock of the loop; 0 if the body came with its head


class FastConnection(Connection):
    """Answers verbs by their paths."""

    body_seconds: float = SLOWEST

    def __init__(self, *, verbs: Mapping[bytes, Endpoint], **rest: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**rest)
        self._verbs = verbs
        self._asked: _Asked | None = None
        """whose body is being read"""

    def data_received(self, data: bytes) -> None:
        """They said something."""
        super().data_received(data)
        if self._asked is not None and self._ending is None:
            self._asked.until = self._asked.until or self.loop.time() + self.body_seconds
            self._ending = self.loop.call_at(self._asked.until, self._give_up, self._asked)

    def on_message_begin(self) -> None:
        """Somebody asks; what an application needs to know is made when it is known that one is needed."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """It is known what is asked."""
        if self._heads and self.transport.is_closing():
            self._heads += 1
            return  # it could not be answered any more
        self._unset_keepalive_if_required()
        verb = self._verbs.get(self.url)
        if verb is None or not self._waits or not self._is_plain():
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()
            return
        self._heads += 1
        self._asked = _Asked(verb)
        self.cycle = self._asked  # type: ignore[assignment]  # it has all that is looked for

    def _is_plain(self) -> bool:
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1" or self.flow.write_paused:
            return False
        told = dict(self.headers)
        length = told.get(b"content-length", b"")
        return (
            told.keys().isdisjoint(UNUSUAL)
            and told.get(b"content-type", _JSON) == _JSON
            and length.isdigit()
            and int(length) <= LARGEST
        )

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._asked is None:
            super().on_body(body)
        else:
            self._asked.parts.append(body)

    def on_message_complete(self) -> None:
        """The body is whole."""
        asked, self._asked = self._asked, None
        if asked is None:
            super().on_message_complete()
            return
        asked.more_body = False
        body = asked.parts[0] if len(asked.parts) == 1 else b"".join(asked.parts)
        asked.parts.clear()
        try:
            done = asked.verb.work(body)
        except Exception as error:  # noqa: BLE001 - it is logged there
            self._tell(asked, asked.verb.failed(error))
            return
        if isinstance(done, bytes):
            self._tell(asked, Reply(done))
            return
        task = self.loop.create_task(self._tell_later(asked, done))
        self.tasks.add(task)  # they are waited for before the server ends
        task.add_done_callback(self.tasks.discard)

    async def _tell_later(self, asked: _Asked, done: Awaitable[bytes]) -> None:
        try:
            reply = Reply(await done)
        except asyncio.CancelledError:
            self._tell(asked, asked.verb.failed(NotNowError("Linkwise stopped before it could answer; try again")))
            raise
        except Exception as error:  # noqa: BLE001 - it is logged there
            reply = asked.verb.failed(error)
        self._tell(asked, reply)

    def _tell(self, asked: _Asked, reply: Reply) -> None:
        """Head and body in one piece: the caller wakes up once."""
        asked.verb.count(reply.code, asked.begun)
        asked.response_complete = True
        if asked.disconnected or self.transport.is_closing():
            return
        ending = "" if asked.keep_alive else "connection: close\r\n"
        head = f"content-type: {reply.kind}\r\ncontent-length: {len(reply.body)}\r\n{ending}\r\n"
        self.transport.write(STATUS_LINE[reply.code] + head.encode() + reply.body)
        if not asked.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone, perhaps before all was said."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.verb.count(CLOSED, asked.begun)
        super().connection_lost(exc)

    def _give_up(self, asked: _Asked) -> None:
        """The rest of the body did not come in time."""
        if self._asked is asked:
            self._asked, asked.keep_alive = None, False
            self._tell(asked, Reply.plain(late(self.body_seconds), 408))
