"""Access of tenants: checks the caller's token and its rights on pods with the API server, and remembers both for seconds.

The token is in X-Linkwise-Token, because the API server removes the Authorization header from requests that it proxies to a
service, or in Authorization if the service is called directly. Only a digest of it is kept.

On the machine of `linkwise up` no token is needed. There the peer and the Host header must be loopback addresses: a web site
whose name resolves to 127.0.0.1 can't read the cluster of a visitor.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from linkwise.errors import ClusterError
from linkwise.net.http.messages import text
from linkwise.net.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable

    from linkwise.net.http.messages import Request, Response
    from linkwise.wire.kubernetes.reviews import Caller

T = TypeVar("T")

__all__ = ["HEADER", "Access", "Granted", "Reviewer", "is_local", "is_loopback_host", "is_proxied"]

log: Final = logging.getLogger(__name__)

HEADER: Final = "X-Linkwise-Token"
REMEMBERED_SECONDS: Final = 10.0
"""how long an answer of the API server is used again; a revoked right is effective after it"""
MAX_REMEMBERED: Final = 4096
"""answers that are kept"""
MAX_REVIEWS: Final = 8
"""requests to the API server at a time: many callers, or many invalid tokens, don't crowd out binds"""
MAX_NAMESPACES: Final = 200
"""namespaces about which one request asks the API server"""
MAX_TOKEN: Final = 16_384
"""characters; a longer token is not a token"""


_PROXY_HEADERS: Final = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
"""any of these shows that the request came through a proxy, so its peer address is not the caller's"""


