"""The kubeconfig of `linkwise up --kubeconfig`: private, removed at the end, never written over another file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

__all__ = ["MARK", "check", "remove_kubeconfig", "written_kubeconfig"]

MARK: Final = "# Written by `linkwise up`, which removes it when it ends.\n"


def check(path: Path, *, force: bool) -> None:
    """InputError if the file can't be written, or if it exists and belongs to another program or a running cluster."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: directory {path.parent} does not exist")
    if path.is_dir():
        raise InputError(f"{path} is a directory; specify a file")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: directory {path.parent} is not writable")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file; specify another")
    if force or not os.path.lexists(path):
        return
    if not _is_ours(path):
        raise InputError(
            f"{path} already exists and was not written by `linkwise up`; specify another file or use --force"
        )
    if _is_in_use(path):
        raise InputError(
            f"{path} belongs to another `linkwise up` that is still running; specify another file or use --force"
        )


@contextlib.contextmanager
def written_kubeconfig(path: Path, text: str, *, force: bool = False) -> Iterator[None]:
    """Write the file, and remove it when the `with` ends unless it was replaced."""
    check(path, force=force)  # again: the start of the cluster took a while
    try:
        file = _write(path, MARK + text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    with file:
        try:
            yield
        finally:
            remove_kubeconfig(path, text)


def remove_kubeconfig(path: Path, text: str) -> None:
    """Remove the file if its content is unchanged."""
    with contextlib.suppress(OSError):
        if path.read_text("utf-8", errors="replace") == MARK + text:
            path.unlink()


def _is_ours(path: Path) -> bool:
    """Whether `linkwise up` wrote the file; a dangling link is never ours."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(len(MARK)) == MARK
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _is_in_use(path: Path) -> bool:
    """Whether the writing process is still running: it holds a lock on the file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system has no locks
        return False
    return False


def _write(path: Path, text: str) -> IO[str]:
    """Write the file atomically with mode 0600, as it holds a token; it is locked while open."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    file = os.fdopen(number, "w", encoding="utf-8")
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(text)
        file.flush()
        os.replace(name, path)  # noqa: PTH105 - mkstemp returns a string
    except BaseException:
        os.unlink(name)  # noqa: PTH108 - same
        with contextlib.suppress(OSError):  # closing flushes, which fails again
            file.close()
        raise
    return file
