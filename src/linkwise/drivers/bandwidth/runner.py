"""Bandwidth test: runs nvbandwidth or p2pBandwidthLatencyTest on some devices, with a time limit.

The program is the leader of a process group, which is killed as a whole: at the limit, when the run is interrupted, and
after it has ended. The kernel kills the program if this process dies.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from linkwise.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BandwidthTest", "Interruption", "find_test", "run_test"]

TESTS: Final = {"nvbandwidth": ("-t", "device_to_device_memcpy_write_ce"), "p2pBandwidthLatencyTest": ()}
"""arguments by the name of the program, the preferred one first"""
LARGEST: Final = 4 * 1024 * 1024  # bytes of output
TICK: Final = 1.0  # seconds between reports of progress
_PR_SET_PDEATHSIG: Final = 1
_LINE: Final = 120
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class BandwidthTest(NamedTuple):
    """The program and its arguments."""

    program: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        """As a shell has it."""
        return " ".join((self.program, *self.arguments))


class Interruption(Protocol):
    """Something that may end a run: a descriptor that becomes readable, and then the reason."""

    def fileno(self) -> int:
        """The descriptor to watch; the program inherits it."""
        ...

    def revoked(self) -> str:
        """Why the run must end, once the descriptor is readable; empty if it may go on."""
        ...


def find_test(tool: str = "") -> BandwidthTest:
    """The test at that path or of that name; by default the first in PATH. DriverError if there is none."""
    names = [tool] if tool else list(TESTS)
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        wanted = f"{tool} can't be run" if tool else f"neither {' nor '.join(TESTS)} is in PATH"
        raise DriverError(f"{wanted}; give the path of one of them with --tool, or import its output with --from")
    name = next((name for name in TESTS if name.lower() in Path(found).name.lower()), "")
    return BandwidthTest(found, TESTS.get(name, ()))


def run_test(  # noqa: PLR0913 - each has its own reason
    command: BandwidthTest,
    devices: Sequence[str],
    *,
    timeout: float,
    interruption: Interruption,
    inherited: Sequence[int] = (),
    progress: Callable[[float, str], None] = lambda *_: None,
) -> str:
    """Run the test and return its output; its rows are the devices in this order.

    Args:
        command: the program.
        devices: UUIDs.
        timeout: seconds until it is killed.
        interruption: kills it earlier.
        inherited: further descriptors that the program keeps open.
        progress: called every second with the seconds so far and the last line that was printed.

    Raises:
        DriverError: it can't be run, fails, is interrupted, or does not end in time.
    """
    variables = {"CUDA_VISIBLE_DEVICES": ",".join(devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(  # noqa: S603 - the tool that the administrator chose
            [command.program, *command.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
            pass_fds=(interruption.fileno(), *inherited),
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it only makes one system call
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DriverError(f"{command.program} can't be run ({reason}); check the path and its permissions") from error
    try:
        output = _collected(process, command, timeout, interruption, progress)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # before the leader is reaped: its number can't be another's
        code = process.wait()
        if process.stdout:
            process.stdout.close()
    text = output.decode("utf-8", "replace")
    if code:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
        raise DriverError(f"`{command}` failed with exit code {code}: {last[:200]}")
    return text


def _collected(
    process: subprocess.Popen[bytes],
    command: BandwidthTest,
    timeout: float,
    interruption: Interruption,
    progress: Callable[[float, str], None],
) -> bytes:
    """The output of the program until it exits; it is not reaped."""
    began, output = time.monotonic(), b""
    stream = process.stdout.fileno() if process.stdout else -1
    watched = [stream, interruption.fileno()]
    while not _has_exited(process.pid):
        seconds = time.monotonic() - began
        if seconds >= timeout:
            raise DriverError(
                f"`{command}` did not end within {timeout:g} s and was killed; a GPU may hang, see `dmesg`"
            )
        readable, _, _ = select.select(watched, [], [], min(TICK, timeout - seconds))
        if interruption.fileno() in readable and (why := interruption.revoked()):
            raise DriverError(f"the measurement was stopped: {why}")
        if stream in readable:
            data = os.read(stream, 65536)
            output += data
            if not data:
                watched.remove(stream)  # it has closed its output, and may run on
        if len(output) > LARGEST:
            raise DriverError(
                f"`{command}` printed more than {LARGEST} bytes and was killed; it is not a bandwidth test"
            )
        lines = output[-2000:].decode("utf-8", "replace").splitlines()
        progress(seconds, next((line.strip()[:_LINE] for line in reversed(lines) if line.strip()), ""))
    return output + _rest(stream) if stream in watched else output


def _rest(stream: int) -> bytes:
    """What an exited program has left in the pipe; a process that it started may keep the pipe open."""
    rest = b""
    while len(rest) <= LARGEST and select.select([stream], [], [], 0)[0] and (data := os.read(stream, 65536)):
        rest += data
    return rest


def _has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
