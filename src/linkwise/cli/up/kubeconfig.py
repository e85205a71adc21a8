"""A kubeconfig where the user wants it: written for its owner alone, and removed at the end; never over another's."""

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

__all__ = ["MARK", "check", "forget", "kept"]

MARK: Final = "# Written by `linkwise up`, which removes it when it ends.\n"


def check(path: Path, *, force: bool) -> None:
    """InputError if nothing can be written there, or if something is there that is not ours."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{path}: it is a folder; name a file")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: nothing can be written in {path.parent}")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: it is no ordinary file; name another")
    if force or not os.path.lexists(path):
        return
    if not _is_ours(path):
        raise InputError(f"{path} is there, and `linkwise up` did not write it; name another, or say --force")
    if _is_held(path):
        raise InputError(f"{path} is that of another `linkwise up`, which still runs; name another, or say --force")


@contextlib.contextmanager
def kept(path: Path, text: str, *, force: bool = False) -> Iterator[None]:
    """The file for as long as the `with` lasts; another one that took its place meanwhile stays."""
    check(path, force=force)  # again: it took a while to have something to write
    try:
        file = _write(path, MARK + text)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    with file:
        try:
            yield
        finally:
            forget(path, text)


def forget(path: Path, text: str) -> None:
    """Remove the file, if it still is what was written."""
    with contextlib.suppress(OSError):
        if path.read_text("utf-8", errors="replace") == MARK + text:
            path.unlink()


def _is_ours(path: Path) -> bool:
    """Whether `linkwise up` wrote it; a link that leads nowhere is somebody else's."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(len(MARK)) == MARK
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _is_held(path: Path) -> bool:
    """Whether who wrote it still runs: locks end with those who hold them."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks there
        return False
    return False


def _write(path: Path, text: str) -> IO[str]:
    """At once or not at all; only the owner reads it, because it holds a token. It is locked while it is open."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    file = os.fdopen(number, "w", encoding="utf-8")
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(text)
        file.flush()
        os.replace(name, path)  # noqa: PTH105 - a name that mkstemp gave
    except BaseException:
        os.unlink(name)  # noqa: PTH108 - same
        with contextlib.suppress(OSError):  # what could not be written can't be at its end either
            file.close()
        raise
    return file
