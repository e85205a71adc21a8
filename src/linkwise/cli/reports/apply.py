"""Objects of files, checked all before the first of them is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.cli.inputs.manifests import load_manifests
from linkwise.cli.options.files import file_name
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.apply import Applying
from linkwise.net.http_client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkwise.cli.inputs.manifests import Manifest
    from linkwise.kube.client.api import Connection
    from linkwise.kube.client.apply import Applied, Kind

__all__ = ["Sent", "read_objects", "send"]


@dataclass(frozen=True, slots=True)
class Sent:
    """One object, and where it stands."""

    document: dict[str, Any]
    version: str
    kind: str
    name: str
    namespace: str
    """as it says itself; may be empty"""
    place: str
    """file, line and column"""


def read_objects(files: Sequence[str], namespace: str | None) -> list[Sent]:
    """All objects of all files; InputError names file, line and column of what can't be sent."""
    return [_object(file, manifest, namespace) for file in files for manifest in load_manifests(file)]


def send(  # noqa: PLR0913 - as the command has them
    objects: Sequence[Sent],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    *,
    dry: bool,
    force: bool,
) -> bool:
    """Apply all, in the order of the files, and tell of each; whether the server took them all."""

    async def work(connection: Connection) -> bool:
        applying = Applying(connection, dry, force)
        kinds = [await _kind(applying, one) for one in objects]
        done = True
        for one, kind in zip(objects, kinds, strict=True):
            where = (one.namespace or namespace or connection.namespace) if kind.namespaced else ""
            done = _tell(await applying.apply(kind, where, one.name, _placed(one, where)), one, dry=dry) and done
        return done

    return with_cluster(kubeconfig, context, work)


async def _kind(applying: Applying, one: Sent) -> Kind:
    try:
        return await applying.kind(one.version, one.kind)
    except NotSentError:
        raise  # the object has no part in it
    except ClusterError as error:
        raise type(error)(f"{one.place}: {error}") from error


def _placed(one: Sent, namespace: str) -> dict[str, Any]:
    if not namespace or one.namespace:
        return one.document
    return {**one.document, "metadata": {**one.document["metadata"], "namespace": namespace}}


def _tell(applied: Applied, one: Sent, *, dry: bool) -> bool:
    if applied.outcome is None:
        click.echo(f"linkwise: {one.place}: {applied.name}: {applied.error}", err=True)
        return False
    click.echo(f"{applied.name} {applied.outcome}{' (server dry run)' if dry else ''}")
    return True


def _object(file: str, manifest: Manifest, namespace: str | None) -> Sent:
    document, name = manifest.document, file_name(file)

    def mistake(key: str, sentence: str) -> InputError:
        place = manifest.place(key)
        return InputError(f"{name}:{place.line}:{place.column}: {sentence}")

    version, kind, meta = document.get("apiVersion"), document.get("kind"), document.get("metadata")
    for key, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str) or not value:
            raise mistake(key, f"{key} is missing: every object says what it is, such as kind: Pod, apiVersion: v1")
    own, space = (meta.get("name"), meta.get("namespace") or "") if isinstance(meta, dict) else (None, "")
    if not isinstance(own, str) or not own:
        more = "; generateName can't be applied" if isinstance(meta, dict) and meta.get("generateName") else ""
        raise mistake("metadata", f"{kind} has no metadata.name{more}")
    if not isinstance(space, str):
        raise mistake("namespace", f"{kind} {own}: the namespace is no text")
    if namespace and space and space != namespace:
        raise mistake("namespace", f"{kind} {own} is in namespace {space}, and -n says {namespace}")
    place = manifest.place()
    return Sent(document, str(version), str(kind), own, space, f"{name}:{place.line}:{place.column}")
