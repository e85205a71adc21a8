"""Kinds by the words that users type for them: plural, singular and short names, with or without the API group."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.objects import Kind
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.kube.client.api import Connection

__all__ = ["Served", "find_kind", "served_kinds"]

WAIT: Final = 30.0  # seconds
_CORE: Final = "v1"


class _Resource(msgspec.Struct, rename="camel"):
    name: str = ""
    singular_name: str = ""
    kind: str = ""
    namespaced: bool = False
    short_names: list[str] | None = None
    verbs: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _Version = msgspec.field(default_factory=_Version)


class _Groups(msgspec.Struct):
    groups: list[_Group] | None = None


class Served(msgspec.Struct, frozen=True):
    """A kind, and the words for it."""

    kind: Kind
    words: frozenset[str]
    verbs: frozenset[str]


_RESOURCES: Final = msgspec.json.Decoder(_Resources)
_GROUPS: Final = msgspec.json.Decoder(_Groups)


async def find_kind(connection: Connection, word: str) -> Kind:
    """The kind that a word stands for, the core group first; InputError suggests a similar one."""
    wanted = word.lower()
    core = await _served(connection, _CORE)
    for one in core:
        if wanted in one.words:
            return one.kind
    others = await _other_groups(connection)
    for one in others:
        if wanted in one.words:
            return one.kind
    near = get_close_matches(wanted, {known for one in (*core, *others) for known in one.words}, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; is its CRD installed?"
    raise InputError(f'the server does not have a resource type "{word}"{hint}')


async def served_kinds(connection: Connection) -> list[Served]:
    """All kinds with their words, the core group first."""
    return [*await _served(connection, _CORE), *await _other_groups(connection)]


async def _other_groups(connection: Connection) -> list[Served]:
    answer = await connection.call("GET", "/apis", wait=WAIT)
    groups = (_GROUPS.decode(_body(connection, "/apis", answer.status, answer.body))).groups or []
    lists = await asyncio.gather(*(_served(connection, group.preferred_version.group_version) for group in groups))
    return [one for kinds in lists for one in kinds]


async def _served(connection: Connection, version: str) -> list[Served]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    answer = await connection.call("GET", path, wait=WAIT)
    if answer.status in {404, 503}:
        return []  # an aggregated API whose server is away must not hide the others
    try:
        resources = _RESOURCES.decode(_body(connection, path, answer.status, answer.body)).resources or []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterError(f"{connection.server}: invalid discovery document at {path}: {error}") from error
    return [_one(version, one) for one in resources if "/" not in one.name]


def _one(version: str, resource: _Resource) -> Served:
    group = version.rpartition("/")[0]
    names = {resource.name, resource.singular_name or resource.kind.lower(), resource.kind.lower()}
    grouped: Iterable[str] = (f"{name}.{group}" for name in names) if group else ()
    words = frozenset({*names, *(resource.short_names or ()), *grouped})
    kind = Kind(version, resource.kind, resource.name, resource.namespaced)
    return Served(kind, words, frozenset(resource.verbs or ()))


def _body(connection: Connection, path: str, status: int, body: bytes) -> bytes:
    if status == 200:
        return body
    message = status_of(body).message
    if status == 403:
        raise ClusterError(f"may not get {path}: {message}; the cluster role system:discovery grants it")
    raise ClusterError(f"{connection.server}: GET {path} failed: {status} {message}")
