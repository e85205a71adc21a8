"""Access to the page: a token of the cluster, or none on the machine of `linkwise up`.

A token is checked as for the routes of tenants. Without one, the peer and the Host header must be loopback addresses: a web
site whose name resolves to 127.0.0.1 can't read the page of a visitor's cluster.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from linkwise.explain.published.lists import namespaces_with_requests
from linkwise.net.http.messages import text
from linkwise.serve.explanations.access import HEADER, Granted, is_local

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.net.http.messages import Request, Response
    from linkwise.serve.explanations.access import Access

__all__ = ["PageAccess", "is_loopback_host"]

TURNED_OFF: Final = "the page is turned off: ask an administrator to set explain.tenants"


class PageAccess:
    """Decides what a caller may read.

    Args:
        broker: knows the namespaces whose pods may be named.
        access: checks tokens; None turns the page off for callers with one.
        local: whether callers on this machine need no token.
    """

    def __init__(self, broker: Broker, access: Access | None, *, local: bool) -> None:
        self._broker: Final = broker
        self._access: Final = access
        self._local: Final = local

    async def cluster(self, request: Request) -> Granted | Response:
        """What the caller may read of the cluster; else the response that says why not."""
        if (known := self._without_token(request)) is not None:
            return known
        if self._access is None:
            return text(TURNED_OFF, 403)
        return await self._access.check_nodes(request, sorted(namespaces_with_requests(self._broker)))

    async def pod(self, request: Request, namespace: str, name: str) -> Granted | Response:
        """Whether the caller may get a pod."""
        return await self._check(request, "get", namespace, name)

    async def group(self, request: Request, namespace: str) -> Granted | Response:
        """Whether the caller may list the pods of a namespace."""
        return await self._check(request, "list", namespace)

    async def _check(self, request: Request, verb: str, namespace: str, name: str = "") -> Granted | Response:
        if (known := self._without_token(request)) is not None:
            return known
        if self._access is None:
            return text(TURNED_OFF, 403)
        return await self._access.check(request, verb, namespace, name)

    def _without_token(self, request: Request) -> Granted | Response | None:
        """Everything for a caller on this machine, if it needs no token; None if a token decides."""
        if not self._local or not is_local(request) or _has_token(request):
            return None
        if not is_loopback_host(request.header(b"host")):
            return text("the page is served to 127.0.0.1 and localhost only", 403)
        return Granted(everywhere=True)


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


def _has_token(request: Request) -> bool:
    return HEADER.lower().encode() in request.headers or b"authorization" in request.headers
