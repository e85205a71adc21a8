"""The Authorization header: made by the library from tokens, files and plugins, and made anew when the server refuses it."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final

import httpx2
from lightkube.config.client_adapter import user_auth
from lightkube.core.exceptions import ConfigError

from linkwise.errors import ClusterError
from linkwise.net.http_client import NotSentError

if TYPE_CHECKING:
    from lightkube.config.models import User

__all__ = ["Credentials"]


PATIENCE: Final = 20.0  # s
"""for a plugin; all calls wait for it"""


class Credentials:
    """Who we are, as a header line; empty if a certificate tells it, or nothing does."""

    def __init__(self, user: User | None, place: str, patience: float = PATIENCE) -> None:
        self._place = place
        self._patience = patience
        try:
            self._auth = user_auth(user)
        except ConfigError as error:
            raise ClusterError(f"{place}: {error}") from error
        self._line: bytes | None = None if self._auth else b""
        self._lock = asyncio.Lock()
        self._making: asyncio.Task[bytes] | None = None

    async def line(self) -> bytes:
        """The header; a plugin runs once for it."""
        if self._line is None:
            async with self._lock:
                if self._line is None:
                    self._line = await self._made(refused=b"")
        return self._line

    async def renewed(self, refused: bytes) -> bool:
        """Whether there is another header than the one that the server refused."""
        if self._auth is None:
            return False
        async with self._lock:
            if self._line == refused:
                self._line = await self._made(refused=refused)
            return self._line != refused

    async def _made(self, refused: bytes) -> bytes:
        """A header in time; whoever asks after that waits for the same plugin, so that none is started beside it."""
        making = self._making = self._making or asyncio.create_task(self._make(refused))
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(making)
        except TimeoutError as error:
            raise NotSentError(f"{self._place}: the credentials did not come within {self._patience:g} s") from error
        finally:
            if making.done():
                self._making = None

    async def _make(self, refused: bytes) -> bytes:
        """Play the library's part of a request: the first header it has, and if that was refused the next one."""
        if self._auth is None:
            return b""
        request = httpx2.Request("GET", "http://localhost")
        flow = self._auth.async_auth_flow(request)
        try:
            made = _line(await anext(flow))
            if refused and made == refused:
                made = _line(await flow.asend(httpx2.Response(401, request=request)))
        except StopAsyncIteration:
            return refused
        except (ConfigError, OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            raise NotSentError(f"{self._place}: the credentials can't be had: {error}") from error
        finally:
            await flow.aclose()
        return made


def _line(request: httpx2.Request) -> bytes:
    value = request.headers.get("Authorization", "")
    if "\r" in value or "\n" in value:
        raise ValueError("the token holds a line break")
    return f"Authorization: {value}\r\n".encode("latin-1") if value else b""
