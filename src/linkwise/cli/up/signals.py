"""The signals that end `linkwise up`, and what they do while there is nothing to clear up."""

from __future__ import annotations

import os
import signal
from typing import Final

__all__ = ["AT_ONCE", "ENDED", "end_at_once", "heard"]

ENDED: Final = 0
"""how it ends when it is told to"""
AT_ONCE: Final = 130
"""how it ends when it is told to for the second time"""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heard() -> list[signal.Signals]:
    """Those that end it; a terminal that closes does not where nohup started it."""
    return [one for one in _SIGNALS if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


def end_at_once(code: int) -> None:
    """Let them end the process without a word, also where an exception would be told of: within imports, at its end."""
    for number in heard():
        signal.signal(number, lambda *_: os._exit(code))
