"""Entry point of `linkwise`; imports little, so that Ctrl-C during startup exits without a traceback."""

from __future__ import annotations

import signal

__all__ = ["run"]


def run() -> None:
    """Run the command line."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has started, so there is nothing to clean up
    from linkwise.cli.program import run_command  # noqa: PLC0415 - imports click

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()
