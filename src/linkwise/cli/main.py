"""The entry point `linkwise`: light, so that Ctrl-C ends it without a word while everything else is imported."""

from __future__ import annotations

import signal

__all__ = ["run"]


def run() -> None:
    """Run the command line."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing was begun: there is nothing to clear up, nor to trace
    from linkwise.cli.program import run_command  # noqa: PLC0415 - brings click

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()
