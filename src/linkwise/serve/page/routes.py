"""Routes of the page: the cluster and its changes, nodes, pods, groups, and plans of manifests that are pasted."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import msgspec

from linkwise.errors import NotFoundError, NotNowError
from linkwise.explain.published.lists import namespaces_with_requests
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route
from linkwise.net.timing import Timing
from linkwise.serve.explanations.access import Granted
from linkwise.serve.page.feed import DEFAULT, Feed
from linkwise.serve.page.files import FOLDER, file_routes
from linkwise.serve.page.planning import read_manifest
from linkwise.views.cluster import ClusterView
from linkwise.views.page.documents import PlanPage
from linkwise.views.page.group import group_page
from linkwise.views.page.node import node_page
from linkwise.views.page.plan import plan_page
from linkwise.views.page.pod import pod_page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from linkwise.net.http.messages import Request
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.page.feed import Mailbox, View
    from linkwise.serve.service import Service

__all__ = ["Page"]

HEARTBEAT: Final = 15.0  # seconds
"""between two comments on a stream without changes, so that proxies don't take it for dead"""
CHECK: Final = 10.0  # seconds
"""between two checks of a reader's rights while it streams"""
EVENTS: Final = "text/event-stream"
PRIVATE: Final = (("cache-control", "no-cache"), ("vary", "accept-encoding, x-linkwise-token, authorization"))


MAX_MANIFEST: Final = 256 << 10
"""bytes"""
MAX_PLANS: Final = 2
"""manifests that are read and planned at a time"""
MANIFEST_TYPES: Final = ("application/yaml", "application/x-yaml", "text/yaml", "application/json")
NOT_STORED: Final = (("cache-control", "no-store"),)


