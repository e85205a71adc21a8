"""The time of day as decisions need it: it may leap ahead, but it never goes back.

Promises end by it. Were it set back by an hour, what is held for two seconds would be held for an hour and two seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Steady"]


class Steady:
    """Seconds since the epoch; when the clock of the machine is set back, time passes on from where it was."""

    def __init__(self, day: Callable[[], float] = time.time, passing: Callable[[], float] = time.monotonic) -> None:
        self._day = day
        self._passing = passing
        self._now, self._at = day(), passing()

    def __call__(self) -> float:
        """Now."""
        at = self._passing()
        self._now, self._at = max(self._day(), self._now + at - self._at), at
        return self._now
