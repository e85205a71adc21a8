"""Tests that are coroutines and run beside an agent with settings of their own."""

from __future__ import annotations

import asyncio
import functools
import inspect
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

__all__ = ["beside"]

T = TypeVar("T")


def beside(
    running: Callable[..., AbstractAsyncContextManager[T]],
    settings: dict[str, Any],
    ready: Callable[[T], Awaitable[object]] | None = None,
) -> Callable[[Callable[[T], Awaitable[None]]], Callable[[], None]]:
    """Make a test of a coroutine, which gets what `running` provides in a new folder, once that is ready."""

    def wrap(story: Callable[[T], Awaitable[None]]) -> Callable[[], None]:
        async def play(folder: Path) -> None:
            async with running(folder, **settings) as made:
                if ready:
                    await ready(made)
                await story(made)

        @functools.wraps(story)
        def test() -> None:
            with TemporaryDirectory(prefix="lw") as short:  # unix sockets need short paths
                asyncio.run(play(Path(short)))

        del test.__dict__["__wrapped__"]
        test.__dict__["__signature__"] = inspect.Signature()
        return test

    return wrap
