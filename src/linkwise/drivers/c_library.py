"""C library of a vendor: found, loaded and called through ctypes, with errors of single calls as values."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar, Final

from linkwise.drivers.device_facts import Failure
from linkwise.drivers.host_files import HOST
from linkwise.errors import DriverError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

__all__ = ["MISSING", "CLibrary", "printable"]

MISSING: Final = -1
"""code of a call of a function that the library does not have"""


class CLibrary:
    """A library whose functions return 0 or an error, and write their results through pointers."""

    driver: ClassVar[str]
    """its name in messages"""
    file: ClassVar[str]
    """name by which the dynamic linker finds it"""
    pattern: ClassVar[str]
    """names by which it is found in `folders`"""
    folders: ClassVar[tuple[str, ...]]
    """where it is installed, which the dynamic linker does not search"""
    install: ClassVar[str]
    """what to do if it is not found"""
    integer: ClassVar[type[Any]]
    """type of its errors, and of most numbers"""
    words: ClassVar[Mapping[int, str]]
    """errors by code"""
    dead: ClassVar[Collection[int]]
    """codes with which a device does no work until it is reset or replaced"""
    unsupported: ClassVar[Collection[int]]
    """codes of values that this hardware or driver does not have"""

    def __init__(self, path: str = "", host: Path = HOST) -> None:
        """Load and initialise the library; `path` if it is not where its vendor installs it, below `host`.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        self._functions: Final = self._loaded(path, host)
        self.initialise()

    def initialise(self) -> None:
        """Initialise the library, or initialise it again.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        raise NotImplementedError

    def call(self, function: str, *arguments: object) -> Failure | None:
        """Call a function, which writes its results through pointers among the arguments; its error, if any."""
        called = getattr(self._functions, function, None)
        if called is None:
            return self._failure(MISSING, "this version of the library does not have the function")
        called.restype = self.integer
        code = int(called(*arguments))
        return self._failure(code, self.words.get(code, "")) if code else None

    def number(self, function: str, *arguments: object, kind: type[Any] | None = None) -> int | Failure:
        """The number that a function writes through its last argument."""
        value = (kind or self.integer)(0)
        failure = self.call(function, *arguments, ctypes.byref(value))
        return failure or int(value.value)

    def text(self, function: str, *arguments: object, size: int = 64) -> str | Failure:
        """The text that a function writes into a buffer of this size."""
        buffer = ctypes.create_string_buffer(size)
        return self.call(function, *arguments, buffer, ctypes.c_uint32(size)) or printable(buffer.value)

    def _failure(self, code: int, words: str) -> Failure:
        text = f"{words}, error {code}" if words else f"error {code}"
        return Failure(code, text, dead=code in self.dead, unsupported=code == MISSING or code in self.unsupported)

    def _loaded(self, path: str, host: Path) -> ctypes.CDLL:
        if path:
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                raise DriverError(f"{self.driver}: {path} can't be loaded ({error})") from error
        broken = ""
        for candidate in self._candidates(host):
            try:
                return ctypes.CDLL(candidate)
            except OSError as error:
                broken = broken or ("" if candidate == self.file else f"{candidate} can't be loaded ({error}); ")
        raise DriverError(f"{self.driver}: {broken}{self.file} was not found; {self.install}")

    def _candidates(self, host: Path) -> Iterator[str]:
        yield self.file
        for root in dict.fromkeys((host, HOST)):
            for folder in self.folders:
                yield from (str(file) for file in sorted((root / folder).glob(self.pattern))[:1])


def printable(value: bytes | str) -> str:
    """The text of a C string, without blanks around it and without what can't be printed."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return "".join(letter for letter in text if letter.isprintable() and letter != "\ufffd").strip()
