"""Deletion of objects as kubectl does it: in the background, and then waiting until they are gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError
from linkwise.wire.kubernetes.watch_stream import head_of, page_of, status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Answer, Connection
    from linkwise.kube.client.apply import Kind

__all__ = ["Deleted", "delete_object", "names_of", "wait_until_gone"]

WAIT: Final = 30.0  # seconds
_FIRST_PAUSE: Final = 0.05  # seconds
_LONGEST_PAUSE: Final = 1.0  # seconds
_PAGE: Final = 500


class _Meta(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_OBJECT: Final = msgspec.json.Decoder(_Object)


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
        return _OBJECT.decode(answer.body).metadata.uid
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _message(answer: Answer) -> str:
    return status_of(answer.body).message or f"the API server answered {answer.status}"
