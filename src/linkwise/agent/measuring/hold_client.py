"""Hold client: a measurement's connection to the agent of its node. The hold lasts as long as the connection is open."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError
from linkwise.wire.hold_messages import LONGEST_LINE, HoldReply, HoldRequest, decode_reply, encode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["HoldConnection", "hold_devices", "idle_devices"]

ANSWER_SECONDS: Final = 60.0
"""for the agent to hold the devices or to refuse"""


class HoldConnection:
    """The connection of a hold; processes that inherit it prolong the hold until they end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket: Final = connection
        self._buffer = b""
        self.devices: tuple[str, ...] = ()
        """UUIDs of the devices held"""

    def fileno(self) -> int:
        """The descriptor, for `select` and for processes that inherit it."""
        return self._socket.fileno()

    def revoked(self) -> str:
        """Why the devices must be left, after the connection has become readable; empty if they need not be."""
        reply = self.receive()
        return (reply.sentence or "the agent needs the devices") if reply.state == "revoked" else ""

    def send(self, request: HoldRequest) -> None:
        """Send a request."""
        self._socket.sendall(encode_line(request))

    def receive(self) -> HoldReply:
        """The next answer; a connection that the agent has closed revokes the hold."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                raise ClusterError(f"the agent did not answer within {ANSWER_SECONDS:g} s; see its log") from None
            except OSError:
                data = b""
            if not data or len(self._buffer) > LONGEST_LINE:
                return HoldReply("revoked", "the agent has closed the connection; see its log")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return decode_reply(line)


@contextmanager
def hold_devices(path: Path, request: HoldRequest, waiting: Callable[[str], None]) -> Iterator[HoldConnection]:
    """Hold devices until the end of the block; ClusterError if the agent refuses or does not answer."""
    with closing(_connected(path)) as connection:
        hold = HoldConnection(connection)
        hold.send(request)
        while (reply := hold.receive()).state == "waiting":
            waiting(reply.sentence)
        if reply.state not in {"held", "idle"}:
            raise ClusterError(f"the agent refused to hold the devices: {reply.sentence}")
        hold.devices = tuple(reply.devices)
        yield hold


def idle_devices(path: Path, request: HoldRequest) -> tuple[str, ...]:
    """The devices that a request would hold now; ClusterError if it would be refused."""
    request.dry_run = True
    with hold_devices(path, request, lambda _: None) as hold:
        return hold.devices


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_SECONDS)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise ClusterError(
            f"{path}: {error.strerror or error}; the devices are held by the agent of this node: run `linkwise agent`"
        ) from error
    return connection
