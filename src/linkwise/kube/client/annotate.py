"""Annotations of objects, written as a person or a program that runs once does: by a merge patch."""

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
    from linkwise.kube.client.apply import Kind
    from linkwise.net.http.client import Answer

__all__ = ["annotate_node", "annotate_object", "update_annotation"]

MANAGER: Final = "linkwise"
WAIT: Final = 30.0  # seconds
ATTEMPTS: Final = 10


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


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
            metadata = decode_as(answer.body, _Object).metadata
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
