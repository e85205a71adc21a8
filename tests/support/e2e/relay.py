"""Relay: passes connections that a listening socket accepts on to a port of the loopback."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Relay"]


class Relay:
    """Accepts connections until it is closed; `target` is called for the port of each."""

    def __init__(self, listener: socket.socket, target: Callable[[], int]) -> None:
        self._listener = listener
        self._target = target
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; connections that are open end with their peers."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=_serve, args=(client, self._target()), daemon=True).start()


def _serve(client: socket.socket, target: int) -> None:
    with client:
        try:
            server = socket.create_connection(("127.0.0.1", target), timeout=5)
        except OSError:
            return
        server.settimeout(None)
        with server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
