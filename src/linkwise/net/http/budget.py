"""Budget of bytes: what all connections of a process may hold of incomplete requests and of responses that are not read.

If it is exceeded, the caller that holds the most loses its largest request. A caller is an IP address. Callers without a
client certificate have half of the budget, so that they never take what certified ones need.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = ["Budget", "Holder"]

LARGE: Final = 8 << 20
"""bytes; the C library keeps what is freed of such requests, unless it is asked to return it"""
TRIM_SECONDS: Final = 1.0
"""from the first of large requests that ended until their memory is returned, so that a series of them is one occasion"""


class Holder(Protocol):
    """A connection."""

    @property
    def client(self) -> str:
        """IP address of the peer."""
        ...

    @property
    def certified(self) -> bool:
        """Whether the client has presented a certificate that the server trusts."""
        ...

    def shed(self) -> None:
        """Give up all bytes, and report that to the budget."""
        ...


@dataclass(slots=True)
class Budget:
    """Counts the bytes of each connection."""

    most: int = 128 << 20
    """bytes; two of the largest requests, each of which takes several times its size while it is answered"""
    most_uncertified: int = 64 << 20
    """bytes of connections without a client certificate"""
    held: int = 0
    """bytes"""
    _uncertified: int = 0
    _holders: dict[Holder, int] = field(default_factory=dict)
    _was_large: bool = False
    _trimming: asyncio.TimerHandle | None = None

    def hold(self, holder: Holder, size: int) -> None:
        """Count the bytes that a connection holds now, and take from the largest holders what exceeds the budget."""
        grown = size - self._holders.pop(holder, 0)
        if size:
            self._holders[holder] = size
        self.held += grown
        if not holder.certified:
            self._uncertified += grown
        self._was_large |= self.held > LARGE
        while self._uncertified > self.most_uncertified or self.held > self.most:
            self._largest().shed()
        if not self.held and self._was_large:
            self._was_large = False
            self._trimming = self._trimming or asyncio.get_running_loop().call_later(TRIM_SECONDS, self._trim)

    def _largest(self) -> Holder:
        """The largest holder of the address that holds the most, among those without a certificate if there are any."""
        holders = [holder for holder in self._holders if not holder.certified] or list(self._holders)
        by_client = Counter[str]()
        for holder in holders:
            by_client[holder.client] += self._holders[holder]
        return max(holders, key=lambda holder: (by_client[holder.client], self._holders[holder]))

    def _trim(self) -> None:
        self._trimming = None
        with suppress(OSError, AttributeError):  # other C libraries return memory by themselves, or never
            ctypes.CDLL(None).malloc_trim(0)
