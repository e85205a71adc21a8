"""A window of the browser with the page, as tests see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.embedded.up_process import TriedCluster

__all__ = ["View", "Window", "page_of"]


@dataclass
class View:
    """A page in a window of its own, and what its console said."""

    page: Any
    """playwright's: it is installed by `make browser` alone, so its types are not known to `make check`"""
    problems: list[str]


Window = Callable[..., AbstractContextManager[View]]


def page_of(running: TriedCluster) -> str:
    """Return the address of the page that `linkwise up` printed."""
    (found,) = {word for word in running.printed.split() if word.endswith("/page/")}
    return found
