"""Node writer: what one node publishes, written with as few requests as possible; every failure is a value.

Each write is sent once: the caller decides when to try again, by what the API server shows then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from linkwise.dialects.ascend.node import NAMESPACE as DEVICE_INFO_NAMESPACE, PREFIX as DEVICE_INFO_PREFIX
from linkwise.dialects.koordinator.device_object import API_VERSION as DEVICE_VERSION, MANAGER, other_writer
from linkwise.dialects.linkwise.inventory import API_VERSION as INVENTORY_VERSION
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.api import JSON, MERGE
from linkwise.kube.perform.bind import pod_path, retry_after
from linkwise.kube.settings import PerformSettings
from linkwise.node.writes import ListedPods, Written, object_changes
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.objects import decode_node, decode_pod, salvaged_pod
from linkwise.wire.kubernetes.watch_stream import head_of, page_of, status_of
from linkwise.wire.kubernetes.writes import annotations_patch, encode, taints_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.client.api import Connection
    from linkwise.model.views import PodView, Taint

__all__ = ["NodeWriter", "Reply", "stored"]

_PODS_SECONDS: Final = 2.0
"""for a list of the node's pods: the kubelet waits for it"""
_NOT_INSTALLED_SECONDS: Final = 60.0
"""between attempts to create an object whose CRD is not installed"""
_TAINT_ATTEMPTS: Final = 3
"""at a change of taints while others change the node"""
_BUSY: Final = (408, 429)
_ROLE: Final = "`linkwise manifests rbac --agent` prints the role"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of object that is named after the node."""

    path: str
    permission: str
    not_installed: str
    prefix: str = ""
    """of its name; the node's name follows"""


_INVENTORY: Final = _Kind(
    f"/apis/{INVENTORY_VERSION}/deviceinventories",
    "get, create and patch on deviceinventories, and patch on deviceinventories/status",
    "DeviceInventory is not installed in this cluster;"
    " `linkwise manifests crd | kubectl apply --server-side -f -` installs it",
)
_DEVICE: Final = _Kind(
    f"/apis/{DEVICE_VERSION}/devices",
    "get, create and patch on devices.scheduling.koordinator.sh",
    "Koordinator's Device is not installed in this cluster; turn off the setting that publishes it",
)
_DEVICE_INFO: Final = _Kind(
    f"/api/v1/namespaces/{DEVICE_INFO_NAMESPACE}/configmaps",
    f"get, create and patch on configmaps in {DEVICE_INFO_NAMESPACE}",
    f"the namespace {DEVICE_INFO_NAMESPACE} does not exist; turn off the setting agent.ascend.device_info",
    DEVICE_INFO_PREFIX,
)
_NODE_PERMISSION: Final = "get and patch on nodes, and patch on nodes/status"
_PODS_PERMISSION: Final = "list and patch on pods"


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Spec(msgspec.Struct):
    taints: list[dict[str, object]] | None = None


