"""The way to the API server: found as kubectl finds it, with its certificates and credentials."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import ssl
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib import request
from urllib.parse import unquote, urlsplit

from lightkube.config.client_adapter import verify_cluster
from lightkube.config.models import User

from linkwise import __version__
from linkwise.errors import ClusterError
from linkwise.kube.client.credentials import Credentials
from linkwise.kube.client.kubeconfig import SERVICE_ACCOUNT, find
from linkwise.net.http_client import Answer, Http, Origin, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from linkwise.kube.client.kubeconfig import Found
    from linkwise.net.http_connection import Exchange

__all__ = ["Answer", "Connection", "connect"]

log = logging.getLogger(__name__)

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
_PORTS: Final = {"http": 80, "https": 443}


class Connection:
    """Calls to one API server under one identity.

    `read_anew` tells of another, if what was found at the beginning says so by now; it is asked when the server refuses us.
    """

    def __init__(
        self,
        http: Http,
        credentials: Credentials,
        server: str,
        namespace: str = "default",
        read_anew: Callable[[], tuple[Credentials, Origin] | None] = lambda: None,
    ) -> None:
        self.server: Final = server
        self.namespace: Final = namespace
        """of the context, or of the pod we run in"""
        self.http: Final = http
        self._credentials = credentials
        self._read_anew = read_anew
        self._usual = f"Accept: {JSON}\r\nUser-Agent: linkwise/{__version__}\r\n".encode("ascii")

    async def call(self, method: str, path: str, body: bytes = b"", content: str = JSON, wait: float = 10.0) -> Answer:
        """One request and its answer, whatever its status; ClusterError if there is none."""
        kind = f"Content-Type: {content}\r\n".encode("ascii") if body else b""
        us = self._credentials
        line = await us.line()
        answer = await self.http.call(method, path, self._usual + line + kind, body, wait)
        if answer.status == 401 and await self._renewed(us, line):
            line = await self._credentials.line()
            answer = await self.http.call(method, path, self._usual + line + kind, body, wait)
        return answer

    async def _renewed(self, refused: Credentials, line: bytes) -> bool:
        """Whether it is worth asking again: with another token, or as whom the kubeconfig was rewritten to meanwhile."""
        if refused is not self._credentials or await refused.renewed(line):
            return True
        found = self._read_anew()
        if found is None or refused is not self._credentials:
            return refused is not self._credentials
        log.warning("%s does not know us any more: asking with what the kubeconfig says now", self.server)
        self._credentials, self.http.origin = found
        self.http.drop_idle()  # they may be those of another certificate
        return True

    @asynccontextmanager
    async def stream(self, path: str, wait: float = 10.0) -> AsyncIterator[Exchange]:
        """A GET whose answer comes bit by bit."""
        us = self._credentials
        line = await us.line()
        async with self.http.stream(path, self._usual + line, wait) as exchange:
            if exchange.status == 401:
                await self._renewed(us, line)  # whoever asks again does so with the new one
            yield exchange

    async def close(self) -> None:
        """End all connections."""
        await self.http.close()


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The way to the cluster that is meant; nothing is sent yet. ClusterError says what is wrong with what was found."""
    # rule 002.bare-metal: any API server will do, and nothing else is asked.
    found = find(kubeconfig, context, environ, account)
    user, server = found.config.user or User(), found.config.cluster.server
    origin, known = _origin(found, user, environ), [_who(user)]

    def read_anew() -> tuple[Credentials, Origin] | None:
        try:
            found = find(kubeconfig, context, environ, account)
            user = found.config.user or User()
            if _who(user) == known[0] or found.config.cluster.server != server:
                return None
            made = Credentials(user, found.place), _origin(found, user, environ)
        except ClusterError:
            return None  # it is gone, or just being written
        known[0] = _who(user)
        return made

    return Connection(Http(origin), Credentials(user, found.place), server, found.config.namespace, read_anew)


def _who(user: User) -> tuple[User, *tuple[bytes, ...]]:
    """All that tells who we are: what is written there, and the certificate and key that it names."""
    files = [Path(name) for name in (user.client_cert, user.client_key) if name]
    return (user, *(file.read_bytes() for file in files if file.is_file()))


def _origin(found: Found, user: User, environ: Mapping[str, str] | None) -> Origin:
    server = found.config.cluster.server
    try:
        url = urlsplit(server if "://" in server else f"https://{server}")
        port = url.port or _PORTS[url.scheme]
        host = url.hostname or ""
        server.encode("ascii")
    except (ValueError, KeyError) as error:
        raise ClusterError(f"{found.place}: server {server!r} is no address of http or https") from error
    if not host:
        raise ClusterError(f"{found.place}: server {server!r} names no host")
    tls = None
    if url.scheme == "https":
        try:
            tls = verify_cluster(found.config.cluster, user, found.config.abs_file)
        except (OSError, ssl.SSLError, binascii.Error, ValueError) as error:
            raise ClusterError(f"{found.place}: a certificate or key can't be used: {error}") from error
    proxy = found.proxy or _proxy_for(url.scheme, host, port, environ)
    return Origin(host, port, url.path.rstrip("/"), tls, found.tls_name, _proxy(proxy, found.place) if proxy else None)


def _proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str] | None) -> str:
    """What the environment names, as for kubectl: never for this machine itself."""
    if _is_here(host):
        return ""
    env = os.environ if environ is None else environ
    named = {key.lower(): value for key, value in env.items() if key.lower().endswith("_proxy")}
    proxies = {key.removesuffix("_proxy"): value for key, value in named.items()}
    return "" if request.proxy_bypass(f"{host}:{port}", proxies) else proxies.get(scheme, "")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy(address: str, place: str) -> Proxy:
    url = urlsplit(address if "://" in address else f"http://{address}")
    if url.scheme != "http" or not url.hostname:
        raise ClusterError(f"{place}: proxy {url.scheme}://{url.hostname} can't be used; an http:// proxy can")
    login = ""
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        login = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return Proxy(url.hostname, url.port or _PORTS["http"], login)
