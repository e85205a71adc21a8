"""Feed of the cluster document: computed once per change for all readers with the same rights, and only while there are any.

A refresh runs in slices between the calls of schedulers, at most a few times per second, and makes only the strips of nodes
that changed. What takes longer, sentences and capacities, is computed less often on a cluster where it takes long. A reader
that does not keep up gets the whole document instead of the changes that it missed.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from linkwise.errors import NotNowError
from linkwise.views.blocks import rfc3339
from linkwise.views.cluster import ClusterView
from linkwise.views.page.cluster import Sentences, Strips, model_fits, waiting_list
from linkwise.views.page.documents import Change, Cluster, Reader, Totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.net.timing import Timing
    from linkwise.serve.service import Service
    from linkwise.views.page.cluster import Reason
    from linkwise.views.page.documents import ModelFit

__all__ = ["DEFAULT", "Feed", "Mailbox", "View"]

log: Final = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 0.25
"""between two refreshes"""
REFRESH_SHARE: Final = 9.0
"""at least between two refreshes, as a multiple of what the last one took: they take a tenth of the time at most"""
SLOW_SECONDS: Final = 2.0
"""at least between two computations of sentences and capacities"""
SLOW_SHARE: Final = 3.0
"""they rest for this many times as long as they took"""
IDLE_SHARE: Final = 1.0
"""after a sentence, others have the explainer for this many times as long as it took"""
PATIENCE: Final = 1.0  # seconds
"""for which the first reader waits for sentences; on a large cluster they follow"""
MOST_CHANGES: Final = 16
"""changes that wait for a reader; one that is further behind gets the whole document"""
MOST_VIEWS: Final = 32
"""views that are kept, so that the next reader does not wait for a new one"""
KEEP: Final = 60.0  # seconds
"""for which views without readers are kept even if there are more: their readers may be about to begin"""
GZIP_LEVEL: Final = 5
NOTHING: Final = Cluster("", "", Reader(everywhere=False, namespaces=()), Totals(0, 0, 0, 0, 0, 0), (), (), (), ())
HIDDEN: Final = "pods of namespaces that your rights do not cover are not named"
DEFAULT: Final = "default"
"""the namespace whose pods capacities are computed for, as for `linkwise get capacity`"""


@dataclass(eq=False, slots=True)
class Mailbox:
    """Changes that wait for one reader."""

    filled: asyncio.Event = field(default_factory=asyncio.Event)
    changes: deque[bytes] = field(default_factory=deque)
    behind: bool = False
    """whether changes were dropped, so that it needs the whole document"""
    ended: str = ""
    """why there are no more changes"""

    def end(self, reason: str) -> None:
        """Add no more changes."""
        self.ended = reason
        self.filled.set()

    def put(self, change: bytes) -> None:
        """Add a change."""
        if self.behind or len(self.changes) == MOST_CHANGES:
            self.changes.clear()
            self.behind = True
        else:
            self.changes.append(change)
        self.filled.set()

    def take(self) -> list[bytes] | None:
        """Take all changes out; None if the reader needs the whole document."""
        changes = None if self.behind else list(self.changes)
        self.changes.clear()
        self.behind = False
        self.filled.clear()
        return changes


@dataclass(eq=False, slots=True)
class View:
    """The document for readers of these namespaces, or of all."""

    only: frozenset[str] | None
    readers: set[Mailbox] = field(default_factory=set)
    strips: Strips = field(default_factory=Strips)
    document: Cluster = NOTHING
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """held while the document is brought up to date"""
    refreshed: float = 0.0
    """when that was last done"""
    seen: object = None
    """the state of the cluster that the document shows"""
    models: tuple[ModelFit, ...] = ()
    reasons: dict[str, Reason] = field(default_factory=dict)
    """why pods and groups wait, as they were explained last"""
    explaining: asyncio.Task[None] | None = None
    """computes what takes long"""
    explained: object = None
    """the state of the cluster that was explained last"""
    due: float = 0.0
    """when the next explanation may begin"""
    _body: bytes = b""
    _zipped: bytes = b""
    _serial: int = 0
    _name: str = field(default_factory=lambda: token_hex(4))

    def next_version(self) -> str:
        """Return a version that no other document has."""
        self._serial += 1
        return f"{self._name}-{self._serial}"

    def show(self, document: Cluster) -> None:
        """Replace the document."""
        self.document, self._body, self._zipped = document, b"", b""

    @property
    def is_new(self) -> bool:
        """Whether there is no document yet."""
        return self.document is NOTHING

    @property
    def body(self) -> bytes:
        """The document as JSON; only made when it is asked for, since a large one takes a moment."""
        self._body = self._body or msgspec.json.encode(self.document)
        return self._body

    async def zipped(self) -> bytes:
        """Return the document as compressed JSON."""
        if not self._zipped:
            body, document = self.body, self.document
            zipped = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
            if document is not self.document:
                return zipped
            self._zipped = zipped
        return self._zipped


class Feed:
    """Documents of the cluster for every kind of reader."""

    def __init__(self, service: Service, timing: Timing) -> None:
        self._service: Final = service
        self._timing: Final = timing
        self._views: dict[frozenset[str] | None, View] = {}
        self._task: asyncio.Task[None] | None = None
        self.ended = ""
        """why there are no more documents; empty while there are"""

    async def view(self, only: frozenset[str] | None) -> View:
        """Return the document for readers of these namespaces, brought up to date.

        Raises:
            NotNowError: this replica does not decide, or is still listing the cluster.
        """
        view = self._views.pop(only, None) or View(only)
        self._views[only] = view
        if len(self._views) > MOST_VIEWS:
            old = self._timing.clock() - KEEP
            self._views = {
                key: one for key, one in self._views.items() if one.readers or one is view or one.refreshed > old
            }
        is_new = view.is_new
        if is_new or self._timing.clock() - view.refreshed >= REFRESH_SECONDS:
            await self._refresh(view)
        else:
            self._service.check_explains()
        if is_new and view.explaining:
            await asyncio.wait({view.explaining}, timeout=PATIENCE)
            await self._refresh(view)
        return view

    @contextmanager
    def reading(self, view: View) -> Iterator[Mailbox]:
        """Receive the changes of a document while the `with` lasts."""
        mailbox = Mailbox()
        view.readers.add(mailbox)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="page")
        try:
            yield mailbox
        finally:
            view.readers.discard(mailbox)

    @property
    def readers(self) -> int:
        """The number of streams."""
        return sum(len(view.readers) for view in self._views.values())

    @property
    def is_refreshing(self) -> bool:
        """Whether documents are brought up to date, because someone reads them."""
        return self._task is not None and not self._task.done()

    def close(self, reason: str) -> None:
        """End all streams; new ones end at once."""
        self.ended = reason
        self._end_streams(reason)
        for view in self._views.values():
            if view.explaining:
                view.explaining.cancel()

    def _end_streams(self, reason: str) -> None:
        for view in self._views.values():
            for mailbox in view.readers:
                mailbox.end(reason)

    async def _run(self) -> None:
        """Refresh the documents that are read, until there are none."""
        spent = 0.0
        while not self.ended:
            await self._timing.sleep(max(REFRESH_SECONDS, REFRESH_SHARE * spent))
            began = self._timing.clock()
            views = [view for view in self._views.values() if view.readers]
            if not views:
                return
            for view in views:
                try:
                    await self._refresh(view)
                except NotNowError as error:
                    self._end_streams(str(error))
                    return
                except Exception:
                    log.exception("page not refreshed (a bug in Linkwise)")
            spent = self._timing.clock() - began

    async def _refresh(self, view: View) -> None:
        """Bring a document up to date, and send what differs to its readers."""
        async with view.refreshing:
            self._service.check_explains()
            view.refreshed = self._timing.clock()
            now = self._service.changes, len(view.reasons), view.explaining is not None and view.explaining.done()
            if view.is_new or view.seen != now:
                explainer, cluster = self._service.explainer, self._cluster(view)
                # In parts, between which others explain something, and the garbage collector has little to look at.
                while await explainer.once(lambda: view.strips.refresh(cluster)) is False:
                    pass
                change = await explainer.once(lambda: self._computed(view))
                if change is None:
                    return  # the cluster changed meanwhile: the next refresh tries again
                view.seen = now
                if view.is_new or any(part is not UNSET for part in _parts(change)):
                    self._show(view, change)
            self._explain(view)

    def _explain(self, view: View) -> None:
        """Begin to compute what takes long, if anything has changed since the last time and that is long enough ago."""
        running = view.explaining is not None and not view.explaining.done()
        if not running and view.explained != self._service.changes and self._timing.clock() >= view.due:
            view.explaining = asyncio.create_task(self._explained(view), name="page reasons")

    async def _explained(self, view: View) -> None:
        """Compute capacities and sentences, one after the other, so that others who explain something have their turn."""
        explainer, clock, seen = self._service.explainer, self._timing.clock, self._service.changes
        began = clock()
        try:
            cluster = self._cluster(view)
            sentences = Sentences(cluster)
            view.models = await explainer.once(lambda: model_fits(cluster)) or view.models
            keys = await explainer.once(sentences.first) or []
            for key in keys:
                started = clock()
                reason = await explainer.once(partial(sentences.of, key))
                if reason:
                    view.reasons[key] = reason
                await self._timing.sleep(IDLE_SHARE * (clock() - started))
            view.reasons = {key: view.reasons[key] for key in keys if key in view.reasons}
        except Exception:
            log.exception("reasons for the page not computed (a bug in Linkwise)")
        view.explained, view.due = seen, clock() + max(SLOW_SECONDS, SLOW_SHARE * (clock() - began))

    def _cluster(self, view: View) -> ClusterView:
        service = self._service
        return ClusterView(service.broker, service.clock(), DEFAULT, is_service=True, only=view.only)

    def _computed(self, view: View) -> Change:
        """Return what differs from the document; run in slices."""
        document, cluster = view.document, self._cluster(view)
        changed = view.strips.changed
        if view.is_new:
            view.models = model_fits(cluster)
        waiting, pods = waiting_list(cluster, view.reasons)
        totals = view.strips.totals(pods)
        notes = () if view.only is None else (HIDDEN,)
        return Change(
            "",
            "",
            totals if totals != document.totals else UNSET,
            view.models if view.models != document.models else UNSET,
            waiting if waiting != document.waiting else UNSET,
            notes if notes != document.notes else UNSET,
            tuple(strip for strip in changed.values() if strip) or UNSET,
            tuple(sorted(name for name, strip in changed.items() if strip is None)) or UNSET,
        )

    def _show(self, view: View, change: Change) -> None:
        """Apply a change to a document and send it."""
        view.strips.changed.clear()
        document = view.document
        version, at = view.next_version(), rfc3339(self._service.clock()) or ""
        nodes = document.nodes
        if view.is_new or change.nodes is not UNSET or change.gone is not UNSET:
            nodes = tuple(view.strips.by_name[name] for name in sorted(view.strips.by_name))
        view.show(
            Cluster(
                version,
                at,
                Reader(view.only is None, tuple(sorted(view.only or ()))),
                document.totals if change.totals is UNSET else change.totals,
                document.models if change.models is UNSET else change.models,
                nodes,
                document.waiting if change.waiting is UNSET else change.waiting,
                document.notes if change.notes is UNSET else change.notes,
            )
        )
        if view.readers:
            sent = msgspec.json.encode(msgspec.structs.replace(change, version=version, at=at))
            for mailbox in view.readers:
                mailbox.put(sent)


def _parts(change: Change) -> tuple[object, ...]:
    return change.totals, change.models, change.waiting, change.notes, change.nodes, change.gone