class Reviewer(Protocol):
    """The API server's opinion of a caller; ClusterError if there is none."""

    async def authenticate(self, token: str) -> Caller | None:
        """The user of a token; None if it is not valid."""
        ...

    async def may(self, caller: Caller, verb: str, namespace: str, name: str = "", resource: str = "pods") -> bool:
        """Whether a user may do this with a pod, with the pods of a namespace, or with all pods or nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Granted:
    """A caller that may read what it asked for."""

    everywhere: bool
    """whether it may list the pods of all namespaces, so that nothing is hidden from it"""
    namespaces: frozenset[str] = frozenset()
    """namespaces whose pods it may read, of those that were asked about"""
    unchecked: int = 0
    """namespaces that were not asked about, because there were too many"""

    @property
    def readable(self) -> frozenset[str] | None:
        """The namespaces whose pods may be named to the caller; None for all."""
        return None if self.everywhere else self.namespaces


class Access:
    """Decides whether a request is answered."""

    def __init__(self, reviewer: Reviewer, timing: Timing | None = None, *, local: bool = False) -> None:
        self._local: Final = local
        """whether callers on this machine need no token"""
        self._reviewer: Final = reviewer
        self._timing: Final = timing or Timing()
        self._known: dict[Hashable, tuple[float, object]] = {}
        """by question: when the answer expires, and the answer"""
        self._reviews: Final = asyncio.Semaphore(MAX_REVIEWS)

    async def check(self, request: Request, verb: str, namespace: str, name: str = "") -> Granted | Response:
        """Whether the caller may do this with a pod, or with the pods of a namespace; else the response that says why not."""

        async def decide(digest: bytes, caller: Caller) -> Granted | Response:
            if not await self._may(digest, caller, verb, namespace, name):
                what = f"pod {namespace}/{name}" if name else f"pods in namespace {namespace}"
                grant = f"grant {verb} on pods in namespace {namespace}"
                return text(
                    f"user {caller.user} may not {verb} {what}: ask an administrator to {grant}, as the role view has",
                    403,
                )
            return Granted(await self._may(digest, caller, "list", "", ""), frozenset({namespace}))

        return await self._decided(request, decide)

    async def check_namespaces(self, request: Request, namespaces: Collection[str]) -> Granted | Response:
        """In which namespaces the caller may list pods, in the order in which they are given; there may be none."""

        async def decide(digest: bytes, caller: Caller) -> Granted:
            return await self._granted(digest, caller, namespaces)

        return await self._decided(request, decide)

    async def check_nodes(self, request: Request, namespaces: Collection[str]) -> Granted | Response:
        """Whether the caller may read about nodes: with the right to list them, or to list pods in one of the namespaces."""

        async def decide(digest: bytes, caller: Caller) -> Granted | Response:
            granted = await self._granted(digest, caller, namespaces)
            if granted.everywhere or granted.namespaces or await self._may_list_nodes(digest, caller):
                return granted
            return text(
                f"user {caller.user} may not list pods in {_named(namespaces)}: name a namespace of yours with -n", 403
            )

        return await self._decided(request, decide)

    async def check_cluster(self, request: Request) -> Granted | Response:
        """Whether the caller may list all nodes and the pods of all namespaces; else the response that says why not."""

        async def decide(digest: bytes, caller: Caller) -> Granted | Response:
            if await self._may_list_nodes(digest, caller) and await self._may(digest, caller, "list", "", ""):
                return Granted(everywhere=True)
            return text(
                f"user {caller.user} may not read what concerns all namespaces; `linkwise explain pod/NAME` shows what"
                " concerns a pod of yours",
                403,
            )

        return await self._decided(request, decide)

    async def _may_list_nodes(self, digest: bytes, caller: Caller) -> bool:
        return await self._may(digest, caller, "list", "", "", resource="nodes")

    async def _granted(self, digest: bytes, caller: Caller, namespaces: Collection[str]) -> Granted:
        if await self._may(digest, caller, "list", "", ""):
            return Granted(everywhere=True)
        first = list(namespaces)[:MAX_NAMESPACES]
        allowed = await asyncio.gather(*(self._may(digest, caller, "list", one, "") for one in first))
        return Granted(
            everywhere=False,
            namespaces=frozenset(one for one, may in zip(first, allowed, strict=True) if may),
            unchecked=len(namespaces) - len(first),
        )

    async def _decided(
        self, request: Request, decide: Callable[[bytes, Caller], Awaitable[Granted | Response]]
    ) -> Granted | Response:
        """Authenticate the caller, and decide; the response says what failed."""
        token = _token_of(request)
        if not token and self._local and is_local(request):
            if is_loopback_host(request.header(b"host")):
                return Granted(everywhere=True)
            return text("callers without a token must use 127.0.0.1 or localhost in the URL", 403)
        if not token:
            return text(
                f"not authenticated: send a token of the cluster in the header {HEADER}, or as a bearer token", 401
            )
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        try:
            caller = await self._remembered(digest, lambda: self._reviewer.authenticate(token))
            if caller is None:
                return text("not authenticated: the API server does not accept the token; log in again", 401)
            return await decide(digest, caller)
        except ClusterError as error:
            log.warning("caller not checked: %s", error)
            return text(f"the service can't check your token: {error}", 503)

    async def _may(  # noqa: PLR0913 - as the API server asks it
        self, digest: bytes, caller: Caller, verb: str, namespace: str, name: str, *, resource: str = "pods"
    ) -> bool:
        question = (digest, verb, namespace, name, resource)
        return await self._remembered(question, lambda: self._reviewer.may(caller, verb, namespace, name, resource))

    async def _remembered(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        known = self._known.get(question)
        if known is not None and known[0] > self._timing.clock():
            return known[1]  # type: ignore[return-value]  # the question decides the type of its answer
        async with self._reviews:
            answer = await ask()
        self._known.pop(question, None)
        self._known[question] = (self._timing.clock() + REMEMBERED_SECONDS, answer)
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return answer


def _named(namespaces: Collection[str]) -> str:
    """The first namespace, which the caller asked about, and that there are others."""
    first = next(iter(namespaces), "")
    return f"namespace {first}" + (", nor in others with devices" if len(namespaces) > 1 else "")


def is_proxied(request: Request) -> bool:
    """Whether the request came through a proxy, such as the API server's service proxy."""
    return not _PROXY_HEADERS.isdisjoint(request.headers)


def is_local(request: Request) -> bool:
    """Whether the caller is on this machine, or in the same pod."""
    return not is_proxied(request) and bool(request.client) and _is_loopback(request.client)


def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine by a loopback address, with or without a port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None  # IPv4 peers of a dual-stack socket
    return (mapped or address).is_loopback


def _token_of(request: Request) -> str:
    """The token of a request; empty if there is none."""
    kind, _, bearer = request.header(b"authorization").partition(" ")
    token = request.header(HEADER.lower().encode()) or (bearer if kind.lower() == "bearer" else "")
    token = token.strip()
    return token if len(token) <= MAX_TOKEN and token.isascii() and token.isprintable() else ""
