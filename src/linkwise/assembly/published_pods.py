"""What is published on the pods themselves: for users with rights in one namespace, where the service can't be asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from linkwise.broker.cluster.pod_request import asks_for_devices
from linkwise.errors import ClusterError, NotFoundError
from linkwise.explain.published.lists import PodRow
from linkwise.views.blocks import rfc3339
from linkwise.views.pods import pod_row
from linkwise.views.table import Section
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.watch_stream import page_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection
    from linkwise.model.views import PodView

__all__ = ["published_explanation", "published_pods"]

Document = dict[str, Any]

WAIT: Final = 30.0  # seconds
EVENTS_SHOWN: Final = 5


async def published_explanation(connection: Connection, namespace: str, name: str) -> Document:
    """The condition and the last events of a pod, as the document of an explanation."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    view = decode_pod(await _get(connection, path, f"pod {namespace}/{name}"))
    events = await _events(connection, namespace, view)
    lines = [_line(view), *(f"event {event['reason']}: {event['message']}" for event in events)]
    condition = view.condition
    code = condition.reason if condition else ""
    data = {"namespace": namespace, "pod": name, "uid": view.uid, "node": view.node, "code": code, "events": events}
    return {"code": code, "lines": lines, "data": data}


async def published_pods(
    connection: Connection, namespace: str, selector: str, names: tuple[str, ...], now: float
) -> Section:
    """The pods of a namespace that request devices, with the reasons in their conditions."""
    query = f"?labelSelector={quote(selector, safe='')}" if selector else ""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods{query}"
    items = page_of(await _get(connection, path, f"pods in namespace {namespace}")).items
    views = [view for view in map(decode_pod, items) if asks_for_devices(view) or view.condition]
    views.sort(key=lambda view: (bool(view.node), view.created, view.name))
    by_name = {view.name: view for view in views}
    for name in names:
        if name not in by_name:
            raise NotFoundError(f"pod {namespace}/{name} not found")
    chosen = [by_name[name] for name in names] if names else views
    return Section(
        "Pod",
        tuple(pod_row(_row(view), now, _document(view), everywhere=False) for view in chosen),
        alone=len(names) == 1,
        empty=f"no pods that request devices found in namespace {namespace}",
    )


async def _get(connection: Connection, path: str, what: str) -> bytes:
    answer = await connection.call("GET", path, wait=WAIT)
    if answer.status == 200:
        return answer.body
    message = status_of(answer.body).message or f"the API server answered {answer.status}"
    if answer.status == 404:
        raise NotFoundError(f"{what} not found: {message}")
    if answer.status == 403:
        raise ClusterError(f"may not read {what}: {message}; ask an administrator for the role view in that namespace")
    raise ClusterError(f"{what} can't be read: {message}")


async def _events(connection: Connection, namespace: str, view: PodView) -> list[Document]:
    """The last events about a pod; none if they can't be read, since the condition says the same."""
    selector = quote(f"involvedObject.uid={view.uid}", safe="")
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events?fieldSelector={selector}"
    answer = await connection.call("GET", path, wait=WAIT)
    if answer.status != 200:
        return []
    events = [json.loads(bytes(item)) for item in page_of(answer.body).items]
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    keys = ("type", "reason", "message", "count", "lastTimestamp")
    return [{key: event.get(key) for key in keys} for event in events[-EVENTS_SHOWN:]]


def _line(view: PodView) -> str:
    condition, name = view.condition, f"pod {view.namespace}/{view.name}"
    if view.node:
        return f"{name} is bound to node {view.node}"
    if condition and not condition.status:
        return condition.message
    return f"{name} is pending, and nothing is published about it yet"


def _row(view: PodView) -> PodRow:
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
        devices="",
        policy="",
        group="",
        why=condition.message if condition and pending else "",
        code=condition.reason if condition else "",
        priority=view.priority,
        scheduler=view.scheduler,
        uid=view.uid,
    )


def _document(view: PodView) -> Callable[[], Document]:
    row = _row(view)
    return lambda: {
        "namespace": row.namespace,
        "pod": row.pod,
        "phase": row.phase,
        "created": rfc3339(row.created),
        "why": row.why,
        "uid": row.uid,
        "node": row.node,
        "code": row.code,
    }
