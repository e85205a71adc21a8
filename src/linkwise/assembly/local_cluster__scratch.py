"""A folder for as long as something runs, and those that others left behind when they were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["scratch"]

_PREFIX: Final = "linkwise-up-"
_LOCK: Final = "lock"
_YOUNG: Final = 60.0  # seconds in which a folder may not be locked yet


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder of our own, removed at the end; such folders of processes that are no more are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    _clear(parent, time.time())
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name:
        lock = os.open(Path(name) / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _clear(parent: Path, now: float) -> None:
    """Remove what nobody holds any more; what can't be looked into is somebody else's."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            told = folder.lstat()
            if told.st_uid == os.getuid() and now - told.st_mtime > _YOUNG and _is_left(folder):
                shutil.rmtree(folder)


def _is_left(folder: Path) -> bool:
    """Whether its process has ended: locks end with those who hold them."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
