"""Processes of the test cluster: each in its own process group, with its output in a file, terminated with the cluster.

A reaper terminates them even if the tests are killed: it waits for the end of a pipe that only the tests hold open.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["BedError", "Process", "free_ports", "wait_for"]

T = TypeVar("T")

_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
PORTS: Final = range(20000 + 3000 * _WORKER, 23000 + 3000 * _WORKER)
"""below those that the kernel gives to clients: a client of a server that is down could be given the server's own;
each worker has its own, since between the search and the start of a server another worker could find the same port"""
PAUSE: Final = 0.02  # seconds between two looks
PATIENCE: Final = 10.0  # seconds that a program has to end by itself
TAIL: Final = 25  # lines of what a program said last

_REAPER: Final = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class BedError(Exception):
    """The test cluster, not what is tested, does not work."""


def wait_for(look: Callable[[], T | None], seconds: float = 10.0, what: str = "") -> T:
    """What `look` sees as soon as that is true; AssertionError with what it saw last after so many seconds.

    An AssertionError within `look` counts as not yet, and its text as what was seen.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            seen: object = (found := look())
            if found:
                return found
        except AssertionError as error:
            seen = error
        if time.monotonic() > end:
            name = what or getattr(look, "__name__", "the condition")
            raise AssertionError(f"{name}: not within {seconds:g} s; seen last: {str(seen)[:2000]}")
        time.sleep(PAUSE)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are not in use."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise BedError(f"no {count} ports of {PORTS.start} to {PORTS.stop} are free")


class _Reaper:
    """Ends the process groups it knows as soon as this process is gone."""

    def __init__(self) -> None:
        self._lock, self._process = Lock(), self._started()
        atexit.register(self._close)

    def know(self, group: int) -> None:
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        self._tell(f"-{group}\n")

    @staticmethod
    def _started() -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", "-c", _REAPER]
        return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        with self._lock:
            if pipe is not None and not pipe.closed:
                pipe.write(line)
                pipe.flush()

    def _close(self) -> None:
        with self._lock, self._process:
            pass


_reapers: list[_Reaper] = []
_first: Final = Lock()


def _reaper() -> _Reaper:
    with _first:
        if not _reapers:
            _reapers.append(_Reaper())
    return _reapers[0]


class Process:
    """One program: it can be started, asked to end, killed, and started again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.command, self.folder = name, [str(word) for word in command], folder
        self.environment = environment or {}
        self.log = folder / f"{name}.log"
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._running is not None and self._running.poll() is None

    @property
    def pid(self) -> int:
        """Its process id; BedError if it was never started."""
        if self._running is None:
            raise BedError(f"{self.name} was not started")
        return self._running.pid

    def start(self) -> None:
        """Start it; what it says is added to its log."""
        if self.alive:
            raise BedError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        _reaper().know(self._running.pid)

    def wait_until(self, ready: Callable[[], object], seconds: float) -> None:
        """Wait until it serves; BedError with its last words if it ends or is too late."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.alive:
                raise BedError(f"{self.name} ended with {self._code()}\n{self.tail()}")
            if time.monotonic() > end:
                raise BedError(f"{self.name} is not ready after {seconds:g} s\n{self.tail()}")
            time.sleep(PAUSE)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, seconds: float = PATIENCE) -> int:
        """Ask it to end, kill it if it does not; its exit code, below zero for the signal that ended it."""
        if self._running is None:
            return 0
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._running.wait(seconds)
        return self.kill()

    def kill(self) -> int:
        """End it at once, as a crash would, with whatever it started; its exit code."""
        if self._running is None:
            return 0
        code = self._killed(self._running)
        _reaper().forget(self._running.pid)
        self._running = None
        return code

    def _killed(self, running: subprocess.Popen[bytes]) -> int:
        while True:
            self.signal(signal.SIGKILL)
            try:
                return running.wait(1)
            except subprocess.TimeoutExpired:
                # Seen once with a stopped nsenter: the signal to the group had ended only the program inside.
                running.kill()

    def tail(self, lines: int = TAIL) -> str:
        """What it said last, under the name of the file that has it all."""
        said = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        return "\n".join([f"--- {self.log}", *said])

    def _code(self) -> int | None:
        return self._running.poll() if self._running else None
