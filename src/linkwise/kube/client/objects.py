"""Changes of objects as kubectl makes them: server-side apply as manager `linkwise`, merge patch, deletion.

Deletion is in the background, and then waits until the objects are gone.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError, NotFoundError
from linkwise.kube.client.api import MERGE
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.watch_stream import head_of, page_of, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.kube.client.api import Answer, Connection

__all__ = [
    "Applied",
    "Applying",
    "Deleted",
    "Kind",
    "Outcome",
    "annotate_node",
    "annotate_object",
    "delete_object",
    "names_of",
    "update_annotation",
    "wait_until_gone",
]

APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "linkwise"
WAIT: Final = 30.0  # seconds

Outcome = Literal["created", "configured", "unchanged"]
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
ATTEMPTS: Final = 10  # kubelets and controllers write the same objects at any time
_FIRST_PAUSE: Final = 0.05  # seconds
_LONGEST_PAUSE: Final = 1.0  # seconds
_PAGE: Final = 500


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_RESOURCES: Final = msgspec.json.Decoder(_Resources)


_OBJECT: Final = msgspec.json.Decoder(_Object)


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource as the API server serves it."""

    version: str
    """apiVersion: v1, apps/v1"""
    kind: str
    plural: str
    namespaced: bool

    @property
    def shown(self) -> str:
        """As kubectl writes it before a name: pod, deployment.apps."""
        group = self.version.rpartition("/")[0]
        return f"{self.kind.lower()}.{group}" if group else self.kind.lower()

    def path(self, namespace: str, name: str) -> str:
        """API path of one object."""
        root = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        inside = f"/namespaces/{quote(namespace)}" if self.namespaced else ""
        return f"{root}{inside}/{self.plural}/{quote(name)}"


@dataclass(frozen=True, slots=True)
class Applied:
    """The result for one object."""

    name: str
    """as kubectl writes it: pod/train"""
    outcome: Outcome | None
    error: str = ""
    """why it was not applied"""
    warnings: tuple[str, ...] = ()
    """of the API server and of admission webhooks"""


