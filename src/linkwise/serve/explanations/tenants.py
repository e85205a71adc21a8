"""Routes for users: tables, explanations and lists of what the caller's own rights cover.

What needs reads of the whole cluster is computed here, and answered after the API server has confirmed that the caller may
get that pod, or list the pods of a namespace. Lists of all namespaces have the pods of those namespaces. Nodes and devices
are shown to every caller that may list the pods of some namespace; names of pods of other namespaces are left out.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs

import msgspec

from linkwise.engine.selectors import all_met, label_requirements
from linkwise.errors import InputError, LinkwiseError, NotFoundError, NotNowError
from linkwise.explain.published.allocations import allocation_rows, pod_usage_rows
from linkwise.explain.published.lists import any_pod, group_rows, namespaces_with_requests, pod_rows
from linkwise.explain.text.phrases import names_text
from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route
from linkwise.serve.explanations.access import Granted
from linkwise.serve.explanations.explainer import render_explanation
from linkwise.views.blocks import encode_page, plain
from linkwise.views.cluster import ClusterView
from linkwise.views.description import description_of
from linkwise.views.explanations import explain_object
from linkwise.views.listing import section_of
from linkwise.views.table import OF_NODES, encode_section, parse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from linkwise.model.views import PodView
    from linkwise.net.http.messages import Request
    from linkwise.net.http.routes import Handler
    from linkwise.serve.explanations.access import Access
    from linkwise.serve.service import Service
    from linkwise.views.explanations import AnyExplanation
    from linkwise.views.table import Selection

    Selects = Callable[[PodView], bool]

T = TypeVar("T")

__all__ = ["tenant_routes"]


def tenant_routes(service: Service, access: Access | None) -> list[Route]:
    """All routes for tenants; without access they say that they are turned off."""
    if access is None:
        return [Route("GET", path, _turned_off) for path in _PATHS]
    tenants = _Tenants(service, access)
    handlers: tuple[Handler, ...] = (
        tenants.pod,
        tenants.pods,
        tenants.pod,
        tenants.groups,
        tenants.group,
        tenants.usage,
        tenants.allocations,
        tenants.workload,
        tenants.node,
        tenants.describe_pod,
        tenants.describe_group,
        tenants.describe_node,
        tenants.table,
    )
    return [Route("GET", path, handler) for path, handler in zip(_PATHS, handlers, strict=True)]


_PATHS = (
    "/explain/{namespace}/{name}",
    "/v1/namespaces/{namespace}/pods",
    "/v1/namespaces/{namespace}/pods/{name}/explanation",
    "/v1/namespaces/{namespace}/groups",
    "/v1/namespaces/{namespace}/groups/{name}/explanation",
    "/v1/namespaces/{namespace}/usage",
    "/v1/namespaces/{namespace}/allocations",
    "/v1/namespaces/{namespace}/workloads/{kind}/{name}/explanation",
    "/v1/nodes/{name}/explanation",
    "/v1/namespaces/{namespace}/pods/{name}/description",
    "/v1/namespaces/{namespace}/groups/{name}/description",
    "/v1/nodes/{name}/description",
    "/v1/tables/{kind}",
)


_DEFAULT: Final = "default"
"""the namespace of names without one, as for kubectl"""
_LISTING: Final = "the service is still listing the cluster; try again in a moment"


def _turned_off(request: Request, variables: Mapping[str, str]) -> Response:
    del request, variables
    return text("explanations for tenants are turned off: ask an administrator to set explain.tenants", 403)


def _hidden(granted: Granted, selection: Selection, *, named: bool) -> list[str]:
    """What a table lacks because of the caller's rights, in at most one sentence; `named` if it lacks no names."""
    if granted.everywhere or (selection.kind in OF_NODES and named):
        return []
    if selection.kind in OF_NODES:
        return ["pods of namespaces that your rights do not cover are not named"]
    if selection.namespace is not None:
        return []
    covered = f"only namespaces that your rights cover are shown: {names_text(sorted(granted.namespaces)) or 'none'}"
    more = f"; {granted.unchecked} more were not checked: name yours with -n" if granted.unchecked else ""
    return [f"{covered}{more}"]


