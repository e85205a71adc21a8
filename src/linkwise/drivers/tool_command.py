"""Drivers that run the tool of a vendor to its end, and read what it printed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.drivers.host_files import HOST
from linkwise.drivers.known_devices import KnownDevices
from linkwise.errors import DriverError
from linkwise.model.driver import Driver

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Answer", "ToolDriver"]


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


class ToolDriver(Driver):
    """A driver that runs the tool of a vendor; nothing is run before the first discovery."""

    installed: ClassVar[tuple[str, ...]] = ()
    """where the tool is installed, besides PATH"""
    hangs: ClassVar[str]
    """what to check if it does not end"""
    missing: ClassVar[str]
    """what to do if it can't be run"""

    def __init__(self, tool: str = "", *, node: str = "", timeout: float = 30, host: Path = HOST) -> None:
        """Select the tool; `tool` is its path if it is not in PATH."""
        installed = (str(file) for path in self.installed if (file := host / path).exists())
        self._tool: Final = tool or next(installed, self.name)
        self._node: Final = node
        self._timeout: Final = timeout  # seconds
        self._host: Final = host
        self._known: Final = KnownDevices()

    def _run(self, *arguments: str) -> Answer:
        command = " ".join((self._tool, *arguments))
        try:
            done = subprocess.run(  # noqa: S603 - the tool that the administrator chose
                [self._tool, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                timeout=self._timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DriverError(
                f"{self.name}: `{command}` did not end within {self._timeout:g} s; {self.hangs}"
            ) from error
        except OSError as error:
            reason = error.strerror or error
            raise DriverError(f"{self.name}: {self._tool} can't be run ({reason}); {self.missing}") from error
        return Answer(done.returncode, done.stdout.decode("utf-8", "replace"))

    def _failure(self, answer: Answer, *arguments: str) -> str:
        """The sentence about a command that failed."""
        return f"{' '.join((self.name, *arguments))} failed with exit code {answer.code}: {answer.message}"

    def _add(self, texts: dict[str, str], problems: list[str], *arguments: str) -> None:
        """Run a command that adds to the texts by command, or else to the problems."""
        try:
            answer = self._run(*arguments)
        except DriverError as error:
            problems.append(str(error))
            return
        if answer.code:
            problems.append(self._failure(answer, *arguments))
        else:
            texts[" ".join((self.name, *arguments))] = answer.text
