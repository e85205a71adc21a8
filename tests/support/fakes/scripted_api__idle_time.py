"""An event loop on which time passes only while nobody has anything to do.

What has arrived is read before any time is over. So a machine that is slow, or stops for some seconds, makes nobody
late, and who waits in vain is told so after the time that was set. For stories whose every part runs on this one loop.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["IdleLoop", "run_idle"]

T = TypeVar("T")

_LOOK: Final = 1e-5  # seconds; what a look for news counts, so that those end too who never rest


class _Idle(selectors.DefaultSelector):
    """Counts the seconds in which nothing came."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What came; if that is nothing, the time is over."""
        found = super().select(timeout)
        self.seconds += _LOOK if found or not timeout else timeout
        return found


class IdleLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while there is something to do."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        """Seconds of rest since it was made."""
        return self._idle.seconds


def run_idle(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end on such a loop."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        return runner.run(story)
