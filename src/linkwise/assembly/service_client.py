"""Client of the service: tables and explanations with the rights of the user, computed where the cluster is known already.

The service is reached through the API server's service proxy, or at an address. It gets the caller's token in a header of its
own, because the API server removes the Authorization header, and answers what the owner of the token may read.
"""

from __future__ import annotations

import json
import re
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit

from linkwise.errors import ClusterError, InputError, NotFoundError
from linkwise.kube.client.api import is_loopback
from linkwise.net.http.client import CutError, Http, Origin, SlowError
from linkwise.views.table import decode_section
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from linkwise.kube.client.api import Connection
    from linkwise.net.http.client import Answer, Exchange
    from linkwise.views.blocks import Page
    from linkwise.views.table import Section, Selection

__all__ = [
    "DEFAULT_SERVICE",
    "FIRST_WAIT",
    "WAIT",
    "Detail",
    "ServiceAddress",
    "ServiceClient",
    "ServiceRefusedError",
    "ServiceUnavailableError",
    "parse_service",
]

Document = dict[str, Any]
Detail = Literal["", "wide", "documents"]

SERVICE_PORT: Final = "tenants"
"""name of the port of the Service that every user may reach through the API server"""
DEFAULT_SERVICE: Final = f"linkwise-system/linkwise:{SERVICE_PORT}"
TOKEN_HEADER: Final = "X-Linkwise-Token"  # noqa: S105 - the name of a header
WAIT: Final = 30.0  # seconds
FIRST_WAIT: Final = 5.0
"""seconds to wait where the cluster can be read instead: a network policy may drop what the API server forwards"""
_UNREADABLE: Final = "the answer of the service can't be read; its version may differ"
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SERVICE: Final = re.compile(rf"(?:({_LABEL})/)?({_LABEL})(?::([a-z0-9-]+))?")
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where the service is: a Service of the cluster, or the origin of a URL."""

    namespace: str = ""
    name: str = ""
    port: str = ""
    origin: Origin | None = None


def parse_service(text: str) -> ServiceAddress:
    """Parse a URL, or NAMESPACE/NAME:PORT of a Service; InputError if it is neither."""
    if "://" in text:
        return ServiceAddress(origin=_origin(text))
    match = _SERVICE.fullmatch(text)
    if match is None:
        raise InputError(f"--service: {text!r} is neither a URL nor NAMESPACE/NAME:PORT of a Service")
    namespace, name, port = match.groups()
    return ServiceAddress(namespace or DEFAULT_SERVICE.partition("/")[0], name, port or SERVICE_PORT)


def _origin(text: str) -> Origin:
    try:
        url = urlsplit(text)
        port = url.port or _PORTS[url.scheme]
        text.encode("ascii")
    except (ValueError, KeyError) as error:
        raise InputError(f"--service: {text!r} is not an http or https address") from error
    if not url.hostname:
        raise InputError(f"--service: {text!r} has no host")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise InputError(
            f"--service: {text} would get your token unencrypted; use https, a port-forward to 127.0.0.1, or NAMESPACE/NAME:PORT"
        )
    tls = ssl.create_default_context() if url.scheme == "https" else None
    return Origin(url.hostname, port, url.path.rstrip("/"), tls)


class ServiceUnavailableError(ClusterError):
    """The service can't be asked, or not for this; the text says why and what to do."""


