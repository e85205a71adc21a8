"""The environment that tests give to programs: that of whoever runs them, without what would change what is shown.

A port that is nobody else's for as long as a test wants it, whoever listens on it meanwhile or does not.

How work grows with what it is done on, in seconds of the processor: a machine that is busy or slow tells the same.
"""
# Joined from surroundings, reserved, growth: one docstring for all.

from __future__ import annotations

import os
import socket
from time import thread_time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMES", "growth", "reserve", "surroundings"]

_OTHERS: Final = ("KUBE", "LINKWISE", "FORCE_COLOR", "NO_COLOR", "TTY_", "LINES")
"""clusters, settings and terminals of somebody else"""


def surroundings() -> dict[str, str]:
    """All variables but those."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}


def reserve() -> socket.socket:
    """A socket that holds a port of loopback until it is closed.

    The system gives that port to nobody by itself. Whoever names it may listen there all the same, for this one does not.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


TIMES: Final = 10
"""as much is done the second time"""
_LEAST: Final = 0.05  # seconds; less is told by chance


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long it takes for ten times the size: about 10 where each piece costs the same, else up to 100."""
    small, large = _seconds(work, size // TIMES), _seconds(work, size)
    return large / max(small, _LEAST)


def _seconds(work: Callable[[int], object], size: int) -> float:
    begin = thread_time()
    work(size)
    return thread_time() - begin
