"""The command line in this process: what a user sees of one command, without a new interpreter per command.

The entry is that of the program, `linkwise.cli.main.run`, so that exit codes and error messages are the real ones. What
needs a process of its own is not for this: signals, closed pipes, terminals, commands at the same time, `linkwise up`,
`serve` and `agent`. `start_linkwise` starts one.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from subprocess import PIPE, CompletedProcess, Popen
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Final

from linkwise.cli.main import run
from support.environment import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from _typeshed import ReadableBuffer

__all__ = ["PLAIN", "run_linkwise", "start_linkwise"]

PLAIN: Final = {"COLUMNS": "80", "NO_COLOR": "1"}
"""variables of a terminal with 80 columns and no colours"""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
_LOGGING: Final = ("logThreads", "logProcesses", "logMultiprocessing", "_srcfile")
"""variables of `logging` that a service sets"""
_TRACEBACK: Final = 1  # exit code of Python after an exception that is not caught


class _Sink(io.RawIOBase):
    """File descriptor of a pipe: bytes arrive when a buffer is flushed, so that two streams mix as they do in a shell."""

    def __init__(self, content: bytearray) -> None:
        super().__init__()
        self._content = content

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        self._content += memoryview(data)
        return memoryview(data).nbytes


class _Logs(logging.Handler):
    """Handler of last resort for the thread of the command; other threads, such as a server's, keep their handlers."""

    def __init__(self, others: list[logging.Handler]) -> None:
        super().__init__(logging.WARNING)
        self._others, self._thread = others, get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if get_ident() == self._thread:
            sys.stderr.write(f"{self.format(record)}\n")
        else:
            for handler in self._others:
                handler.handle(record)


def run_linkwise(
    *words: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    program: str = "linkwise",
    joined: bool = False,
) -> CompletedProcess[str]:
    """Run a command in a folder, with its output in pipes, and restore the state of this process.

    Args:
        words: the arguments
        folder: the working directory
        environment: all variables; by default those of a terminal with 80 columns and no colours
        stdin: what standard input has
        program: the name under which the program is called
        joined: both streams are `stdout`, as with `2>&1`
    """
    out = bytearray()
    errors = out if joined else bytearray()
    variables = surroundings() | PLAIN if environment is None else environment
    with _state(), contextlib.chdir(folder), _environment(variables), _streams(stdin, out, errors):
        sys.argv = [program, *words]
        code = _exit_code()
    return CompletedProcess([program, *words], code, _text(out), "" if joined else _text(errors))


def start_linkwise(*words: str, folder: Path, environment: Mapping[str, str] | None = None) -> Popen[str]:
    """Start a command in a process of its own, with pipes for all three streams."""
    variables = surroundings() | PLAIN if environment is None else environment
    command = [sys.executable, "-m", "linkwise", *words]
    return Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, cwd=folder, env=variables)


def _exit_code() -> int:
    """Run the program; an exception that is not caught prints a traceback, as Python does."""
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except Exception:  # noqa: BLE001 - whatever a bug raises
        traceback.print_exc()
        return _TRACEBACK
    return 0


@contextlib.contextmanager
def _streams(stdin: str, out: bytearray, errors: bytearray) -> Iterator[None]:
    """Standard streams as Python opens them for pipes: output in blocks, errors in lines."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode())), "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Sink(out)), "utf-8")
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(_Sink(errors)), "utf-8", "backslashreplace", line_buffering=True)
    ours = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for stream in ours:
            stream.flush()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Exactly these variables."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(variables)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _state() -> Iterator[None]:
    """The state of a new process where a command depends on it; what a command changes is restored.

    The module `__main__` is empty, as that of the script `linkwise` is, because click derives the program's name from it.
    """
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    argv, entry, collecting, frozen = sys.argv, sys.modules["__main__"], gc.isenabled(), gc.get_freeze_count()
    root, loop_log = logging.getLogger(), logging.getLogger("asyncio")
    levels, variables = (root.level, loop_log.level), {name: getattr(logging, name) for name in _LOGGING}
    disabled = root.manager.disable
    others = root.handlers
    root.handlers, sys.modules["__main__"] = [_Logs(others)], ModuleType("__main__")
    root.setLevel(logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.argv, sys.modules["__main__"], root.handlers = argv, entry, others
        for logger, level in zip((root, loop_log), levels, strict=True):
            logger.setLevel(level)
        for name, value in variables.items():
            setattr(logging, name, value)
        logging.disable(disabled)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if gc.get_freeze_count() != frozen:
            gc.unfreeze()
        if collecting:
            gc.enable()


def _text(content: bytearray) -> str:
    """Text with the line ends of Python, as `subprocess` gives it."""
    return content.decode().replace("\r\n", "\n").replace("\r", "\n")
