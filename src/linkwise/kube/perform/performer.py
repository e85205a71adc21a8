"""Performer: writes effects to the API server; binds immediately, everything else through queues."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkwise.broker.effects import Condition, Event, Evict, PolicyStatus, RankTable, Record, Steer, Wake, WriteClaim
from linkwise.kube.perform.bind import Binder
from linkwise.kube.perform.claims import ClaimWriter
from linkwise.kube.perform.events import Reporter
from linkwise.kube.perform.wake_ups import Waker
from linkwise.kube.perform.write_queue import Attempts
from linkwise.kube.perform.writers import (
    ConditionWriter,
    Evictor,
    GrantRecorder,
    RankTableWriter,
    StatusWriter,
    Steerer,
)
from linkwise.kube.settings import PerformSettings
from linkwise.net.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.effects import Bind, BindResult, Queued
    from linkwise.kube.client.api import Connection

__all__ = ["Performer"]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Performer:
    """Writes effects with one binder, and one queue per kind of the others."""

    connection: Connection
    """with several replicas a fenced one: only the leader writes, and what it could not write waits"""
    settings: PerformSettings = field(default_factory=PerformSettings)
    timing: Timing = field(default_factory=Timing)
    evictable: Callable[[str], int | None] = lambda _: 0
    """checked before every eviction: by UID, the pod's resourceVersion, or None if it is not to be evicted any more"""
    not_evicted: Callable[[str], None] = lambda _: None
    """called with the UID of a pod whose eviction was given up"""
    waits: Callable[[str], bool] | None = None
    """checked before a failed wake or plan is retried: by UID, whether the pod still has no node"""
    ungated: Callable[[float], None] = lambda _: None
    """called when the gate of a gang member was removed, with the seconds since its gang was complete"""
    claim_refused: Callable[[str, str], None] = lambda _uid, _sentence: None
    """called with the UID of a pod whose claim the API server refused, and its answer"""
    binder: Binder = field(init=False)
    waker: Waker = field(init=False)
    claims: ClaimWriter = field(init=False)
    steerer: Steerer = field(init=False)
    evictor: Evictor = field(init=False)
    reporter: Reporter = field(init=False)
    conditions: ConditionWriter = field(init=False)
    status_writer: StatusWriter = field(init=False)
    grant_recorder: GrantRecorder = field(init=False)
    rank_tables: RankTableWriter = field(init=False)
    _closed: bool = False
    _late: Counter[str] = field(default_factory=Counter)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        attempts = Attempts(self.connection, self.settings, self.timing)
        self.binder = Binder(self.connection, self.settings, self.timing)
        self.waker = Waker(attempts, waits=self.waits)
        self.status_writer = StatusWriter(attempts)
        self.grant_recorder = GrantRecorder(attempts)
        self.rank_tables = RankTableWriter(attempts)
        self.claims = ClaimWriter(attempts, waits=self.waits, refused=self.claim_refused)
        self.steerer = Steerer(attempts, waits=self.waits, ungated=self.ungated)
        self.reporter = Reporter(attempts, busy=lambda: self.binder.in_flight > 0)
        self.conditions = ConditionWriter(attempts)
        self.evictor = Evictor(attempts, version_of=self.evictable, given_up=self.not_evicted)

    @property
    def _parts(
        self,
    ) -> tuple[
        Waker, ClaimWriter, Steerer, GrantRecorder, Evictor, Reporter, ConditionWriter, StatusWriter, RankTableWriter
    ]:
        pods = (
            self.waker,
            self.claims,
            self.steerer,
            self.grant_recorder,
            self.evictor,
            self.reporter,
            self.conditions,
        )
        return (*pods, self.status_writer, self.rank_tables)

    @property
    def queued(self) -> int:
        """Effects that are not written yet."""
        return sum(part.queued for part in self._parts)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for an operator to look at, as sentences."""
        return tuple(part.trouble for part in self._parts if part.trouble)

    @property
    def stats(self) -> Mapping[str, Mapping[str, int]]:
        """Number of effects by kind and result."""
        return {
            "bind": dict[str, int](self.binder.ended.items()),
            "wake": self.waker.done,
            "claim": self.claims.done,
            "steer": self.steerer.done,
            "record": self.grant_recorder.done,
            "evict": self.evictor.done,
            "event": self.reporter.done,
            "condition": self.conditions.done,
            "policy_status": self.status_writer.done,
            "rank_table": self.rank_tables.done,
            "late": self._late,
        }

    async def bind(self, effect: Bind) -> BindResult:
        """Write a bind and return its outcome."""
        return await self.binder.bind(effect)

    async def settle(self, effect: Bind) -> BindResult:
        """Determine the outcome of an unknown bind; takes as long as it must."""
        return await self.binder.settle(effect)

    def tell(self, effects: Iterable[Queued]) -> None:
        """Queue effects; after `close` they are counted and dropped."""
        for effect in effects:
            if self._closed:
                self._late[type(effect).__name__.lower()] += 1
            else:
                self._queue(effect)

    def _queue(self, effect: Queued) -> None:
        match effect:
            case Wake():
                self.waker.tell(effect)
            case WriteClaim():
                self.claims.tell(effect)
            case Steer():
                self.steerer.tell(effect)
            case Record():
                self.grant_recorder.tell(effect)
            case Evict():
                self.evictor.tell(effect)
            case Event():
                self.reporter.tell(effect)
            case Condition():
                self.conditions.tell(effect)
            case PolicyStatus():
                self.status_writer.tell(effect)
            case RankTable():
                self.rank_tables.tell(effect)
            case _:
                raise TypeError(f"{type(effect).__name__} is not an effect that can be queued")

    async def run(self) -> None:
        """Write queued effects until `close` or until cancelled."""
        self._start()
        try:
            await asyncio.gather(*self._tasks)
        except asyncio.CancelledError:
            if not self._closed:
                raise
        finally:
            self._stop()

    async def close(self) -> None:
        """Flush the queues for a few seconds at most, then stop."""
        self._start()
        self._closed = True
        for part in self._parts:
            part.flushing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.flush):
                await asyncio.gather(*(part.drained() for part in self._parts))
        if self.queued:
            log.warning("%d queued effects were not sent before shutdown", self.queued)
        self._stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self) -> None:
        if not self._tasks:
            self._tasks = [asyncio.create_task(part.run()) for part in self._parts]

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