class _Tainted(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, or the lack of one."""

    status: int
    """0 without any response"""
    body: bytes = b""
    failure: Written | None = None
    """None if the request succeeded"""


@dataclass(slots=True)
class NodeWriter:
    """Writes the objects of one node."""

    connection: Connection
    node: str
    """its name"""
    settings: PerformSettings = field(default_factory=PerformSettings)

    async def write_inventory(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create the DeviceInventory, or change what differs from the known one: first the spec, then the status."""
        written = await self._write(_INVENTORY, document, known)
        if written.outcome != "done" or written.document is None:
            return written
        changes = object_changes(written.document, document)
        if "status" not in changes:
            return written
        path = f"{self._path(_INVENTORY)}/status"
        result = stored(await self._send("PATCH", path, {"status": changes["status"]}, _INVENTORY.permission))
        return result if result.document is not None else replace(result, document=written.document)

    async def write_device(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create Koordinator's Device object, or change what differs; that of another writer is left alone."""
        return await self._write(_DEVICE, document, known)

    async def write_device_info(self, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create the ConfigMap of Huawei's device plugin, or change what differs; other keys of it are left alone."""
        return await self._write(_DEVICE_INFO, document, known)

    async def patch_node(self, labels: Mapping[str, object], annotations: Mapping[str, object]) -> Written:
        """Set labels and annotations of the Node; None removes one."""
        texts = {"labels": dict(labels), "annotations": dict(annotations)}
        patch = {"metadata": {name: changes for name, changes in texts.items() if changes}}
        return _viewed(await self._send("PATCH", self._node_path, patch, _NODE_PERMISSION))

    async def patch_node_status(
        self, capacity: Mapping[str, str | None], allocatable: Mapping[str, str | None]
    ) -> Written:
        """Set resources of the Node's status; None removes one."""
        amounts = {"capacity": dict(capacity), "allocatable": dict(allocatable)}
        patch = {"status": {name: changes for name, changes in amounts.items() if changes}}
        return _viewed(await self._send("PATCH", f"{self._node_path}/status", patch, _NODE_PERMISSION))

    async def set_taint(self, taint: Taint, *, present: bool) -> Written:
        """Add a taint to the Node, or remove that of its key; other taints stay as they are.

        Taints are a list, which a patch replaces as a whole: it is read first, and written only if the Node is unchanged.
        """
        own: dict[str, object] = {"key": taint.key, "effect": taint.effect}
        if taint.value:
            own["value"] = taint.value
        for left in reversed(range(_TAINT_ATTEMPTS)):
            reply = await self.call("GET", self._node_path, permission=_NODE_PERMISSION)
            read = _viewed(reply)
            if read.outcome != "done":
                return read
            node = decode_as(reply.body, _Tainted)
            taints = node.spec.taints or []
            others = [one for one in taints if one.get("key") != taint.key]
            desired = [own] if present else []
            if [one for one in taints if one not in others] == desired:
                return read
            patch = taints_patch(node.metadata.resource_version, [*others, *desired])
            reply = await self.call("PATCH", self._node_path, patch, MERGE, _NODE_PERMISSION)
            if reply.status != 409 or not left:
                return _viewed(reply)
        raise AssertionError("the last attempt returns")

    async def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]) -> Written:
        """Set annotations of a pod, None removes one; refused if the pod was deleted or has another UID."""
        body = annotations_patch(uid, annotations)
        reply = await self.call("PATCH", pod_path(namespace, name), body, MERGE, _PODS_PERMISSION)
        return reply.failure or Written("done")

    async def pods(self) -> ListedPods:
        """The pods bound to the node, by a quorum read: the watch may not have shown the newest yet."""
        selector = quote(f"spec.nodeName={self.node}", safe="")
        reply = await self.call(
            "GET", f"/api/v1/pods?fieldSelector={selector}", permission=_PODS_PERMISSION, wait=_PODS_SECONDS
        )
        if reply.failure:
            return ListedPods(problem=reply.failure.sentence)
        try:
            documents = page_of(reply.body).items
        except InputError as error:
            return ListedPods(problem=f"{self.connection.server}: the response is not a list of pods: {error}")
        readable = [_pod(document) for document in documents]
        pods = tuple(pod for pod, _ in readable if pod is not None)
        return ListedPods(pods, next((problem for _, problem in readable if problem), ""))

    @property
    def _node_path(self) -> str:
        return f"/api/v1/nodes/{quote(self.node, safe='')}"

    def _path(self, kind: _Kind) -> str:
        return f"{kind.path}/{kind.prefix}{quote(self.node, safe='')}"

    async def _write(self, kind: _Kind, document: Mapping[str, object], known: Mapping[str, object] | None) -> Written:
        """Create an object or change its spec; whether it exists may have changed since it was observed."""
        if known is None:
            reply = await self._create(kind, document)
            if reply.status != 409:
                return stored(reply)
            current = stored(await self.call("GET", self._path(kind), permission=kind.permission))
            if current.document is None:
                return current
            known = current.document
        reply = await self._change(kind, document, known)
        return stored(await self._create(kind, document) if reply.status == 404 else reply, known)

    async def _create(self, kind: _Kind, document: Mapping[str, object]) -> Reply:
        metadata = document.get("metadata")
        named = {**(metadata if isinstance(metadata, dict) else {}), "ownerReferences": await self.owners()}
        body = {name: value for name, value in document.items() if name != "status"} | {"metadata": named}
        path = f"{kind.path}?fieldManager={MANAGER}"
        reply = await self.call("POST", path, encode(body), JSON, kind.permission)
        if reply.status != 404:
            return reply
        return replace(reply, failure=Written("refused", kind.not_installed, _NOT_INSTALLED_SECONDS))

    async def _change(self, kind: _Kind, document: Mapping[str, object], known: Mapping[str, object]) -> Reply:
        changes = {part: patch for part, patch in object_changes(known, document).items() if part != "status"}
        if kind is _DEVICE and (writer := other_writer(known)):
            return Reply(0, failure=Written("refused", f"the Device object of this node is written by {writer}"))
        if not changes:
            return Reply(200, encode(known))
        if kind is _DEVICE:  # it may have got another writer since
            metadata = changes.get("metadata")
            version = _version_of(known)
            changes["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "resourceVersion": version}
        return await self._send("PATCH", self._path(kind), changes, kind.permission)

    async def owners(self) -> list[dict[str, str]]:
        """The Node as the owner of an object, which is then deleted with it; none if the Node can't be read."""
        reply = await self.call("GET", self._node_path, permission=_NODE_PERMISSION)
        try:
            uid = "" if reply.failure else head_of(msgspec.Raw(reply.body)).uid
        except InputError:
            uid = ""
        return [{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": uid}] if uid else []

    async def _send(self, method: str, path: str, patch: Mapping[str, object], permission: str) -> Reply:
        return await self.call(method, path, encode(patch), MERGE, permission)

    async def call(  # noqa: PLR0913, PLR0917 - a request has these parts
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = JSON,
        permission: str = "",
        wait: float = 0.0,
    ) -> Reply:
        """Send a request; `permission` is what to grant if it is forbidden."""
        if method == "PATCH":
            path = f"{path}?fieldManager={MANAGER}"
        try:
            answer = await self.connection.call(method, path, body, content, wait or self.settings.wait)
        except ClusterError as error:
            return Reply(0, failure=Written("unreachable", str(error)))
        if answer.status < 300:
            return Reply(answer.status, answer.body)
        sentence = status_of(answer.body).message or f"the API server answered {answer.status}"
        if answer.status in _BUSY or answer.status >= 500:
            failure = Written("unreachable", sentence, retry_after(answer))
        else:
            role = f"; grant {permission} ({_ROLE})" if answer.status == 403 else ""
            failure = Written("refused", f"{sentence}{role}")
        return Reply(answer.status, answer.body, failure)


def stored(reply: Reply, known: Mapping[str, object] | None = None) -> Written:
    """The result of a write of an object."""
    if reply.failure:
        return replace(reply.failure, document=known)
    try:
        return Written("done", document=decode_as(reply.body, dict[str, object]))
    except InputError as error:
        return Written("unreachable", f"the response is not an object: {error}")


def _viewed(reply: Reply) -> Written:
    """The result of a write of the Node."""
    if reply.failure:
        return reply.failure
    try:
        return Written("done", view=decode_node(reply.body))
    except InputError as error:
        return Written("unreachable", f"the response is not a node: {error}")


def _pod(document: msgspec.Raw) -> tuple[PodView | None, str]:
    """A pod, as far as it can be read, and why it can't be read completely."""
    try:
        return decode_pod(bytes(document)), ""
    except InputError as error:
        return salvaged_pod(document), f"a pod of this node can't be read: {error}"


def _version_of(known: Mapping[str, object]) -> object:
    metadata = known.get("metadata")
    return metadata.get("resourceVersion") if isinstance(metadata, dict) else None
