"""Store: the API server's verbs as plain calls, shared by the HTTP server and the components in the same process.

Calls never block: each is complete when it returns, or raises ApiError and has changed nothing. Resources are named as in
kubectl (`pods`, `jobs.batch`, `deviceinventories.linkwise.dev`)::

    stored = store.create("pods", {"metadata": {"name": "a"}, "spec": ...}, namespace="default")
    pod = stored.read()  # a private copy; modify it and write it back
    store.update("pods", pod)
    store.patch("pods", "a", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
    async for event in store.watch("pods"):  # ADDED for every existing pod, then live events
        print(event.type, event.object)

The verbs skip admission webhooks. Each has a form that stops for them: `admission.AdmittedWrites` completes `begin_create`.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import no_such_path
from linkwise.embedded.kinds.builtin import Resource
from linkwise.embedded.kinds.cluster_roles import RBAC, built_in_bindings, built_in_roles
from linkwise.embedded.kinds.crds import CRD_RESOURCE, PREINSTALLED, served_by
from linkwise.embedded.kinds.fields import drop_unknown_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.storage.collection import HISTORY_LENGTH, encode
from linkwise.embedded.storage.database import Database
from linkwise.embedded.storage.list_watch import EVERYTHING, ListOptions, Page, Watch, list_page, parse_selector
from linkwise.embedded.writes.admission import at_once
from linkwise.embedded.writes.bind_and_evict import bind, evict
from linkwise.embedded.writes.create import create
from linkwise.embedded.writes.delete import DeleteOptions, GarbageCollector, delete
from linkwise.embedded.writes.patch import MERGE, apply_patch, check_apply, merge_applied
from linkwise.embedded.writes.update import update
from linkwise.embedded.writes.validation import check_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Change, Raw, Stored
    from linkwise.embedded.storage.list_watch import Selector
    from linkwise.embedded.writes.admission import Write

__all__ = ["Store"]

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
Kind = Resource | str


class Store:
    """All objects of the cluster."""

    def __init__(
        self, clock: Callable[[], float] = time.time, seed: int | None = None, history: int = HISTORY_LENGTH
    ) -> None:
        self.database: Final = Database(clock, history)
        self.garbage_collector: Final = GarbageCollector(self.database)
        self._random = random.Random(seed)  # noqa: S311 - for names, not secrets
        self._applied: dict[str, dict[str, bytes]] = {}
        """last applied configurations, by UID and field manager"""
        self.database.removal_listeners.append(self._forget)
        definitions = self.resource(CRD_RESOURCE)
        self.database.collection(definitions).listeners.add(self._define)
        for name in _NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}})
        for definition in PREINSTALLED:
            self.create(definitions, definition)
        for role in built_in_roles():
            self.create(f"clusterroles.{RBAC}", role)
        for binding in built_in_bindings():
            self.create(f"clusterrolebindings.{RBAC}", binding)

    @property
    def version(self) -> int:
        """The resourceVersion of the last write."""
        return self.database.version

    def resource(self, kind: Kind) -> Resource:
        """A resource by its kubectl name; ApiError 404 if it is not served."""
        return kind if isinstance(kind, Resource) else self.database.kinds.by_name(kind)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Stored:
        """An object; ApiError 404 if it does not exist."""
        return self.database.get(self.resource(kind), namespace, name)

    def find(self, kind: Kind, name: str, namespace: str = "") -> Stored | None:
        """An object, or None."""
        return self.database.find(self.resource(kind), (namespace, name))

    def select(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> Selector:
        """A selector from kubectl's -n, -l and --field-selector."""
        return parse_selector(self.resource(kind), namespace, labels, fields)

    def list(self, kind: Kind, selector: Selector = EVERYTHING, options: ListOptions = ListOptions()) -> Page:  # noqa: B008 - frozen
        """Objects sorted by namespace and name."""
        return list_page(self.database, self.resource(kind), selector, options)

    def watch(self, kind: Kind, selector: Selector = EVERYTHING, version: int | None = None) -> Watch:
        """Existing objects and then live events; with a resourceVersion only the events since."""
        resource = self.resource(kind)
        watch = Watch(self.database.collection(resource), selector)
        try:
            if version is None:
                watch.start_with(self.list(resource, selector).items, self.version)
            else:
                watch.start_at(version)
        except BaseException:
            watch.close()
            raise
        return watch

    def update(self, kind: Kind, document: Raw, name: str = "", namespace: str = "", subresource: str = "") -> Stored:
        """Replace an object; name and namespace default to those in its metadata."""
        meta = meta_of(document)
        return self.replace(kind, name or meta.name, namespace or meta.namespace, document, subresource)

    def begin_create(self, kind: Kind, document: Raw, namespace: str = "", *, dry_run: bool = False) -> Write[Stored]:
        """A create that stops for admission."""
        resource = self.resource(kind)
        namespace = namespace or (meta_of(document).namespace if resource.namespaced else "")
        stored = yield from create(self.database, resource, namespace, document, self._random.choice, dry_run=dry_run)
        if not dry_run and b'"ownerReferences"' in stored.data:
            self.garbage_collector.enqueue(resource, stored)  # its owners may already be deleted
        return stored

    def begin_replace(  # noqa: PLR0913 - a request has these parts
        self, kind: Kind, name: str, namespace: str, document: Raw, subresource: str = "", *, dry_run: bool = False
    ) -> Write[Stored]:
        """A replace that stops for admission."""
        resource = self.resource(kind)
        _check_subresource(resource, subresource)
        old = self.get(resource, name, namespace)
        return (yield from self._change(resource, old, document, subresource, patching=False, dry_run=dry_run))

    def begin_patch(  # noqa: PLR0913, PLR0917 - a request has these parts
        self,
        kind: Kind,
        name: str,
        patch: object,
        namespace: str = "",
        subresource: str = "",
        patch_type: str = MERGE,
        *,
        dry_run: bool = False,
    ) -> Write[Stored]:
        """A patch that stops for admission."""
        resource = self.resource(kind)
        _check_subresource(resource, subresource)
        old = self.get(resource, name, namespace)
        document = apply_patch(resource, self.convert(resource, old).read(), patch, patch_type)
        return (yield from self._change(resource, old, document, subresource, patching=True, dry_run=dry_run))

    def begin_apply(  # noqa: PLR0913, PLR0917 - a request has these parts
        self,
        kind: Kind,
        name: str,
        namespace: str,
        document: Raw,
        manager: str,
        subresource: str = "",
        *,
        dry_run: bool = False,
    ) -> Write[tuple[Stored, bool]]:
        """Server-side apply that stops for admission; returns the object and whether it was created."""
        resource = self.resource(kind)
        _check_subresource(resource, subresource)
        check_apply(document, manager)
        check_kind(resource, document)
        document = drop_unknown_fields(self.database.kinds.served(resource), document)
        old = self.find(resource, name, namespace)
        meta = document.get("metadata") or {}
        if old is None:
            new_document = {**document, "metadata": {**meta, "name": meta.get("name", name)}}
            stored = yield from self.begin_create(resource, new_document, namespace, dry_run=dry_run)
        else:
            last_applied = msgspec.json.decode(self._applied.get(old.uid, {}).get(manager + subresource, b"{}"))
            merged = merge_applied(resource, self.convert(resource, old).read(), last_applied, document)
            stored = yield from self._change(resource, old, merged, subresource, patching=True, dry_run=dry_run)
        if not dry_run:
            self._applied.setdefault(stored.uid, {})[manager + subresource] = encode(without_nulls(document))
        return stored, old is None

    def begin_delete(
        self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> Write[tuple[Stored, bool]]:
        """A delete that stops for admission."""
        resource = self.resource(kind)
        old = self.get(resource, name, namespace)
        stored, removed = yield from delete(self.database, resource, old, options or DeleteOptions())
        if not removed:
            self.garbage_collector.enqueue(resource, stored)
        return stored, removed

    def begin_bind(self, name: str, namespace: str, binding: Raw, *, dry_run: bool = False) -> Write[Stored]:
        """A binding that stops for admission."""
        pods = self.resource("pods")
        old = self.get(pods, name, namespace)
        return (yield from bind(self.database, pods, old, without_nulls(binding), dry_run=dry_run))

    def begin_evict(self, name: str, namespace: str, eviction: Raw) -> Write[None]:
        """An eviction that stops for admission."""
        pods = self.resource("pods")
        yield from evict(self.database, pods, self.get(pods, name, namespace), without_nulls(eviction))

    # The same verbs, admitted at every point.
    create = at_once(begin_create)
    replace = at_once(begin_replace)
    patch = at_once(begin_patch)
    delete = at_once(begin_delete)
    bind = at_once(begin_bind)
    evict = at_once(begin_evict)

    def convert(self, resource: Resource, stored: Stored) -> Stored:
        """An object in the requested API version."""
        storage = self.database.kinds.storage_version(resource)
        return stored if storage == resource else _as_version(stored, storage, resource)

    def _change(  # noqa: PLR0913 - a request has these parts
        self, resource: Resource, old: Stored, document: Raw, subresource: str, *, patching: bool, dry_run: bool
    ) -> Write[Stored]:
        stored = yield from update(
            self.database, resource, old, document, subresource, patching=patching, dry_run=dry_run
        )
        if not dry_run and (b'"deletionTimestamp"' in stored.data or b'"ownerReferences"' in stored.data):
            self.garbage_collector.enqueue(resource, stored)
        return stored

    def _define(self, change: Change) -> None:
        """Serve the versions that a CustomResourceDefinition defines."""
        if change.type != "DELETED":
            self.database.kinds.register(*served_by(change.stored.read()))

    def _forget(self, _: Resource, last: Stored) -> None:
        self._applied.pop(last.uid, None)


def _check_subresource(resource: Resource, subresource: str) -> None:
    if subresource and subresource not in resource.subresources:
        raise no_such_path()


def _as_version(stored: Stored, storage: Resource, requested: Resource) -> Stored:
    prefix = len(f'{{"apiVersion":"{storage.api_version}"')
    return replace(stored, data=f'{{"apiVersion":"{requested.api_version}"'.encode() + stored.data[prefix:])
