"""Trace of a walk: the modules, functions and frames of a package that a piece of running code passes.

Comprehensions, class bodies and module bodies do not count. Only the thread that traces is seen.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType, FrameType

__all__ = ["Walk", "trace"]

COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(slots=True)
class Walk:
    """What was passed; complete once the trace has ended."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    """file and qualified name"""
    depth: int = 0
    """frames of the package on the stack where it was deepest"""

    @property
    def modules(self) -> set[str]:
        """The files that hold the functions."""
        return {file for file, _ in self.functions}


@contextmanager
def trace(package: Path, *, without: str = "testing") -> Iterator[Walk]:
    """Trace the body of the `with` as far as it runs functions below the folder of a package, but for one subfolder."""
    walk, prefix, left_out = Walk(), f"{package}/", f"{package}/{without}/"

    def counts(code: CodeType) -> bool:
        is_function = bool(code.co_flags & inspect.CO_NEWLOCALS and code.co_flags & inspect.CO_OPTIMIZED)
        inside = code.co_filename.startswith(prefix) and not code.co_filename.startswith(left_out)
        return is_function and inside and code.co_name not in COMPREHENSIONS

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not counts(frame.f_code):
            return
        walk.functions.add((frame.f_code.co_filename.removeprefix(prefix), frame.f_code.co_qualname))
        walk.depth = max(walk.depth, sum(counts(each.f_code) for each in _stack(frame)))

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
