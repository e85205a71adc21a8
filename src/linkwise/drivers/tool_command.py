"""Command of a vendor's tool: run it to its end, and return what it printed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkwise.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Answer", "run_tool"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool printed, and its exit code."""

    code: int
    text: str
    """both streams: tools write messages about single devices between the rows"""

    @property
    def message(self) -> str:
        """Its first line, for a person."""
        lines = (line.strip() for line in self.text.splitlines())
        return next((line[:200] for line in lines if line), "no output")


def run_tool(  # noqa: PLR0913 - the sentences of each vendor's tool
    name: str, tool: str, arguments: Sequence[str], *, timeout: float, hangs: str, missing: str
) -> Answer:
    """Run a tool.

    Args:
        name: of the driver, for errors.
        tool: its path, or its name in PATH.
        arguments: of the command.
        timeout: seconds until it is ended.
        hangs: what to check if it does not end.
        missing: what to do if it can't be run.

    Raises:
        DriverError: it can't be run, or does not end in time.
    """
    command = " ".join((tool, *arguments))
    try:
        done = subprocess.run(  # noqa: S603 - the tool that the administrator chose
            [tool, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DriverError(f"{name}: `{command}` did not end within {timeout:g} s; {hangs}") from error
    except OSError as error:
        raise DriverError(f"{name}: {tool} can't be run ({error.strerror or error}); {missing}") from error
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"))
