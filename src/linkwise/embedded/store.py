"""Everything that can be asked of the API server, as calls: what arrives over HTTP and what runs beside it use the same.

Calls do not wait: each is done when it returns, or raises RefusedError and has done nothing. Kinds are named as kubectl
names them (`pods`, `jobs.batch`, `deviceinventories.linkwise.dev`)::

    stored = store.create("pods", {"metadata": {"name": "a"}, "spec": ...}, namespace="default")
    pod = stored.read()  # a copy of one's own; change it and hand it back
    store.update("pods", pod)
    store.patch("pods", "a", {"status": {"phase": "Running"}}, namespace="default", part="status")
    async for news in store.watch("pods"):  # ADDED for all that is there, then all that happens
        print(news.type, news.object)
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.embedded.api_errors import no_such_path
from linkwise.embedded.kinds.builtin import Resource
from linkwise.embedded.kinds.crds import DEFINITIONS, PRESENT, served_by
from linkwise.embedded.kinds.fields import known_fields
from linkwise.embedded.kinds.object_types import meta_of, without_nulls
from linkwise.embedded.storage.collection import KEPT, encode
from linkwise.embedded.storage.database import Database
from linkwise.embedded.storage.lists import Asked, Page, list_page
from linkwise.embedded.storage.selectors import EVERYTHING, selection
from linkwise.embedded.storage.watches import Watch
from linkwise.embedded.writes.bind_and_evict import bind, evict
from linkwise.embedded.writes.create import create
from linkwise.embedded.writes.delete import DeleteOptions, delete
from linkwise.embedded.writes.garbage_collection import Collector
from linkwise.embedded.writes.patch import MERGE, patched
from linkwise.embedded.writes.server_side_apply import applied, check_apply
from linkwise.embedded.writes.update import change
from linkwise.embedded.writes.validation import check_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.storage.collection import Change, Raw, Stored
    from linkwise.embedded.storage.selectors import Selection

__all__ = ["Store"]

_SPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
Kind = Resource | str


class Store:
    """The cluster's objects."""

    def __init__(self, clock: Callable[[], float] = time.time, seed: int | None = None, kept: int = KEPT) -> None:
        self.shelves: Final = Database(clock, kept)
        self.collector: Final = Collector(self.shelves)
        self._chance = random.Random(seed)  # noqa: S311 - for names, not secrets
        self._applied: dict[str, dict[str, bytes]] = {}
        """what was applied last, by UID and by who applied it"""
        self.shelves.gone.append(self._forget)
        definitions = self.resource(DEFINITIONS)
        self.shelves.shelf(definitions).listeners.add(self._define)
        for name in _SPACES:
            self.create("namespaces", {"metadata": {"name": name}})
        for definition in PRESENT:
            self.create(definitions, definition)

    @property
    def version(self) -> int:
        """Of the last write."""
        return self.shelves.version

    def resource(self, kind: Kind) -> Resource:
        """A kind by its name; RefusedError if there is none."""
        return kind if isinstance(kind, Resource) else self.shelves.kinds.named(kind)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Stored:
        """One object."""
        return self.shelves.get(self.resource(kind), namespace, name)

    def find(self, kind: Kind, name: str, namespace: str = "") -> Stored | None:
        """One object, or None."""
        return self.shelves.find(self.resource(kind), (namespace, name))

    def select(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> Selection:
        """Some objects of a kind, as kubectl's -n, -l and --field-selector mean them."""
        return selection(self.resource(kind), namespace, labels, fields)

    def list(self, kind: Kind, chosen: Selection = EVERYTHING, asked: Asked = Asked()) -> Page:  # noqa: B008 - frozen
        """Objects in order."""
        return list_page(self.shelves, self.resource(kind), chosen, asked)

    def watch(self, kind: Kind, chosen: Selection = EVERYTHING, version: int | None = None) -> Watch:
        """All that is there and then all that happens; with a version only what happened since."""
        resource = self.resource(kind)
        watch = Watch(self.shelves.shelf(resource), chosen)
        try:
            if version is None:
                watch.begin_with(self.list(resource, chosen).items, self.version)
            else:
                watch.begin_at(version)
        except BaseException:
            watch.close()
            raise
        return watch

    def create(self, kind: Kind, document: Raw, namespace: str = "", *, dry: bool = False) -> Stored:
        """A new object."""
        resource = self.resource(kind)
        namespace = namespace or (meta_of(document).namespace if resource.namespaced else "")
        stored = create(self.shelves, resource, namespace, document, self._chance.choice, dry=dry)
        if not dry and b'"ownerReferences"' in stored.data:
            self.collector.look_at(resource, stored)  # its owners may be gone already
        return stored

    def update(self, kind: Kind, document: Raw, name: str = "", namespace: str = "", part: str = "") -> Stored:
        """An object in the place of what it was; it says itself which, unless that is given."""
        meta = meta_of(document)
        return self.replace(kind, name or meta.name, namespace or meta.namespace, document, part)

    def replace(  # noqa: PLR0913 - a request has these parts
        self, kind: Kind, name: str, namespace: str, document: Raw, part: str = "", *, dry: bool = False
    ) -> Stored:
        """An object in the place of what is under this name."""
        resource = self.resource(kind)
        _check_part(resource, part)
        return self._change(resource, self.get(resource, name, namespace), document, part, patching=False, dry=dry)

    def patch(  # noqa: PLR0913, PLR0917 - a request has these parts
        self,
        kind: Kind,
        name: str,
        wanted: object,
        namespace: str = "",
        part: str = "",
        how: str = MERGE,
        *,
        dry: bool = False,
    ) -> Stored:
        """An object with a change."""
        resource = self.resource(kind)
        _check_part(resource, part)
        old = self.get(resource, name, namespace)
        document = patched(resource, self.shown(resource, old).read(), wanted, how)
        return self._change(resource, old, document, part, patching=True, dry=dry)

    def apply(  # noqa: PLR0913, PLR0917 - a request has these parts
        self, kind: Kind, name: str, namespace: str, document: Raw, manager: str, part: str = "", *, dry: bool = False
    ) -> tuple[Stored, bool]:
        """An object as it is applied; and whether it is new."""
        resource = self.resource(kind)
        _check_part(resource, part)
        check_apply(document, manager)
        check_kind(resource, document)
        document = known_fields(self.shelves.kinds.told(resource), document)
        old = self.find(resource, name, namespace)
        meta = document.get("metadata") or {}
        if old is None:
            named = {**document, "metadata": {**meta, "name": meta.get("name", name)}}
            stored, new = self.create(resource, named, namespace, dry=dry), True
        else:
            last = msgspec.json.decode(self._applied.get(old.uid, {}).get(manager + part, b"{}"))
            merged = applied(resource, self.shown(resource, old).read(), last, document)
            stored, new = self._change(resource, old, merged, part, patching=True, dry=dry), False
        if not dry:
            self._applied.setdefault(stored.uid, {})[manager + part] = encode(without_nulls(document))
        return stored, new

    def delete(
        self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> tuple[Stored, bool]:
        """Delete an object: as it is afterwards, and whether it is gone."""
        resource = self.resource(kind)
        stored, gone = delete(self.shelves, resource, self.get(resource, name, namespace), options or DeleteOptions())
        if not gone:
            self.collector.look_at(resource, stored)
        return stored, gone

    def bind(self, name: str, namespace: str, binding: Raw, *, dry: bool = False) -> Stored:
        """Give a pod to a node."""
        pods = self.resource("pods")
        return bind(self.shelves, pods, self.get(pods, name, namespace), without_nulls(binding), dry=dry)

    def evict(self, name: str, namespace: str, eviction: Raw) -> None:
        """Send a pod away."""
        pods = self.resource("pods")
        evict(self.shelves, pods, self.get(pods, name, namespace), without_nulls(eviction))

    def shown(self, resource: Resource, stored: Stored) -> Stored:
        """An object under the version in which it is asked for."""
        kept = self.shelves.kinds.kept_as(resource)
        return stored if kept == resource else _as_version(stored, kept, resource)

    def _change(  # noqa: PLR0913 - a request has these parts
        self, resource: Resource, old: Stored, document: Raw, part: str, *, patching: bool, dry: bool
    ) -> Stored:
        stored = change(self.shelves, resource, old, document, part, patching=patching, dry=dry)
        if not dry and (b'"deletionTimestamp"' in stored.data or b'"ownerReferences"' in stored.data):
            self.collector.look_at(resource, stored)
        return stored

    def _define(self, defined: Change) -> None:
        """Serve what a definition defines, as long as it is there."""
        if defined.type != "DELETED":
            self.shelves.kinds.put(*served_by(defined.stored.read()))

    def _forget(self, _: Resource, last: Stored) -> None:
        self._applied.pop(last.uid, None)


def _check_part(resource: Resource, part: str) -> None:
    if part and part not in resource.parts:
        raise no_such_path()


def _as_version(stored: Stored, kept: Resource, wanted: Resource) -> Stored:
    begin = len(f'{{"apiVersion":"{kept.api_version}"')
    return replace(stored, data=f'{{"apiVersion":"{wanted.api_version}"'.encode() + stored.data[begin:])