class _Tenants:
    """Answers callers with their own rights."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service = service
        self._explainer = service.explainer
        self._broker = service.broker
        self._access = access

    async def pod(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The explanation of a pod."""
        granted = await self._granted_pod(request, variables)
        if not isinstance(granted, Granted):
            return granted
        return await self._explained(request, granted, "pod", variables["namespace"], variables["name"])

    async def describe_pod(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The page of `linkwise describe` about a pod."""
        granted = await self._granted_pod(request, variables)
        if not isinstance(granted, Granted):
            return granted
        return await self._described(granted, "pod", variables["namespace"], variables["name"])

    async def group(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The explanation of a group, whose members the caller may list."""
        granted = await self._access.check(request, "list", variables["namespace"])
        if not isinstance(granted, Granted):
            return granted
        return await self._explained(request, granted, "group", variables["namespace"], variables["name"])

    async def describe_group(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The page of `linkwise describe` about a group."""
        granted = await self._access.check(request, "list", variables["namespace"])
        if not isinstance(granted, Granted):
            return granted
        return await self._described(granted, "group", variables["namespace"], variables["name"])

    async def workload(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The explanation of all pods of a workload, which the caller may list."""
        kind, namespace, name = variables["kind"], variables["namespace"], variables["name"]
        granted = await self._access.check(request, "list", namespace)
        if not isinstance(granted, Granted):
            return granted
        return await self._explained(request, granted, kind, namespace, name)

    async def node(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The explanation of a node."""
        granted = await self._granted_node(request)
        if not isinstance(granted, Granted):
            return granted
        return await self._explained(request, granted, "node", "", variables["name"])

    async def describe_node(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The page of `linkwise describe` about a node."""
        granted = await self._granted_node(request)
        if not isinstance(granted, Granted):
            return granted
        return await self._described(granted, "node", "", variables["name"])

    async def table(self, request: Request, variables: Mapping[str, str]) -> Response:
        """A table as `linkwise get` and `linkwise top` print it.

        `wide=true` adds the columns of wide output, `documents=true` the objects as JSON.
        """
        try:
            selection = parse_query(variables["kind"], request.query)
        except InputError as error:
            return text(str(error), 400)
        granted = await self._granted(request, selection)
        if not isinstance(granted, Granted):
            return granted
        if not self._service.synced:
            return text(_LISTING, 503)
        namespace = selection.namespace
        query = parse_qs(request.query)
        wide, documents = (query.get(name) == ["true"] for name in ("wide", "documents"))

        def work() -> dict[str, Any] | LinkwiseError:
            cluster = self._cluster(granted, namespace or "")
            try:
                section = encode_section(section_of(cluster, selection), wide=wide, documents=documents)
            except (InputError, NotFoundError) as error:
                return error
            named = not (documents or selection.kind == "device") or not self._has_others(granted, selection)
            return {**section, "notes": [*_hidden(granted, selection, named=named), *section["notes"]]}

        try:
            answer = await self._explainer.consistent(work)
        except NotNowError as error:
            return text(str(error), 503)
        if isinstance(answer, LinkwiseError):
            return text(str(answer), 404 if isinstance(answer, NotFoundError) else 400)
        return Response(msgspec.json.encode(answer))

    async def _granted_pod(self, request: Request, variables: Mapping[str, str]) -> Granted | Response:
        return await self._access.check(request, "get", variables["namespace"], variables["name"])

    async def _granted_node(self, request: Request) -> Granted | Response:
        (namespace,) = parse_qs(request.query).get("namespace", [""])[-1:]
        return await self._access.check_nodes(request, self._namespaces(namespace))

    async def _granted(self, request: Request, selection: Selection) -> Granted | Response:
        """What the caller may read of a table; else the response that says why not."""
        access, namespace = self._access, selection.namespace
        if selection.kind == "policy":
            return await access.check_cluster(request)
        if selection.kind in OF_NODES:
            return await access.check_nodes(request, self._namespaces(namespace or ""))
        if namespace is None and not selection.names and selection.kind != "capacity":
            return await access.check_namespaces(request, self._namespaces(""))
        return await access.check(request, "list", namespace or _DEFAULT)

    def _namespaces(self, first: str) -> list[str]:
        """Namespaces that lists may have rows of, after the one that the caller named."""
        others = sorted(namespaces_with_requests(self._broker) - {first})
        return [first, *others] if first else others

    async def pods(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The pods of a namespace that request devices."""

        def rows(granted: Granted, namespace: str, selects: Selects) -> list[Any]:
            found = pod_rows(
                self._broker, self._explainer.clock(), namespace, selects=selects, readable=granted.readable
            )
            return [self._document(asdict(replace(row, explanation=None)), row.explanation) for row in found]

        return await self._listed(request, variables["namespace"], rows)

    async def groups(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The groups of a namespace."""

        def rows(granted: Granted, namespace: str, selects: Selects) -> list[Any]:
            found = group_rows(
                self._broker, self._explainer.clock(), namespace, selects=selects, readable=granted.readable
            )
            named = ({"namespace": row.namespace, "name": row.name, "why": row.why} for row in found)
            return [self._document(row, one.explanation) for row, one in zip(named, found, strict=True)]

        return await self._listed(request, variables["namespace"], rows)

    async def usage(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The usage of the pods of a namespace."""
        notes: list[str] = []

        def rows(_: Granted, namespace: str, selects: Selects) -> list[Any]:
            found = pod_usage_rows(self._broker, self._explainer.clock(), namespace, selects=selects)
            notes[:] = found.notes
            return list(map(asdict, found.pods))

        return await self._listed(request, variables["namespace"], rows, notes)

    async def allocations(self, request: Request, variables: Mapping[str, str]) -> Response:
        """The devices that the pods of a namespace have, and wait for."""
        notes: list[str] = []

        def rows(_: Granted, namespace: str, selects: Selects) -> list[Any]:
            found = allocation_rows(self._broker, self._explainer.clock(), namespace, selects)
            notes[:] = (*found.never, *found.notes)
            return list(map(asdict, found.rows))

        return await self._listed(request, variables["namespace"], rows, notes)

    def _document(self, row: dict[str, Any], explanation: AnyExplanation | None) -> dict[str, Any]:
        self._explainer.pause()
        row.pop("explanation", None)
        return {**row, "data": plain(explanation) if explanation else None}

    def _has_others(self, granted: Granted, selection: Selection) -> bool:
        """Whether pods that the caller may not read have devices of the selected nodes."""
        if selection.kind == "node-usage":
            return False
        entries = (one for one in self._broker.entries() if not selection.names or one.node in selection.names)
        return any(entry.namespace not in granted.namespaces for entry in entries)

    async def _listed(
        self,
        request: Request,
        namespace: str,
        rows: Callable[[Granted, str, Selects], list[Any]],
        notes: Sequence[str] | None = None,
    ) -> Response:
        """A list; the parameter labelSelector selects some of its pods."""
        try:
            wanted = label_requirements(" ".join(parse_qs(request.query).get("labelSelector", ())))
        except InputError as error:
            return text(str(error), 400)
        selects: Selects = (lambda pod: all_met(wanted, pod.labels)) if wanted else any_pod
        granted = await self._access.check(request, "list", namespace)
        if not isinstance(granted, Granted):
            return granted
        if not self._service.synced:
            return text(_LISTING, 503)
        try:
            items = await self._explainer.consistent(lambda: rows(granted, namespace, selects))
        except NotNowError as error:
            return text(str(error), 503)
        extra = {} if notes is None else {"notes": list(notes)}
        return Response(msgspec.json.encode({"items": items, **extra}))

    def _cluster(self, granted: Granted, namespace: str) -> ClusterView:
        """The cluster as this caller may see it."""
        now = self._explainer.clock()
        return ClusterView(self._broker, now, namespace or _DEFAULT, is_service=True, only=granted.readable)

    async def _explained(self, request: Request, granted: Granted, kind: str, namespace: str, name: str) -> Response:
        explanation = await self._looked_up(
            granted, kind, namespace, name, lambda cluster: explain_object(cluster, kind, name, namespace)
        )
        if isinstance(explanation, Response):
            return explanation
        return render_explanation(request, explanation)

    async def _described(self, granted: Granted, kind: str, namespace: str, name: str) -> Response:
        page = await self._looked_up(
            granted, kind, namespace, name, lambda cluster: encode_page(description_of(cluster, kind, name, namespace))
        )
        if isinstance(page, Response):
            return page
        return Response(msgspec.json.encode(page))

    async def _looked_up(
        self, granted: Granted, kind: str, namespace: str, name: str, look: Callable[[ClusterView], T]
    ) -> T | Response:
        """What is computed about an object; else the response that says that it is not there, or not now."""

        def lookup() -> T | NotFoundError:
            try:
                return look(self._cluster(granted, namespace))
            except NotFoundError as error:
                return error

        try:
            answer = await self._explainer.consistent(lookup)
        except NotNowError as error:
            return text(str(error), 503)
        if not isinstance(answer, NotFoundError):
            return answer
        if not self._service.synced:
            return text(_LISTING, 503)
        # The right to get one pod does not include the names of others.
        hidden = kind == "pod" and not granted.everywhere
        return text(f"pod {namespace}/{name} not found" if hidden else str(answer), 404)
