"""Credentials: the Authorization header from tokens, files and exec plugins, renewed when the API server rejects it."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final

import httpx2
from lightkube.config.client_adapter import user_auth
from lightkube.core.exceptions import ConfigError

from linkwise.errors import ClusterError
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from lightkube.config.models import User

__all__ = ["Credentials"]


PLUGIN_SECONDS: Final = 20.0
"""time limit of a credential plugin; all calls wait for it"""


class Credentials:
    """The Authorization header line; empty with a client certificate or without any credentials."""

    def __init__(self, user: User | None, place: str, timeout: float = PLUGIN_SECONDS) -> None:
        self._place = place
        self._timeout = timeout
        try:
            self._auth = user_auth(user)
        except ConfigError as error:
            raise ClusterError(f"{place}: {error}") from error
        self._line: bytes | None = None if self._auth else b""
        self._lock = asyncio.Lock()
        self._fetching: asyncio.Task[bytes] | None = None

    async def line(self) -> bytes:
        """The header; a plugin runs once for it."""
        if self._line is None:
            async with self._lock:
                if self._line is None:
                    self._line = await self._fetch(rejected=b"")
        return self._line

    async def renew(self, rejected: bytes) -> bool:
        """Fetch a header other than the rejected one; False if there is none."""
        if self._auth is None:
            return False
        async with self._lock:
            if self._line == rejected:
                self._line = await self._fetch(rejected=rejected)
            return self._line != rejected

    async def _fetch(self, rejected: bytes) -> bytes:
        """Fetch within the time limit; a plugin that exceeds it goes on, and later calls wait for the same one."""
        fetching = self._fetching = self._fetching or asyncio.create_task(self._run_auth_flow(rejected))
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(fetching)
        except TimeoutError as error:
            raise NotSentError(f"{self._place}: no credentials within {self._timeout:g} s") from error
        finally:
            if fetching.done():
                self._fetching = None

    async def _run_auth_flow(self, rejected: bytes) -> bytes:
        """Drive lightkube's auth flow: its first header, or the next one after a simulated 401 if that was rejected."""
        if self._auth is None:
            return b""
        request = httpx2.Request("GET", "http://localhost")
        flow = self._auth.async_auth_flow(request)
        try:
            line = _line(await anext(flow))
            if rejected and line == rejected:
                line = _line(await flow.asend(httpx2.Response(401, request=request)))
        except StopAsyncIteration:
            return rejected
        except (ConfigError, OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
            raise NotSentError(f"{self._place}: can't get credentials: {error}") from error
        finally:
            await flow.aclose()
        return line


def _line(request: httpx2.Request) -> bytes:
    value = request.headers.get("Authorization", "")
    if "\r" in value or "\n" in value:
        raise ValueError("the token contains a line break")
    return f"Authorization: {value}\r\n".encode("latin-1") if value else b""