class Page:
    """The routes of the page; `close` ends its streams.

    Args:
        service: knows the cluster.
        access: checks callers.
        root: whether the root of the port leads to the page.
        timing: of refreshes, heartbeats and checks.
        files: folder of the page's files.
    """

    def __init__(
        self,
        service: Service,
        access: Access,
        *,
        root: bool = False,
        timing: Timing | None = None,
        files: Path = FOLDER,
    ) -> None:
        self._files: Final = files
        self._service: Final = service
        self._broker: Final = service.broker
        self._root: Final = root
        self._access: Final = access
        self._timing: Final = timing or Timing()
        self._plans: Final = asyncio.Semaphore(MAX_PLANS)
        self._feed: Final = Feed(service, self._timing)

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            *file_routes(root=self._root, folder=self._files),
            Route("GET", "/v1/page/cluster", self.cluster),
            Route("GET", "/v1/page/stream", self.stream),
            Route("GET", "/v1/page/nodes/{name}", self.node),
            Route("GET", "/v1/page/pods/{namespace}/{name}", self.pod),
            Route("GET", "/v1/page/groups/{namespace}/{name}", self.group),
            Route("POST", "/v1/page/plan", self.plan, guard=_readable),
        ]

    @property
    def readers(self) -> int:
        """The number of streams."""
        return self._feed.readers

    @property
    def is_refreshing(self) -> bool:
        """Whether documents are brought up to date, because someone reads them."""
        return self._feed.is_refreshing

    def close(self, reason: str) -> None:
        """End the streams, and tell the readers why."""
        self._feed.close(reason)

    async def cluster(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The cluster as it is now."""
        del variables
        view = await self._view(request)
        if isinstance(view, Response):
            return view
        headers = (*PRIVATE, ("etag", f'"{view.document.version}"'))
        if _matches(request.header(b"if-none-match"), view.document.version):
            return Response(status=304, headers=headers)
        if "gzip" in request.header(b"accept-encoding"):
            return Response(await view.zipped(), headers=(*headers, ("content-encoding", "gzip")))
        return Response(view.body, headers=headers)

    async def stream(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The cluster, and its changes as they come."""
        del variables
        view = await self._view(request)
        if isinstance(view, Response):
            return view
        since = parse_qs(request.query).get("since", [""])[-1] or request.header(b"last-event-id")
        headers = (("cache-control", "no-store"), ("x-accel-buffering", "no"))
        return Response(content_type=EVENTS, headers=headers, stream=self._events(request, view, since))

    async def node(self, request: Request, variables: Mapping[str, str]) -> Response:
        """A node."""
        granted = await self._granted(request)
        return await self._found(granted, DEFAULT, lambda cluster: node_page(cluster, variables["name"]))

    async def pod(self, request: Request, variables: Mapping[str, str]) -> Response:
        """A pod."""
        namespace, name = variables["namespace"], variables["name"]
        granted = await self._access.check(request, "get", namespace, name)
        found = await self._found(granted, namespace, lambda cluster: pod_page(cluster, namespace, name))
        if found.status == 404 and isinstance(granted, Granted) and not granted.everywhere:
            return text(
                f"pod {namespace}/{name} not found", 404
            )  # the right to get one pod does not include other names
        return found

    async def group(self, request: Request, variables: Mapping[str, str]) -> Response:
        """A group."""
        namespace, name = variables["namespace"], variables["name"]
        granted = await self._access.check(request, "list", namespace)
        return await self._found(granted, namespace, lambda cluster: group_page(cluster, namespace, name))

    async def plan(self, request: Request, variables: Mapping[str, str]) -> Response:
        """Where the pods of a manifest would go; nothing is created."""
        del variables
        if len(request.body) > MAX_MANIFEST:
            return text(f"the manifest has {len(request.body)} bytes; the limit is {MAX_MANIFEST}", 413)
        granted = await self._granted(request)
        if not isinstance(granted, Granted):
            return granted
        async with self._plans:
            job, errors = await asyncio.to_thread(read_manifest, request.body)
            if not job.groups:
                return Response(msgspec.json.encode(PlanPage(tuple(errors), "", (), (), (), ())), headers=NOT_STORED)
            return await self._found(granted, DEFAULT, lambda cluster: plan_page(cluster, job.groups, job.made, errors))

    async def _found(
        self, granted: Granted | Response, namespace: str, look: Callable[[ClusterView], msgspec.Struct]
    ) -> Response:
        """What is computed for a caller about one object; else the response that says why not."""
        if not isinstance(granted, Granted):
            return granted
        service = self._service

        def found() -> msgspec.Struct | NotFoundError:
            try:
                return look(
                    ClusterView(self._broker, service.clock(), namespace, is_service=True, only=granted.readable)
                )
            except NotFoundError as error:
                return error

        try:
            service.check_explains()
            answer = await service.explainer.consistent(found)
        except NotNowError as error:
            return text(str(error), 503)
        if isinstance(answer, NotFoundError):
            return text(str(answer), 404)
        return Response(msgspec.json.encode(answer), headers=NOT_STORED)

    async def _granted(self, request: Request) -> Granted | Response:
        """What the caller may read of the cluster; else the response that says why not."""
        return await self._access.check_nodes(request, sorted(namespaces_with_requests(self._broker)))

    async def _view(self, request: Request) -> View | Response:
        """The document of the cluster for a caller; else the response that says why there is none."""
        granted = await self._granted(request)
        if not isinstance(granted, Granted):
            return granted
        try:
            return await self._feed.view(granted.readable)
        except NotNowError as error:
            return text(str(error), 503)

    async def _events(self, request: Request, view: View, since: str) -> AsyncGenerator[bytes, None]:
        with self._feed.reading(view) as mailbox:
            quiet = checked = self._timing.clock()
            if view.document.version != since:
                yield _event("cluster", view.body)
            while True:
                await self._wait(mailbox, min(quiet + HEARTBEAT, checked + CHECK))
                now = self._timing.clock()
                reason = mailbox.ended or self._feed.ended
                if not reason and now >= checked + CHECK:
                    checked, reason = now, await self._objection(request, view)
                if reason:
                    yield _event("bye", msgspec.json.encode({"reason": reason}))
                    return
                if mailbox.filled.is_set():
                    quiet, changes = now, mailbox.take()
                    for change in changes or ():
                        yield _event("change", change)
                    if changes is None:
                        yield _event("cluster", view.body)
                elif now >= quiet + HEARTBEAT:
                    quiet = now
                    yield b": still here\n\n"

    async def _wait(self, mailbox: Mailbox, until: float) -> None:
        """Wait for a change, at most until that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - self._timing.clock())):
                await mailbox.filled.wait()

    async def _objection(self, request: Request, view: View) -> str:
        """Why the reader may not go on reading; empty if it may."""
        granted = await self._granted(request)
        if not isinstance(granted, Granted):
            return granted.body.decode().strip()
        return "" if granted.readable == view.only else "your rights have changed"


def _readable(request: Request) -> Response | None:
    """The refusal of a manifest by its head; a form of another site can't send this content type."""
    kind = request.header(b"content-type").partition(";")[0].strip().lower()
    if kind not in MANIFEST_TYPES:
        return text(f"unsupported content type {kind!r}; send {MANIFEST_TYPES[0]}", 415)
    length = request.header(b"content-length")
    if length.isdigit() and int(length) > MAX_MANIFEST:
        return text(f"the manifest has {int(length)} bytes; the limit is {MAX_MANIFEST}", 413)
    return None


def _event(kind: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _matches(header: str, version: str) -> bool:
    """Whether If-None-Match names the version; a proxy may have made the tag weak."""
    return any(tag.strip().removeprefix("W/").strip('"') == version for tag in header.split(","))
