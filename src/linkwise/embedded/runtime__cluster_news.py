"""News of a store for the parts of a cluster that live beside it: a few at a time, so that everybody gets their turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.watches import News
    from linkwise.embedded.store import Store

__all__ = ["follow"]

_AT_ONCE: Final = 64


async def follow(store: Store, kind: str, hear: Callable[[News], None]) -> None:
    """Tell of all objects of a kind, and of all that happens to them, until cancelled."""
    watch = store.watch(kind)
    try:
        while True:
            await watch.wait()
            for news in watch.take(_AT_ONCE):
                hear(news)
            await asyncio.sleep(0)
            if watch.closed and not watch.waiting:
                raise ClusterError(f"{kind} could not be followed: more happened than could be told")
    finally:
        watch.close()
