"""Objects that commands change: found in the cluster or in manifests, then applied, annotated or deleted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from linkwise.assembly.cluster_reader import with_cluster
from linkwise.cli.inputs.manifests import load_manifests
from linkwise.cli.options.io import file_name
from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.objects import Applying, annotate_object, delete_object, names_of, wait_until_gone
from linkwise.kube.client.resources import find_kind
from linkwise.net.http.client import NotSentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from linkwise.cli.options.kinds import Target
    from linkwise.kube.client.api import Connection
    from linkwise.kube.client.objects import Applied, Kind
    from linkwise.manifests.objects import Manifest

__all__ = ["Deletion", "FoundObject", "Objects", "SourceObject", "annotate", "delete", "read_objects", "send"]


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object by its kind and name; it need not exist."""

    kind: Kind
    namespace: str
    name: str

    @property
    def shown(self) -> str:
        """As kubectl writes it: pod/train."""
        return f"{self.kind.shown}/{self.name}"


@dataclass(slots=True)
class Objects:
    """Finds objects in one cluster."""

    connection: Connection
    namespace: str
    """the one that is meant where none is named"""
    _kinds: dict[str, Kind] = field(default_factory=dict)

    async def find(self, targets: Sequence[Target], selector: str) -> list[FoundObject]:
        """The objects of the targets; those without a name by the label selector, in the order of the API server."""
        objects: list[FoundObject] = []
        for target in targets:
            if target.kind not in self._kinds:
                self._kinds[target.kind] = await find_kind(self.connection, target.kind)
            kind = self._kinds[target.kind]
            namespace = self.namespace if kind.namespaced else ""
            names = [target.name] if target.name else await names_of(self.connection, kind, namespace, selector)
            objects += [FoundObject(kind, namespace, name) for name in names]
        return objects


def annotate(  # noqa: PLR0913 - the options of the command
    targets: tuple[Target, ...],
    selector: str,
    changes: Mapping[str, str | None],
    namespace: str | None,
    *,
    kubeconfig: Path | None,
    context: str | None,
    overwrite: bool,
    dry: bool,
) -> bool:
    """Annotate the objects and print each result; False if any was refused or not found."""

    async def work(connection: Connection) -> bool:
        objects = await Objects(connection, namespace or connection.namespace).find(targets, selector)
        if not objects:
            click.echo("no resources found", err=True)
        success = True
        for one in objects:
            try:
                changed = await annotate_object(
                    connection, one.kind, one.namespace, one.name, changes, overwrite=overwrite, dry=dry
                )
            except NotSentError:
                raise  # the server can't be reached: the others would fail too
            except ClusterError as error:
                click.echo(f"linkwise: {error}", err=True)
                success = False
                continue
            result = "annotated" if changed else "unchanged"
            click.echo(f"{one.shown} {result}{' (server dry run)' if dry else ''}")
        return success

    return with_cluster(kubeconfig, context, work)


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


@dataclass(frozen=True, slots=True)
class Deletion:
    """What to delete, and how."""

    targets: tuple[Target, ...]
    files: tuple[str, ...]
    selector: str
    namespace: str | None
    ignore_missing: bool
    wait: bool
    timeout: float
    """seconds to wait; 0 for ever"""
    grace: int | None
    dry: bool
    names_only: bool
    """whether the name alone is printed"""


def delete(deletion: Deletion, kubeconfig: Path | None, context: str | None) -> bool:
    """Delete the objects and print each result; False if any was refused or not found."""
    sources = read_objects(deletion.files, deletion.namespace)

    async def work(connection: Connection) -> bool:
        namespace = deletion.namespace or connection.namespace
        objects = await _of_files(connection, sources, namespace)
        objects += await Objects(connection, namespace).find(deletion.targets, deletion.selector)
        if not objects and not deletion.files:
            click.echo("no resources found", err=True)
        return await _delete_all(connection, objects, deletion)

    return with_cluster(kubeconfig, context, work)


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


async def _of_files(connection: Connection, sources: Sequence[SourceObject], namespace: str) -> list[FoundObject]:
    """The objects of files, the last one first: what was created later may need what was created before."""
    applying = Applying(connection)
    objects = []
    for one in sources:
        kind = await applying.kind(one.version, one.kind)
        objects.append(FoundObject(kind, (one.namespace or namespace) if kind.namespaced else "", one.name))
    return objects


async def _delete_all(connection: Connection, objects: Sequence[FoundObject], deletion: Deletion) -> bool:
    success, leaving = True, []
    for one in objects:
        result = await delete_object(
            connection, one.kind, one.namespace, one.name, grace=deletion.grace, dry=deletion.dry
        )
        match result.outcome:
            case "deleted":
                click.echo(one.shown if deletion.names_only else f"{one.shown} deleted{_dry(deletion)}")
                leaving.append((one, result.uid))
            case "not found" if deletion.ignore_missing:
                pass
            case _:
                click.echo(f"linkwise: {one.shown}: {result.error}", err=True)
                success = False
    if deletion.wait and not deletion.dry and leaving:
        await _await_end(connection, leaving, deletion.timeout)
    return success


def _dry(deletion: Deletion) -> str:
    return " (server dry run)" if deletion.dry else ""


async def _await_end(connection: Connection, leaving: Sequence[tuple[FoundObject, str]], timeout: float) -> None:  # noqa: ASYNC109 - that of the command
    one = leaving[0][0]
    try:
        async with asyncio.timeout(timeout or None):
            for one, uid in leaving:
                await wait_until_gone(connection, one.kind, one.namespace, one.name, uid)
    except TimeoutError as error:
        raise ClusterError(
            f"{one.shown} still exists after {timeout:g} seconds: a finalizer or its node may hold it"
        ) from error
