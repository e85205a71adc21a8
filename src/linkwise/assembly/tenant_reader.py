"""Reads explanations with rights in one namespace: asks the service, or reads what is published on the pods themselves.

The service is reached through the API server's service proxy, or at an address. It gets the caller's token in a header of its
own, because the API server removes the Authorization header, and answers what the owner of the token may read.
"""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.config.rbac import SERVICE_PORT
from linkwise.errors import ClusterError, InputError, NotFoundError
from linkwise.explain.published.allocations import AllocationRow
from linkwise.explain.published.lists import PodRow
from linkwise.explain.published.usage import DeviceRow, PodUsageRow
from linkwise.kube.client.api import is_loopback
from linkwise.net.http.client import Http, Origin
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.watch_stream import page_of, status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection
    from linkwise.model.views import PodView
    from linkwise.net.http.client import Answer

__all__ = ["DEFAULT_SERVICE", "ServiceAddress", "TenantReader", "parse_service"]

Document = dict[str, Any]

DEFAULT_SERVICE: Final = f"linkwise-system/linkwise:{SERVICE_PORT}"
TOKEN_HEADER: Final = "X-Linkwise-Token"  # noqa: S105 - the name of a header
WAIT: Final = 30.0  # seconds
EVENTS_SHOWN: Final = 5
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SERVICE: Final = re.compile(rf"(?:({_LABEL})/)?({_LABEL})(?::([a-z0-9-]+))?")
_PORTS: Final = {"http": 80, "https": 443}
_ASK_FOR_ROLE: Final = "ask an administrator to apply `linkwise manifests rbac --tenants`"


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
    return ServiceAddress(namespace or DEFAULT_SERVICE.partition("/")[0], name, port or str(SERVICE_PORT))


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


class _AwayError(ClusterError):
    """The service can't be asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class TenantReader:
    """One user's view of the cluster."""

    connection: Connection
    service: ServiceAddress

    async def explanation(self, kind: str, namespace: str, name: str) -> tuple[Document, str]:
        """Code, lines and data about a pod, a group or a workload; and a note if it is only what is published on the pod."""
        kinds = f"{kind}s" if kind in {"pod", "group"} else f"workloads/{quote(kind, safe='')}"
        path = f"/v1/namespaces/{quote(namespace, safe='')}/{kinds}/{quote(name, safe='')}/explanation"
        try:
            return await self._ask(path), ""
        except _AwayError as error:
            if kind != "pod":
                raise ClusterError(f"{kind} {namespace}/{name} can't be explained: {error}") from error
            return await self._published(namespace, name), _note(error)

    async def pods(self, namespace: str, selector: str = "") -> tuple[list[tuple[PodRow, Document]], str]:
        """Rows of the pods of a namespace with their documents; and a note if they are only what is published."""
        try:
            items = (await self._ask(_listed("pods", namespace, selector)))["items"]
        except _AwayError as error:
            return await self._published_pods(namespace, selector), _note(error)
        return [(_row(item), _shown(item)) for item in items], ""

    async def groups(self, namespace: str, selector: str = "") -> list[Document]:
        """Groups of a namespace: namespace, name, why and data of each."""
        try:
            items: list[Document] = (await self._ask(_listed("groups", namespace, selector)))["items"]
        except _AwayError as error:
            raise ClusterError(f"groups of namespace {namespace} can't be listed: {error}") from error
        return items

    async def usage(self, namespace: str, selector: str) -> tuple[list[PodUsageRow], list[str]]:
        """Usage of the pods of a namespace, and notes about what is missing."""
        try:
            answer = await self._ask(_listed("usage", namespace, selector))
        except _AwayError as error:
            raise ClusterError(f"usage of pods in namespace {namespace} can't be read: {error}") from error
        rows = [
            PodUsageRow(**{**item, "by_device": tuple(DeviceRow(**one) for one in item["by_device"])})
            for item in answer["items"]
        ]
        return rows, [str(note) for note in answer.get("notes", ())]

    async def allocations(self, namespace: str, selector: str) -> tuple[list[AllocationRow], list[str]]:
        """Devices that the pods of a namespace have and wait for, and notes about what is missing."""
        try:
            answer = await self._ask(_listed("allocations", namespace, selector))
        except _AwayError as error:
            raise ClusterError(f"usage of namespace {namespace} can't be read: {error}") from error
        return [AllocationRow(**item) for item in answer["items"]], [str(note) for note in answer.get("notes", ())]

    # the service

    async def _ask(self, path: str) -> Document:
        """A document of the service; _AwayError if it can't be asked, another ClusterError if it refuses."""
        token = await self.connection.token()
        if not token:
            raise _AwayError(
                "your kubeconfig has no token, by which the service knows you: it does not know client certificates"
            )
        header = f"{TOKEN_HEADER}: {token}\r\n".encode("latin-1")
        answer = await self._direct(path, header) if self.service.origin else await self._proxied(path, header)
        if answer.status == 200:
            try:
                document: Document = json.loads(answer.body)
            except ValueError as error:
                raise _AwayError("what answers there is not the service of Linkwise") from error
            return document
        sentence = answer.body.decode("utf-8", "replace").strip()
        if answer.status == 403:
            raise ClusterError(sentence)
        if answer.status == 404:
            raise NotFoundError(sentence)
        raise _AwayError(f"the service answered {answer.status}: {sentence}")

    async def _direct(self, path: str, header: bytes) -> Answer:
        http = Http(self.service.origin or Origin("", 0))
        try:
            return await http.call("GET", path, b"Accept: application/json\r\n" + header, wait=WAIT)
        except ClusterError as error:
            raise _AwayError(f"the service can't be reached: {error}") from error
        finally:
            await http.close()

    async def _proxied(self, path: str, header: bytes) -> Answer:
        """The answer of the service, by TLS or without: the port does not say which it speaks."""
        secured = await self._through("https:", path, header)
        if _api_status(secured) is None or secured.status == 404:
            return self._answered(secured)
        plain = await self._through("", path, header)
        # The role is for one of the two; that the other one is forbidden does not help.
        forbidden = _api_status(plain) is not None and plain.status == 403
        return self._answered(secured if forbidden and secured.status != 403 else plain)

    async def _through(self, scheme: str, path: str, header: bytes) -> Answer:
        service = self.service
        root = f"/api/v1/namespaces/{service.namespace}/services/{scheme}{service.name}:{service.port}/proxy"
        return await self.connection.call("GET", f"{root}{path}", wait=WAIT, headers=header)

    def _answered(self, answer: Answer) -> Answer:
        """The answer if it is of the service; _AwayError if it is of the API server."""
        status = _api_status(answer)
        if status is None:
            return answer
        named = f"Service {self.service.namespace}/{self.service.name}"
        match answer.status:
            case 403:
                raise _AwayError(f"you may not get services/proxy of {named}: {_ASK_FOR_ROLE}")
            case 404:
                raise _AwayError(f"there is no {named}: name another with --service")
            case _:
                raise _AwayError(f"{named} does not answer: {status}")

    # what is published

    async def _published(self, namespace: str, name: str) -> Document:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        view = decode_pod(await self._get(path, f"pod {namespace}/{name}"))
        events = await self._events(namespace, view)
        lines = [_line(view), *(f"event {event['reason']}: {event['message']}" for event in events)]
        condition = view.condition
        code = condition.reason if condition else ""
        data = {"namespace": namespace, "pod": name, "uid": view.uid, "node": view.node, "code": code, "events": events}
        return {"code": code, "lines": lines, "data": data}

    async def _published_pods(self, namespace: str, selector: str) -> list[tuple[PodRow, Document]]:
        path = f"/api/v1{_below('pods', namespace, selector)}"
        items = page_of(await self._get(path, f"pods in namespace {namespace}")).items
        views = [view for view in map(decode_pod, items) if asks_for_devices(view) or view.condition]
        rows = [
            _published_row(view) for view in sorted(views, key=lambda view: (bool(view.node), view.created, view.name))
        ]
        return [
            (row, _shown({**_fields(row), "data": {"uid": row.uid, "node": row.node, "code": row.code}}))
            for row in rows
        ]

    async def _get(self, path: str, what: str) -> bytes:
        answer = await self.connection.call("GET", path, wait=WAIT)
        if answer.status == 200:
            return answer.body
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        if answer.status == 404:
            raise NotFoundError(f"{what} not found: {message}")
        if answer.status == 403:
            raise ClusterError(
                f"may not read {what}: {message}; ask an administrator for the role view in that namespace"
            )
        raise ClusterError(f"{what} can't be read: {message}")

    async def _events(self, namespace: str, view: PodView) -> list[Document]:
        """The last events about a pod; none if they can't be read, since the condition says the same."""
        selector = quote(f"involvedObject.uid={view.uid}", safe="")
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events?fieldSelector={selector}"
        answer = await self.connection.call("GET", path, wait=WAIT)
        if answer.status != 200:
            return []
        found = [json.loads(bytes(item)) for item in page_of(answer.body).items]
        found.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        keys = ("type", "reason", "message", "count", "lastTimestamp")
        return [{key: event.get(key) for key in keys} for event in found[-EVENTS_SHOWN:]]


