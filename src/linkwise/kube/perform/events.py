"""Event recorder: writes events in the background, rate-limited; repeated events increase a count, excess is dropped.

Warnings go first. Normal events yield to binds, because both are writes to the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.effects import NODE_EVENTS
from linkwise.kube.client.api import MERGE
from linkwise.kube.perform.wake_ups import timestamp
from linkwise.net.timing import RateLimit
from linkwise.wire.kubernetes.writes import COMPONENT, About, Content, count_patch, event

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.effects import Event
    from linkwise.kube.perform.write_queue import Attempts, WriteResult

__all__ = ["Reporter"]

log = logging.getLogger(__name__)

_WARNING: Final = "Warning"
_POD_GROUPS: Final = "scheduling.volcano.sh/v1beta1"
_PAUSE: Final = 0.1  # s
_MAX_PAUSES: Final = 20
"""for which a normal event yields to binds"""
_TERMINATING: Final = "because it is being terminated"
"""part of the API server's message for a create in a terminating namespace"""


@dataclass(slots=True)
class _Written:
    """An event that the API server has stored."""

    name: str
    count: int


@dataclass(slots=True)
class Reporter:
    """Records events; one that equals an earlier event increases the count of that one."""

    attempts: Attempts
    busy: Callable[[], bool] = lambda: False
    """whether binds are in flight"""
    component: str = COMPONENT
    """the source of the events"""
    done: Counter[str] = field(default_factory=Counter)
    """by result: made, repeated, gone, failed, dropped"""
    trouble: str = ""
    flushing: bool = False
    """whether the rate limit is suspended, at shutdown"""
    _warnings: dict[Event, int] = field(default_factory=dict)
    """queued warnings, with their number of occurrences"""
    _normal: dict[Event, int] = field(default_factory=dict)
    """queued normal events, likewise"""
    _written: dict[Event, _Written] = field(default_factory=dict)
    _sending: bool = False
    _serial: int = 0
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def queued(self) -> int:
        """Events that are not written yet."""
        return self._waiting + self._sending

    @property
    def _waiting(self) -> int:
        return len(self._warnings) + len(self._normal)

    def tell(self, effect: Event) -> None:
        """Queue an event."""
        queue = self._warnings if effect.kind == _WARNING else self._normal
        if effect in queue:
            queue[effect] += 1
        elif self._waiting < self.attempts.settings.max_queued_events or self._drop_for(effect):
            queue[effect] = 1
            self._idle.clear()
            self._ready.set()
        else:
            self.done["dropped"] += 1

    def _drop_for(self, effect: Event) -> bool:
        """Drop the oldest normal event in favour of a warning; False if that is not possible."""
        if effect.kind != _WARNING or not self._normal:
            return False
        del self._normal[next(iter(self._normal))]
        self.done["dropped"] += 1
        return True

    async def _yield_to_binds(self) -> None:
        """Wait until no bind is in flight, for a limited time; warnings do not wait."""
        for _ in range(_MAX_PAUSES):
            if self.flushing or not self.busy() or self._warnings:
                return
            await self.attempts.timing.sleep(_PAUSE)

    async def drained(self) -> None:
        """Wait until the queue is empty."""
        if self.queued:
            await self._idle.wait()

    async def run(self) -> None:
        """Write queued events, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.events, settings.events_burst)
        while True:
            await self._ready.wait()
            if not self.flushing:
                await rate.take()
                await self._yield_to_binds()
            queue = self._warnings or self._normal
            effect = next(iter(queue))
            occurrences = queue.pop(effect)
            self._sending = True
            try:
                await self._write(effect, occurrences)
            finally:
                self._sending = False
                if not self._waiting:
                    self._ready.clear()
                    self._idle.set()

    async def _write(self, effect: Event, occurrences: int) -> None:
        written = self._written.pop(effect, None)
        if written is not None:
            written.count += occurrences
            patch = count_patch(written.count, timestamp(self.attempts.timing.now()))
            path = f"{_events_path(effect)}/{quote(written.name, safe='')}"
            result = await self.attempts.write("PATCH", path, patch, MERGE)
            if result.status != 404:
                self._finish(effect, written, result, "repeated")
                return
            # The API server keeps events for an hour: this one has expired, so a new one is created.
        self._serial += 1
        about, now = _about(effect), self.attempts.timing.now()
        prefix = about.name[:200].rstrip("-.")  # no segment of a name may end with these
        written = _Written(f"{prefix}.{int(now * 1e6):x}{self._serial & 0xFFFF:04x}", occurrences)
        content = Content(effect.kind, effect.reason, effect.sentence, self.component)
        body = event(written.name, about, content, occurrences, timestamp(now))
        result = await self.attempts.write("POST", _events_path(effect), body)
        # The name is unique: a conflict means that the response to an earlier attempt was lost.
        self._finish(effect, written, replace(result, status=201) if result.status == 409 else result, "made")

    def _finish(self, effect: Event, written: _Written, result: WriteResult, success: str) -> None:
        gone = result.status == 404 or (result.status == 403 and _TERMINATING in result.sentence)
        self.done[success if result.done else "gone" if gone else "failed"] += 1
        if result.done:
            self._written[effect] = written
            if len(self._written) > self.attempts.settings.remembered_events:
                del self._written[next(iter(self._written))]
        elif not gone and result.sentence != self.trouble:
            log.warning("event reason=%s about=%s not written: %s", effect.reason, _about(effect).name, result.sentence)
        self.trouble = "" if result.done or gone else result.sentence


def _about(effect: Event) -> About:
    # kubectl describe node selects events by involvedObject.uid = the node's name, as the kubelet writes it.
    if not effect.name:
        return About("Node", effect.node, effect.node)
    if effect.about == "PodGroup":
        return About("PodGroup", effect.name, effect.uid, effect.namespace, _POD_GROUPS)
    return About("Pod", effect.name, effect.uid, effect.namespace)


def _events_path(effect: Event) -> str:
    namespace = effect.namespace if effect.name else NODE_EVENTS
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
