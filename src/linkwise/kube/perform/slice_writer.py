"""Slice writer: the ResourceSlices of one node, and the claims that its driver prepares; every failure is a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.dialects.koordinator.device_object import MANAGER
from linkwise.dialects.kubernetes.claims.driver import API_VERSION
from linkwise.kube.client.api import JSON
from linkwise.kube.perform.node_writer import stored
from linkwise.node.writes import Written
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.perform.node_writer import NodeWriter, Reply

__all__ = ["SliceWriter"]

_SLICES: Final = f"/apis/{API_VERSION}/resourceslices"
_SLICE_PERMISSION: Final = "get, list, watch, create, update and delete on resourceslices"
_CLAIM_PERMISSION: Final = "get on resourceclaims"
_NOT_SERVED: Final = f"this cluster does not serve {API_VERSION}, which Kubernetes has since 1.34"
_NOT_SERVED_SECONDS: Final = 60.0
"""between attempts"""
_GONE: Final = 404
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class SliceWriter:
    """Writes slices, which belong to the Node, and reads claims."""

    writer: NodeWriter
    """of the node"""

    async def write_slice(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create a slice, or replace the known one; whether there is one may have changed since."""
        path = f"{_SLICES}/{quote(_text(document, 'name'), safe='')}"
        if known is None:
            reply = await self._create(document)
            if reply.status != _CONFLICT:
                return stored(reply)
        else:
            reply = await self._replace(path, document, known)
            if reply.status == _GONE:
                return stored(await self._create(document))
            if reply.status != _CONFLICT:
                return stored(reply)
        current = stored(await self.writer.call("GET", path, permission=_SLICE_PERMISSION))
        if current.document is None:
            return replace(current, outcome="unreachable")  # it was removed in between
        return stored(await self._replace(path, document, current.document))

    async def delete_slice(self, name: str) -> Written:
        """Delete a slice, if there is one."""
        reply = await self.writer.call("DELETE", f"{_SLICES}/{quote(name, safe='')}", permission=_SLICE_PERMISSION)
        return Written("done") if reply.status == _GONE else reply.failure or Written("done")

    async def claim(self, namespace: str, name: str) -> Written:
        """The claim by a quorum read: the kubelet may know a newer one than any watch."""
        path = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
        return stored(await self.writer.call("GET", path, permission=_CLAIM_PERMISSION))

    async def _create(self, document: Mapping[str, object]) -> Reply:
        body = _with_metadata(document, {"ownerReferences": await self.writer.owners()})
        path = f"{_SLICES}?fieldManager={MANAGER}"
        reply = await self.writer.call("POST", path, encode(body), JSON, _SLICE_PERMISSION)
        if reply.status != _GONE:
            return reply
        return replace(reply, failure=Written("refused", _NOT_SERVED, _NOT_SERVED_SECONDS))

    async def _replace(self, path: str, document: Mapping[str, object], known: Mapping[str, object]) -> Reply:
        metadata = known.get("metadata")
        kept = (
            {name: metadata.get(name) for name in ("uid", "resourceVersion", "ownerReferences", "labels")}
            if isinstance(metadata, dict)
            else {}
        )
        body = _with_metadata(document, {name: value for name, value in kept.items() if value})
        return await self.writer.call("PUT", f"{path}?fieldManager={MANAGER}", encode(body), JSON, _SLICE_PERMISSION)


def _with_metadata(document: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    metadata = document.get("metadata")
    return {**document, "metadata": {**(metadata if isinstance(metadata, dict) else {}), **more}}


def _text(document: Mapping[str, object], name: str) -> str:
    metadata = document.get("metadata")
    value = metadata.get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
