"""gRPC server on a unix socket, for a plugin that the kubelet calls: device plugins and drivers of claims."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from linkwise.agent.kubelet.messages import Message

__all__ = ["CallError", "Calls", "UnixServer"]

log = logging.getLogger(__name__)

LONGEST_PATH: Final = 107  # bytes of the path of a unix socket
STOP_SECONDS: Final = 2.0


class CallError(LinkwiseError):
    """A call that is refused; the kubelet shows the sentence in an event of the pod."""


class UnixServer:
    """Serves methods on a socket; `start` and `stop` it as often as needed."""

    def __init__(self, socket: Path) -> None:
        self.socket: Final = socket
        self._server: aio.Server | None = None

    @property
    def serving(self) -> bool:
        """Whether the kubelet can reach it: a socket alone may be that of a killed process."""
        return self._server is not None and self.socket.exists()

    @property
    def identity(self) -> object:
        """What tells one start from the next; None while it is stopped."""
        return self._server

    async def start(self, services: Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]) -> None:
        """Listen, with these methods by service; a socket that an earlier process left is replaced."""
        if len(str(self.socket).encode()) > LONGEST_PATH:
            raise LinkwiseError(f"{self.socket}: the path of a unix socket has at most {LONGEST_PATH} bytes")
        _keep_polling()
        with suppress(FileNotFoundError):
            self.socket.unlink()
        self._server = aio.server(options=(("grpc.so_reuseport", 0),))
        self._server.add_generic_rpc_handlers(
            tuple(grpc.method_handlers_generic_handler(name, dict(methods)) for name, methods in services.items())
        )
        self._server.add_insecure_port(f"unix:{self.socket}")
        starting = asyncio.ensure_future(self._server.start())
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # it takes a moment, and a server that is starting can't be stopped
            raise

    async def stop(self, grace: float = STOP_SECONDS, ending: Callable[[], None] = lambda: None) -> None:
        """Stop after open calls have had some seconds, and remove the socket; `ending` is called before."""
        server, self._server = self._server, None
        # gRPC does not always cancel a call that arrives while it stops: streams have to end by themselves.
        ending()
        if server is not None:
            await server.stop(grace)
        with suppress(FileNotFoundError):
            self.socket.unlink()


class Calls:
    """Makes handlers of methods, which parse their requests themselves: gRPC would log a traceback for each invalid one.

    Args:
        subject: what is served, for the log.
        messages: the classes of messages, by name.
        answered: called with the method and the seconds of each answer.
    """

    def __init__(
        self, subject: str, messages: Mapping[str, Any], answered: Callable[[str, float], None] = lambda *_: None
    ) -> None:
        self._subject = subject
        self._messages = messages
        self._answered = answered
        self._unreadable: set[str] = set()
        """kinds of messages of which one could not be read"""

    def unary(
        self, answer: Callable[[Message], Awaitable[Message]], request: str
    ) -> grpc.RpcMethodHandler[bytes, Message]:
        """A method with one request, of this kind, and one response; CallError refuses the call."""

        async def handle(body: bytes, context: aio.ServicerContext[bytes, Message]) -> Message:
            began = time.perf_counter()
            try:
                return await answer(await self._parsed(request, body, context))
            except CallError as error:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            finally:
                self._answered(request.removesuffix("Request"), time.perf_counter() - began)

        return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_encode)

    def stream(
        self, answers: Callable[[Message], AsyncIterator[Message]], request: str
    ) -> grpc.RpcMethodHandler[bytes, Message]:
        """A method with one request, of this kind, and a stream of responses."""

        async def handle(body: bytes, context: aio.ServicerContext[bytes, Message]) -> AsyncIterator[Message]:
            async for each in answers(await self._parsed(request, body, context)):
                yield each

        return grpc.unary_stream_rpc_method_handler(handle, response_serializer=_encode)

    async def _parsed(self, kind: str, body: bytes, context: aio.ServicerContext[bytes, Message]) -> Message:
        try:
            return self._messages[kind].FromString(body)
        except DecodeError as error:
            if kind not in self._unreadable:
                self._unreadable.add(kind)
                log.warning("%s a call can't be read as %s; more of them are not logged", self._subject, kind)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))


def _encode(message: Message) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


@cache
def _keep_polling() -> None:
    """Let gRPC keep its polling thread.

    It ends it with the last server or channel, possibly in a garbage collection, and waits there until all calls are
    completed. Those of an event loop that is closed never are.
    """
    aio.init_grpc_aio()
