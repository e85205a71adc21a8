"""API server connection: located as kubectl locates it, with its certificates, credentials and proxies."""

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
from linkwise.kube.client.kubeconfig import SERVICE_ACCOUNT, Credentials, find
from linkwise.net.http.client import Answer, Http, Origin, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from linkwise.kube.client.kubeconfig import ClusterConfig
    from linkwise.net.http.client import Exchange

__all__ = ["Answer", "Connection", "FencedConnection", "connect", "is_loopback"]

log = logging.getLogger(__name__)

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_PORTS: Final = {"http": 80, "https": 443}


class Connection:
    """Calls to one API server under one identity.

    `reload` returns the identity of a kubeconfig that was rewritten in the meantime; it is called on 401 Unauthorized.
    """

    def __init__(
        self,
        http: Http,
        credentials: Credentials,
        server: str,
        namespace: str = "default",
        reload: Callable[[], tuple[Credentials, Origin] | None] = lambda: None,
    ) -> None:
        self.server: Final = server
        self.namespace: Final = namespace
        """of the kubeconfig context, or of this pod"""
        self.http: Final = http
        self._credentials = credentials
        self._reload = reload
        self._headers = f"Accept: {JSON}\r\nUser-Agent: linkwise/{__version__}\r\n".encode("ascii")

    async def call(  # noqa: PLR0913 - a request has that many parts
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = JSON,
        wait: float = 10.0,
        *,
        headers: bytes = b"",
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request and return its response, whatever the status; ClusterError without a response.

        `headers` are further lines that end with CRLF. `guard` is called immediately before the request is sent.
        """
        content_type = headers + (f"Content-Type: {content}\r\n".encode("ascii") if body else b"")
        credentials = self._credentials
        authorization = await credentials.line()
        lines = self._headers + authorization + content_type
        answer = await self.http.call(method, path, lines, body, wait, guard=guard)
        if answer.status == 401 and await self._renew(credentials, authorization):
            lines = self._headers + await self._credentials.line() + content_type
            answer = await self.http.call(method, path, lines, body, wait, guard=guard)
        return answer

    async def token(self) -> str:
        """The bearer token of the identity; empty for a client certificate, or another way to authenticate."""
        kind, _, token = (
            (await self._credentials.line()).decode("latin-1").strip().removeprefix("Authorization: ").partition(" ")
        )
        return token if kind.lower() == "bearer" else ""

    async def _renew(self, rejected: Credentials, authorization: bytes) -> bool:
        """Get a new token, or reload the kubeconfig; False if there is nothing new to try."""
        if rejected is not self._credentials or await rejected.renew(authorization):
            return True
        identity = self._reload()
        if identity is None or rejected is not self._credentials:
            return rejected is not self._credentials
        log.warning("%s rejected the credentials: using those of the changed kubeconfig", self.server)
        self._credentials, self.http.origin = identity
        self.http.drop_idle()  # idle connections may be authenticated by the old client certificate
        return True

    @asynccontextmanager
    async def stream(self, path: str, wait: float = 10.0, *, headers: bytes = b"") -> AsyncIterator[Exchange]:
        """A GET whose response is streamed; `headers` are further lines that end with CRLF."""
        credentials = self._credentials
        authorization = await credentials.line()
        async with self.http.stream(path, self._headers + authorization + headers, wait) as exchange:
            if exchange.status == 401:
                await self._renew(credentials, authorization)  # the caller's next attempt uses the new credentials
            yield exchange

    async def close(self) -> None:
        """Close all connections."""
        await self.http.close()


class FencedConnection(Connection):
    """Calls over another connection, of which writes are sent only if `guard` does not raise NotSentError."""

    def __init__(self, inner: Connection, guard: Callable[[], None]) -> None:
        super().__init__(inner.http, inner._credentials, inner.server, inner.namespace)  # noqa: SLF001 - same class
        self._inner = inner
        self._fence = guard

    async def call(  # noqa: PLR0913 - as above
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = JSON,
        wait: float = 10.0,
        *,
        headers: bytes = b"",
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request; NotSentError if it is a write and this replica may not write now."""
        fence = guard or (None if method == "GET" else self._fence)
        return await self._inner.call(method, path, body, content, wait, headers=headers, guard=fence)

    async def token(self) -> str:
        """The bearer token of the identity."""
        return await self._inner.token()

    @asynccontextmanager
    async def stream(self, path: str, wait: float = 10.0, *, headers: bytes = b"") -> AsyncIterator[Exchange]:
        """A GET whose response is streamed."""
        async with self._inner.stream(path, wait, headers=headers) as exchange:
            yield exchange


def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Configure the connection to a cluster; nothing is sent yet. ClusterError if the configuration is invalid."""
    # rule 002.bare-metal: any API server will do; nothing else is required.
    cluster = find(kubeconfig, context, environ, account)
    user, server = cluster.config.user or User(), cluster.config.cluster.server
    origin, current = _origin(cluster, user, environ), [_identity(user)]

    def reload() -> tuple[Credentials, Origin] | None:
        try:
            cluster = find(kubeconfig, context, environ, account)
            user = cluster.config.user or User()
            if _identity(user) == current[0] or cluster.config.cluster.server != server:
                return None
            credentials, origin = Credentials(user, cluster.place), _origin(cluster, user, environ)
        except ClusterError:
            return None  # the kubeconfig was deleted, or is just being written
        current[0] = _identity(user)
        return credentials, origin

    return Connection(Http(origin), Credentials(user, cluster.place), server, cluster.config.namespace, reload)


def _identity(user: User) -> tuple[User, *tuple[bytes, ...]]:
    """The kubeconfig's user, with the content of its certificate and key files."""
    files = [Path(name) for name in (user.client_cert, user.client_key) if name]
    return (user, *(file.read_bytes() for file in files if file.is_file()))


def _origin(cluster: ClusterConfig, user: User, environ: Mapping[str, str] | None) -> Origin:
    server = cluster.config.cluster.server
    try:
        url = urlsplit(server if "://" in server else f"https://{server}")
        port = url.port or _PORTS[url.scheme]
        host = url.hostname or ""
        server.encode("ascii")
    except (ValueError, KeyError) as error:
        raise ClusterError(f"{cluster.place}: server {server!r} is not an http or https address") from error
    if not host:
        raise ClusterError(f"{cluster.place}: server {server!r} has no host")
    tls = None
    if url.scheme == "https":
        try:
            tls = verify_cluster(cluster.config.cluster, user, cluster.config.abs_file)
        except (OSError, ssl.SSLError, binascii.Error, ValueError) as error:
            raise ClusterError(f"{cluster.place}: a certificate or key can't be used: {error}") from error
    address = cluster.proxy or _proxy_from_env(url.scheme, host, port, environ)
    proxy = _proxy(address, cluster.place) if address else None
    return Origin(host, port, url.path.rstrip("/"), tls, cluster.tls_name, proxy)


def _proxy_from_env(scheme: str, host: str, port: int, environ: Mapping[str, str] | None) -> str:
    """The proxy of the environment, as for kubectl; never used for loopback addresses."""
    if is_loopback(host):
        return ""
    env = os.environ if environ is None else environ
    variables = {key.lower(): value for key, value in env.items() if key.lower().endswith("_proxy")}
    proxies = {key.removesuffix("_proxy"): value for key, value in variables.items()}
    return "" if request.proxy_bypass(f"{host}:{port}", proxies) else proxies.get(scheme, "")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy(address: str, place: str) -> Proxy:
    url = urlsplit(address if "://" in address else f"http://{address}")
    if url.scheme != "http" or not url.hostname:
        raise ClusterError(f"{place}: proxy {url.scheme}://{url.hostname} can't be used; only http:// is supported")
    login = ""
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        login = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return Proxy(url.hostname, url.port or _PORTS["http"], login)
