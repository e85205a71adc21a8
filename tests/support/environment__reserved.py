"""A port that is nobody else's for as long as a test wants it, whoever listens on it meanwhile or does not."""

from __future__ import annotations

import socket

__all__ = ["reserve"]


def reserve() -> socket.socket:
    """A socket that holds a port of loopback until it is closed.

    The system gives that port to nobody by itself. Whoever names it may listen there all the same, for this one does not.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
