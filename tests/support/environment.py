"""Process environment, reserved ports and growth measurements for tests."""

from __future__ import annotations

import os
import socket
from time import thread_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMES", "growth", "reserve", "surroundings"]

_OTHERS: Final = ("KUBE", "LINKWISE", "FORCE_COLOR", "NO_COLOR", "TTY_", "LINES")
"""prefixes of variables that select a cluster, settings or a terminal"""


def surroundings() -> dict[str, str]:
    """The environment for programs that tests start, without variables that change their behaviour."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}


def reserve() -> socket.socket:
    """Reserve a port of the loopback until the socket is closed.

    The system assigns that port to no other socket by itself, but a server can still listen on it by number, because this
    socket does not listen.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


TIMES: Final = 10
"""factor between the two sizes"""
_LEAST: Final = 0.05  # seconds; shorter times are noise


def growth(work: Callable[[int], object], size: int) -> float:
    """Ratio of the CPU times for ten times the size: about 10 if the work is linear, up to 100 if it is quadratic.

    CPU time does not depend on other load of the machine.
    """
    small, large = _seconds(work, size // TIMES), _seconds(work, size)
    return large / max(small, _LEAST)


def _seconds(work: Callable[[int], object], size: int) -> float:
    begin = thread_time()
    work(size)
    return thread_time() - begin
