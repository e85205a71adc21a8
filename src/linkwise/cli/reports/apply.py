"""Body of `linkwise apply`: reads and checks all objects, then applies them one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.cli.inputs.manifests import load_manifests
from linkwise.cli.options.files import file_name
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.apply import Applying
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkwise.kube.client.api import Connection
    from linkwise.kube.client.apply import Applied, Kind
    from linkwise.manifests.objects import Manifest

__all__ = ["SourceObject", "read_objects", "send"]


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object of a manifest file."""

    document: dict[str, Any]
    version: str
    kind: str
    name: str
    namespace: str
    """metadata.namespace; may be empty"""
    place: str
    """file, line and column"""


def read_objects(files: Sequence[str], namespace: str | None) -> list[SourceObject]:
    """All objects of all files; InputError names file, line and column of an invalid one."""
    return [_object(file, manifest, namespace) for file in files for manifest in load_manifests(file)]


def send(  # noqa: PLR0913 - the options of the command
    objects: Sequence[SourceObject],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    *,
    dry: bool,
    force: bool,
) -> bool:
    """Apply the objects in the order of the files and print each result; False if any was refused."""

    async def work(connection: Connection) -> bool:
        applying = Applying(connection, dry, force)
        kinds = [await _kind(applying, one) for one in objects]
        success = True
        for one, kind in zip(objects, kinds, strict=True):
            target = (one.namespace or namespace or connection.namespace) if kind.namespaced else ""
            applied = await applying.apply(kind, target, one.name, _with_namespace(one, target))
            success = _print(applied, one, dry=dry) and success
        return success

    return with_cluster(kubeconfig, context, work)


async def _kind(applying: Applying, one: SourceObject) -> Kind:
    try:
        return await applying.kind(one.version, one.kind)
    except NotSentError:
        raise  # the server can't be reached, which has nothing to do with the object
    except ClusterError as error:
        raise type(error)(f"{one.place}: {error}") from error


def _with_namespace(one: SourceObject, namespace: str) -> dict[str, Any]:
    if not namespace or one.namespace:
        return one.document
    return {**one.document, "metadata": {**one.document["metadata"], "namespace": namespace}}


def _print(applied: Applied, one: SourceObject, *, dry: bool) -> bool:
    for warning in applied.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if applied.outcome is None:
        click.echo(f"linkwise: {one.place}: {applied.name}: {applied.error}", err=True)
        return False
    click.echo(f"{applied.name} {applied.outcome}{' (server dry run)' if dry else ''}")
    return True


def _object(file: str, manifest: Manifest, namespace: str | None) -> SourceObject:
    document, name = manifest.document, file_name(file)

    def error(key: str, sentence: str) -> InputError:
        place = manifest.place(key)
        return InputError(f"{name}:{place.line}:{place.column}: {sentence}")

    version, kind, meta = document.get("apiVersion"), document.get("kind"), document.get("metadata")
    for key, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise error(
                key, f"{key} is missing; every object needs kind and apiVersion, such as kind: Pod, apiVersion: v1"
            )
    own, space = (meta.get("name"), meta.get("namespace") or "") if isinstance(meta, dict) else (None, "")
    if not isinstance(own, str) or not own:
        more = "; generateName can't be applied" if isinstance(meta, dict) and meta.get("generateName") else ""
        raise error("metadata", f"{kind} has no metadata.name{more}")
    if not isinstance(space, str):
        raise error("namespace", f"{kind} {own}: metadata.namespace is not text")
    if namespace and space and space != namespace:
        raise error("namespace", f"{kind} {own} is in namespace {space}, but -n is {namespace}")
    place = manifest.place()
    return SourceObject(document, str(version), str(kind), own, space, f"{name}:{place.line}:{place.column}")
