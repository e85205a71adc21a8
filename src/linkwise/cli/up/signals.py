"""Signals that stop `linkwise up`, and their handling while there is nothing to clean up."""

from __future__ import annotations

import os
import signal
from typing import Final

__all__ = ["SECOND_SIGNAL", "STOPPED", "exit_immediately", "handled_signals"]

STOPPED: Final = 0
"""exit code after a signal"""
SECOND_SIGNAL: Final = 130
"""exit code after a second signal"""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handled_signals() -> list[signal.Signals]:
    """The signals that stop the cluster; SIGHUP is excluded if nohup ignores it."""
    return [one for one in _SIGNALS if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


def exit_immediately(code: int) -> None:
    """Exit silently on a signal, where Python would print a traceback: during imports and at the end."""
    for number in handled_signals():
        signal.signal(number, lambda *_: os._exit(code))
