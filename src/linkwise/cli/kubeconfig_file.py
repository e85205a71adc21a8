"""A kubeconfig where the user wants it: written for its owner alone, and removed at the end; never over another's."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MARK", "check", "kept"]

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
    if os.path.lexists(path) and not force and not _is_ours(path):
        raise InputError(f"{path} is there, and `linkwise up` did not write it; name another, or say --force")


@contextlib.contextmanager
def kept(path: Path, text: str) -> Iterator[None]:
    """The file for as long as the `with` lasts; another one that took its place meanwhile stays."""
    written = MARK + text
    try:
        _write(path, written)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_text("utf-8") == written:
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


def _write(path: Path, text: str) -> None:
    """At once or not at all; only the owner reads it, because it holds a token."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)  # noqa: PTH105 - a name that mkstemp gave
    except BaseException:
        os.unlink(name)  # noqa: PTH108 - same
        raise