@dataclass(slots=True)
class Applying:
    """Applies objects to one cluster."""

    connection: Connection
    dry: bool = False
    """server-side dry run"""
    force: bool = False
    """whether to take over fields that other managers own"""
    _kinds: dict[str, list[_Resource]] = field(default_factory=dict)

    async def kind(self, version: str, kind: str) -> Kind:
        """Look up a kind in discovery; ClusterError if it is not served."""
        if version not in self._kinds:
            self._kinds[version] = await self._served(version)
        resources = self._kinds[version]
        for one in resources:
            if one.kind == kind and "/" not in one.name:
                return Kind(version, kind, one.name, one.namespaced)
        near = get_close_matches(kind, {one.kind for one in resources}, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; is its CRD installed?"
        raise ClusterError(f'no matches for kind "{kind}" in version "{version}"{hint}')

    async def apply(self, kind: Kind, namespace: str, name: str, document: Mapping[str, Any]) -> Applied:
        """Apply one object; a refusal is a result, not an exception, since other objects may follow."""
        path, shown = kind.path(namespace, name), f"{kind.shown}/{name}"
        before = await self.connection.call("GET", path, wait=WAIT)
        if before.status not in {200, 404}:
            return Applied(shown, None, _refusal("get", kind, namespace, before))
        query = f"fieldManager={MANAGER}&fieldValidation=Strict"
        query += ("&dryRun=All" if self.dry else "") + ("&force=true" if self.force else "")
        body = msgspec.json.encode(document)
        answer = await self.connection.call("PATCH", f"{path}?{query}", body, APPLY, WAIT)
        warnings = tuple(filter(None, map(_warning, answer.warnings)))
        if answer.status not in {200, 201}:
            return Applied(shown, None, _refusal("patch", kind, namespace, answer), warnings)
        if answer.status == 201 or before.status == 404:
            return Applied(shown, "created", warnings=warnings)
        return Applied(shown, "unchanged" if _version(before) == _version(answer) else "configured", warnings=warnings)

    async def _served(self, version: str) -> list[_Resource]:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = await self.connection.call("GET", quote(path), wait=WAIT)
        if answer.status == 404:
            return []
        server, message = self.connection.server, status_of(answer.body).message
        if answer.status == 403:
            raise ClusterError(f"may not get {path}: {message}; the cluster role system:discovery grants it")
        if answer.status == 401:
            raise ClusterError(f"{server}: not authenticated (401 {message}); log in again, as for kubectl")
        if answer.status != 200:
            raise ClusterError(f"{server}: GET {path} failed: {answer.status} {message}")
        try:
            return _RESOURCES.decode(answer.body).resources or []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterError(f"{server}: invalid discovery document at {path}: {error}") from error


def _refusal(verb: str, kind: Kind, namespace: str, answer: Answer) -> str:
    status = status_of(answer.body)
    message = status.message or f"the API server answered {answer.status}"
    if answer.status == 403 and not status.denied:
        where = f" in namespace {namespace}" if kind.namespaced else ""
        return f"may not {verb} {kind.plural}{where}: {message}"
    if answer.status == 409:
        return f"{message}; --force-conflicts takes these fields over"
    return message


def _warning(header: str) -> str:
    """The text of a Warning header; empty if it is not one of the API server."""
    match = _WARNING.match(header)
    return re.sub(r"\\(.)", r"\1", match[1]) if match else ""


def _version(answer: Answer) -> str:
    try:
        return _OBJECT.decode(answer.body).metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


class _AnnotatedMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class _AnnotatedObject(msgspec.Struct):
    metadata: _AnnotatedMeta


async def annotate_node(connection: Connection, name: str, annotations: Mapping[str, str], *, dry: bool) -> None:
    """Set annotations of a node and leave its others as they are; ClusterError if the API server refuses.

    Not by server-side apply: that would remove whatever `linkwise apply` has set on the node before.
    """
    body = msgspec.json.encode({"metadata": {"annotations": dict(annotations)}})
    answer = await connection.call("PATCH", f"{_node(name)}{_flags(dry=dry)}", body, MERGE, WAIT)
    if answer.status != 200:
        raise _refused(f"node {name}", "nodes", answer, "patch")


async def update_annotation(
    connection: Connection, name: str, key: str, change: Callable[[str], str | None], *, dry: bool
) -> bool:
    """Change one annotation of a node by what it is now; whether it differs. None removes it.

    Raises:
        ClusterError: the API server refuses, or the node changes all the time.
    """

    def changes(annotations: Mapping[str, str]) -> dict[str, str | None]:
        return {key: change(annotations.get(key, ""))}

    return await _update(connection, (_node(name), f"node {name}", "nodes"), changes, dry=dry)


async def annotate_object(  # noqa: PLR0913 - an object has that many parts
    connection: Connection,
    kind: Kind,
    namespace: str,
    name: str,
    changes: Mapping[str, str | None],
    *,
    overwrite: bool,
    dry: bool,
) -> bool:
    """Set and remove annotations of any object; whether they differ. None removes one.

    Raises:
        InputError: an annotation has another value, and may not be overwritten.
        ClusterError: the API server refuses, or the object changes all the time.
    """

    def checked(annotations: Mapping[str, str]) -> Mapping[str, str | None]:
        for key, value in changes.items():
            if value is not None and not overwrite and annotations.get(key, value) != value:
                raise InputError(
                    f"{kind.shown}/{name}: {key} already has the value {annotations[key]!r}; --overwrite replaces it"
                )
        return changes

    target = (kind.path(namespace, name), f"{kind.shown}/{name}", kind.plural)
    return await _update(connection, target, checked, dry=dry)


async def _update(
    connection: Connection,
    target: tuple[str, str, str],
    changes: Callable[[Mapping[str, str]], Mapping[str, str | None]],
    *,
    dry: bool,
) -> bool:
    """Change annotations of an object, given by its path, name and plural, by what they are now; whether they differ.

    Two who change it at once both get their way: the write is refused if the object changed meanwhile, and is repeated.
    """
    path, what, plural = target
    for _ in range(ATTEMPTS):
        answer = await connection.call("GET", path, wait=WAIT)
        if answer.status != 200:
            raise _refused(what, plural, answer, "get")
        try:
            metadata = decode_as(answer.body, _AnnotatedObject).metadata
        except InputError as error:
            raise ClusterError(f"{what}: the API server's answer can't be read: {error}") from error
        before = metadata.annotations or {}
        different = {key: value for key, value in changes(before).items() if before.get(key) != value}
        if not different:
            return False
        body = {"metadata": {"resourceVersion": metadata.resource_version, "annotations": different}}
        answer = await connection.call("PATCH", f"{path}{_flags(dry=dry)}", msgspec.json.encode(body), MERGE, WAIT)
        if answer.status == 200:
            return True
        if answer.status != 409:
            raise _refused(what, plural, answer, "patch")
    raise ClusterError(f"{what}: it changed {ATTEMPTS} times while its annotations were written; try again")


def _node(name: str) -> str:
    return f"/api/v1/nodes/{quote(name)}"


def _flags(*, dry: bool) -> str:
    return f"?fieldManager={MANAGER}{'&dryRun=All' if dry else ''}"


def _refused(what: str, plural: str, answer: Answer, verb: str) -> ClusterError:
    message = status_of(answer.body).message or f"the API server answered {answer.status}"
    if answer.status == 404:
        return NotFoundError(f"{what} not found: {message}")
    return ClusterError(f"may not {verb} {plural}: {message}" if answer.status == 403 else f"{what}: {message}")


class _DeletedMeta(msgspec.Struct):
    uid: str = ""


class _DeletedObject(msgspec.Struct):
    metadata: _DeletedMeta = msgspec.field(default_factory=_DeletedMeta)


_DELETED: Final = msgspec.json.Decoder(_DeletedObject)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result for one object."""

    outcome: Literal["deleted", "not found", "refused"]
    uid: str = ""
    """of the object that is being deleted"""
    error: str = ""


async def delete_object(  # noqa: PLR0913 - the parts of a request
    connection: Connection, kind: Kind, namespace: str, name: str, *, grace: int | None = None, dry: bool = False
) -> Deleted:
    """Ask for the deletion of an object; a refusal is a result, because other objects may follow."""
    path = kind.path(namespace, name)
    before = await connection.call("GET", path, wait=WAIT)
    if before.status == 404:
        return Deleted("not found", error=_message(before))
    # The UID makes sure that an object which was created again meanwhile is left alone.
    uid = _uid(before) if before.status == 200 else ""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    query = "?dryRun=All" if dry else ""
    answer = await connection.call("DELETE", f"{path}{query}", msgspec.json.encode(options), wait=WAIT)
    if answer.status in {200, 202}:
        return Deleted("deleted", uid)
    if answer.status == 404:
        return Deleted("not found", error=_message(answer))
    verb = f"may not delete {kind.plural}: " if answer.status == 403 else ""
    return Deleted("refused", uid, f"{verb}{_message(answer)}")


async def wait_until_gone(connection: Connection, kind: Kind, namespace: str, name: str, uid: str) -> None:
    """Return once the object does not exist any more, or another one has its name."""
    pause = _FIRST_PAUSE
    while True:
        answer = await connection.call("GET", kind.path(namespace, name), wait=WAIT)
        if answer.status == 404 or (answer.status == 200 and uid and _uid(answer) != uid):
            return
        if answer.status in {401, 403}:
            raise ClusterError(
                f"may not get {kind.plural}, so that the end of {name} can't be awaited: {_message(answer)}"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def names_of(connection: Connection, kind: Kind, namespace: str, selector: str) -> list[str]:
    """Names of the objects of a kind that a label selector matches; all of them if it is empty."""
    names: list[str] = []
    more = ""
    while True:
        query = f"?limit={_PAGE}" + (f"&labelSelector={quote(selector, safe='')}" if selector else "")
        path = kind.path(namespace, "").rstrip("/")
        answer = await connection.call("GET", f"{path}{query}{more}", wait=WAIT)
        if answer.status != 200:
            verb = f"may not list {kind.plural}: " if answer.status == 403 else ""
            raise ClusterError(f"{verb}{_message(answer)}")
        page = page_of(answer.body)
        names += [head_of(item).name for item in page.items]
        if not page.rest:
            return names
        more = f"&continue={quote(page.rest, safe='')}"


def _uid(answer: Answer) -> str:
    try:
        return _DELETED.decode(answer.body).metadata.uid
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _message(answer: Answer) -> str:
    return status_of(answer.body).message or f"the API server answered {answer.status}"
