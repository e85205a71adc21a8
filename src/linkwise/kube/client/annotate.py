"""Annotations of nodes, written as a person or a program that runs once does: one merge patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, NotFoundError
from linkwise.kube.client.api import MERGE
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.client.api import Connection

__all__ = ["annotate_node"]

MANAGER: Final = "linkwise"
WAIT: Final = 30.0  # seconds


async def annotate_node(connection: Connection, name: str, annotations: Mapping[str, str], *, dry: bool) -> None:
    """Set annotations of a node and leave its others as they are; ClusterError if the API server refuses.

    Not by server-side apply: that would remove whatever `linkwise apply` has set on the node before.
    """
    body = msgspec.json.encode({"metadata": {"annotations": dict(annotations)}})
    path = f"/api/v1/nodes/{quote(name)}?fieldManager={MANAGER}{'&dryRun=All' if dry else ''}"
    answer = await connection.call("PATCH", path, body, MERGE, WAIT)
    if answer.status == 200:
        return
    message = status_of(answer.body).message or f"the API server answered {answer.status}"
    if answer.status == 404:
        raise NotFoundError(f"node {name} was deleted: {message}")
    raise ClusterError(f"may not patch nodes: {message}" if answer.status == 403 else f"node {name}: {message}")
