"""Annotations of nodes, written as a person or a program that runs once does: by a merge patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError, NotFoundError
from linkwise.kube.client.api import MERGE
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.kube.client.api import Connection
    from linkwise.net.http.client import Answer

__all__ = ["annotate_node", "update_annotation"]

MANAGER: Final = "linkwise"
WAIT: Final = 30.0  # seconds
ATTEMPTS: Final = 10


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


async def annotate_node(connection: Connection, name: str, annotations: Mapping[str, str], *, dry: bool) -> None:
    """Set annotations of a node and leave its others as they are; ClusterError if the API server refuses.

    Not by server-side apply: that would remove whatever `linkwise apply` has set on the node before.
    """
    body = msgspec.json.encode({"metadata": {"annotations": dict(annotations)}})
    path = f"/api/v1/nodes/{quote(name)}?fieldManager={MANAGER}{'&dryRun=All' if dry else ''}"
    answer = await connection.call("PATCH", path, body, MERGE, WAIT)
    if answer.status != 200:
        raise _refused(name, answer, "patch")


async def update_annotation(
    connection: Connection, name: str, key: str, change: Callable[[str], str | None], *, dry: bool
) -> bool:
    """Change one annotation of a node by what it is now; whether it differs. None removes it.

    Two who change it at once both get their way: the write is refused if the node changed meanwhile, and is repeated.

    Raises:
        ClusterError: the API server refuses, or the node changes all the time.
    """
    path = f"/api/v1/nodes/{quote(name)}"
    for _ in range(ATTEMPTS):
        answer = await connection.call("GET", path, wait=WAIT)
        if answer.status != 200:
            raise _refused(name, answer, "get")
        try:
            node = decode_as(answer.body, _Node)
        except InputError as error:
            raise ClusterError(f"node {name}: the API server's answer can't be read: {error}") from error
        before = (node.metadata.annotations or {}).get(key)
        after = change(before or "")
        if after == before:
            return False
        metadata = {"resourceVersion": node.metadata.resource_version, "annotations": {key: after}}
        flags = f"?fieldManager={MANAGER}{'&dryRun=All' if dry else ''}"
        answer = await connection.call("PATCH", path + flags, msgspec.json.encode({"metadata": metadata}), MERGE, WAIT)
        if answer.status == 200:
            return True
        if answer.status != 409:
            raise _refused(name, answer, "patch")
    raise ClusterError(f"node {name}: it changed {ATTEMPTS} times while its annotation was written; try again")


def _refused(name: str, answer: Answer, verb: str) -> ClusterError:
    message = status_of(answer.body).message or f"the API server answered {answer.status}"
    if answer.status == 404:
        return NotFoundError(f"node {name} was deleted: {message}")
    return ClusterError(f"may not {verb} nodes: {message}" if answer.status == 403 else f"node {name}: {message}")