class ServiceRefusedError(ServiceUnavailableError):
    """The service does not answer this user."""


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """Requests of one user to the service."""

    connection: Connection
    service: ServiceAddress
    wait: float = WAIT  # seconds

    async def explanation(self, kind: str, namespace: str, name: str) -> Document:
        """Code, sentences and data about a pod, group, node or workload."""
        return await self._ask(_path_of(kind, namespace, name, "explanation"))

    async def description(self, kind: str, namespace: str, name: str) -> Page:
        """The page about a node, pod or group."""
        from linkwise.views.blocks import decode_page  # noqa: PLC0415 - imports msgspec, which tables do not need

        answer = await self._ask(_path_of(kind, namespace, name, "description"))
        try:
            return decode_page(answer)
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceUnavailableError(_UNREADABLE) from error

    async def table(self, selection: Selection, detail: Detail = "") -> Section:
        """Rows of a list; with the columns of wide output, or the documents of the objects, if they are wanted."""
        query = "&".join(filter(None, (selection.query(), f"{detail}=true" if detail else "")))
        answer = await self._ask(f"/v1/tables/{selection.kind}{f'?{query}' if query else ''}")
        try:
            return decode_section(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServiceUnavailableError(_UNREADABLE) from error

    async def _ask(self, path: str) -> Document:
        """A document of the service; ServiceUnavailableError if it can't be asked, NotFoundError if it says so."""
        answer = await self.call("GET", path)
        if answer.status == 200:
            try:
                document: Document = json.loads(answer.body)
            except ValueError as error:
                raise ServiceUnavailableError("what answers there is not the service of Linkwise") from error
            return document
        sentence = answer.body.decode("utf-8", "replace").strip()
        if answer.status == 400:
            raise InputError(sentence)
        if answer.status == 403:
            raise ServiceRefusedError(sentence)
        if answer.status == 404 and sentence == f"{path.partition('?')[0]} not found":
            raise ServiceUnavailableError("the service is older than this command, and does not know the request")
        if answer.status == 404:
            raise NotFoundError(sentence)
        raise ServiceUnavailableError(f"the service answered {answer.status}: {sentence}")

    async def call(self, method: str, path: str, body: bytes = b"", content: str = "") -> Answer:
        """The service's answer to this user, whatever its status; ServiceUnavailableError if it can't be asked."""
        header = await self._token_line()
        if self.service.origin:
            return await self._direct(method, path, header, body, content)
        return await self._proxied(method, path, header, body, content)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[Exchange]:
        """A GET whose response is streamed."""
        header = await self._token_line()
        async with AsyncExitStack() as stack:
            if self.service.origin:
                http = Http(self.service.origin)
                stack.push_async_callback(http.close)
                yield await stack.enter_async_context(http.stream(path, header, self.wait))
                return
            exchange = await stack.enter_async_context(
                self.connection.stream(f"{self._root('https:')}{path}", self.wait, headers=header)
            )
            if exchange.status >= 400:  # the port does not say whether it speaks TLS
                exchange = await stack.enter_async_context(
                    self.connection.stream(f"{self._root('')}{path}", self.wait, headers=header)
                )
            yield exchange

    async def _token_line(self) -> bytes:
        """The header with the user's token."""
        token = await self.connection.token()
        if not token:
            raise ServiceUnavailableError(
                "your kubeconfig has no token, by which the service knows you: it does not know client certificates"
            )
        return f"{TOKEN_HEADER}: {token}\r\n".encode("latin-1")

    async def _direct(self, method: str, path: str, header: bytes, body: bytes, content: str) -> Answer:
        http = Http(self.service.origin or Origin("", 0))
        kind = f"Content-Type: {content}\r\n".encode("latin-1") if content else b""
        try:
            return await http.call(method, path, b"Accept: application/json\r\n" + header + kind, body, wait=self.wait)
        except ClusterError as error:
            raise ServiceUnavailableError(f"the service can't be reached: {error}") from error
        finally:
            await http.close()

    async def _proxied(self, method: str, path: str, header: bytes, body: bytes, content: str) -> Answer:
        """The answer of the service, by TLS or without: the port does not say which it speaks."""

        async def through(scheme: str) -> Answer:
            try:
                return await self.connection.call(
                    method, f"{self._root(scheme)}{path}", body, content, self.wait, headers=header
                )
            except (SlowError, CutError) as error:
                raise ServiceUnavailableError(
                    f"Service {self.service.namespace}/{self.service.name} does not answer: {error}"
                ) from error

        secured = await through("https:")
        if _api_status(secured) is None or secured.status == 404:
            return self._answered(secured)
        plain = await through("")
        # The role is for one of the two; that the other one is forbidden does not help.
        forbidden = _api_status(plain) is not None and plain.status == 403
        return self._answered(secured if forbidden and secured.status != 403 else plain)

    def _root(self, scheme: str) -> str:
        service = self.service
        return f"/api/v1/namespaces/{service.namespace}/services/{scheme}{service.name}:{service.port}/proxy"

    def _answered(self, answer: Answer) -> Answer:
        """The answer if it is of the service; ServiceUnavailableError if it is of the API server."""
        status = _api_status(answer)
        if status is None:
            return answer
        named = f"Service {self.service.namespace}/{self.service.name}"
        match answer.status:
            case 403:
                raise ServiceUnavailableError(
                    f"you may not get services/proxy of {named}: ask an administrator to turn on features.tenants of the"
                    " Helm chart, or to apply `linkwise manifests rbac`"
                )
            case 404:
                raise ServiceUnavailableError(f"there is no {named}: name another with --service")
            case _:
                raise ServiceUnavailableError(f"{named} does not answer: {status}")


def _path_of(kind: str, namespace: str, name: str, what: str) -> str:
    """The path of what the service says about an object; of a node, as a user of that namespace may read it."""
    where, name = quote(namespace, safe=""), quote(name, safe="")
    if kind == "node":
        return f"/v1/nodes/{name}/{what}?namespace={where}"
    kinds = f"{kind}s" if kind in {"pod", "group"} else f"workloads/{quote(kind, safe='')}"
    return f"/v1/namespaces/{where}/{kinds}/{name}/{what}"


def _api_status(answer: Answer) -> str | None:
    """The message of the API server's own answer; None if it is an answer of the service."""
    if answer.status == 200 or not answer.body.startswith(b"{"):
        return None
    return status_of(answer.body).message or f"status {answer.status}"