def _listed(what: str, namespace: str, selector: str) -> str:
    """Path of a list of the service."""
    return f"/v1{_below(what, namespace, selector)}"


def _below(what: str, namespace: str, selector: str) -> str:
    query = f"?labelSelector={quote(selector, safe='')}" if selector else ""
    return f"/namespaces/{quote(namespace, safe='')}/{what}{query}"


def _note(error: _AwayError) -> str:
    return f"only what is published on the pods is shown, because {error}"


def _api_status(answer: Answer) -> str | None:
    """The message of the API server's own answer; None if it is an answer of the service."""
    if answer.status == 200 or not answer.body.startswith(b"{"):
        return None
    return status_of(answer.body).message or f"status {answer.status}"


def _line(view: PodView) -> str:
    condition, name = view.condition, f"pod {view.namespace}/{view.name}"
    if view.node:
        return f"{name} is bound to node {view.node}"
    if condition and not condition.status:
        return condition.message
    return f"{name} is pending, and nothing is published about it yet"


def _published_row(view: PodView) -> PodRow:
    condition = view.condition
    pending = not view.node
    return PodRow(
        view.namespace,
        view.name,
        view.phase,
        view.created,
        "Terminating"
        if view.deleting
        else "Pending"
        if pending
        else "Running"
        if view.phase == "Running"
        else "Starting",
        view.node,
        "",
        "",
        "",
        condition.message if condition and pending else "",
        condition.reason if condition else "",
        view.priority,
        view.scheduler,
        view.uid,
    )


_ROW_FIELDS: Final = tuple(field.name for field in fields(PodRow) if field.name != "explanation")


def _fields(row: PodRow) -> Document:
    return {name: getattr(row, name) for name in _ROW_FIELDS}


def _row(item: Document) -> PodRow:
    return PodRow(**{name: item[name] for name in _ROW_FIELDS})


def _shown(item: Document) -> Document:
    """A pod as `linkwise get pods -o json` shows it."""
    named = {key: item[key] for key in ("namespace", "pod", "phase", "created", "why")}
    return {**named, **(item.get("data") or {"uid": item["uid"], "node": item["node"]})}
