"""Binds carried out: one POST a pod that writes node and devices together, and what is known of it afterwards.

*written*: the API server has it. *refused*: it has not, and never will. *unknown*: neither can be told yet, so that the
promise stays until `settle` has found out.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.effects import BindResult
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.errors import ClusterError, InputError
from linkwise.kube.settings import PerformSettings
from linkwise.net.http_client import NotSentError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.watch_stream import status_of
from linkwise.wire.kubernetes.writes import binding

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.effects import Bind
    from linkwise.kube.client.api import Connection
    from linkwise.model.ledger_entry import Outcome
    from linkwise.model.views import PodView
    from linkwise.net.http_client import Answer

__all__ = ["Binder", "pod_path", "retry_after"]

log = logging.getLogger(__name__)

_LOOKING: Final = 8
"""binds that are settled at once: a server that comes back after an outage is not asked about all of them together"""
_LONGEST_PAUSE: Final = 30.0  # s
"""however long the server wants to be left alone: others wait in line behind"""
_UNBOUND: Final = BindResult("unknown", "the pod is not bound yet")


def pod_path(namespace: str, name: str) -> str:
    """Where a pod is."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def retry_after(answer: Answer) -> float:
    """How long the server wants to be left alone, in seconds."""
    text = answer.retry_after
    return min(float(text), _LONGEST_PAUSE) if text.isdecimal() else 0.0


@dataclass(slots=True)
class Binder:
    """Binds pods and finds out what became of it."""

    connection: Connection
    settings: PerformSettings = field(default_factory=PerformSettings)
    timing: Timing = field(default_factory=Timing)
    may_bind: Callable[[], bool] = lambda: True
    """asked before every POST: only one replica may write"""
    ended: Counter[Outcome] = field(default_factory=Counter)
    """by outcome; what was unknown counts once more when it is settled"""
    under_way: int = 0
    """binds that wait for their answer now"""
    _looking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOOKING))
    _posted: dict[tuple[str, int], float] = field(default_factory=dict)
    """when a bind was last sent whose end is not known"""

    def _wait(self, over: float) -> float:
        """For one answer of a bind that must be over by then."""
        return min(self.settings.bind_seconds + self.settings.bind_margin, max(0.0, over - self.timing.clock()))

    async def bind(self, effect: Bind) -> BindResult:
        """Write a bind; asked again for the same, the same outcome."""
        self.under_way += 1
        try:
            ended = await self._bind(effect)
        finally:
            self.under_way -= 1
        self.ended[ended.outcome] += 1
        if ended.outcome != "unknown":
            self._posted.pop((effect.uid, effect.serial), None)
        return ended

    async def settle(self, effect: Bind) -> BindResult:
        """What became of a bind of unknown outcome; tries until it is known."""
        backoff = Backoff(self.timing, most=5.0)
        posted = self._posted.setdefault((effect.uid, effect.serial), self.timing.clock())
        # The server ends a request by itself after the time that the request names, and etcd gives up what it was handed
        # a few seconds later: a pod that a quorum read finds unbound after that is not bound by this request any more.
        lasting = self.settings.bind_seconds + self.settings.settle_margin
        over = posted + lasting
        while True:
            async with self._looking:
                late = self.timing.clock() >= over
                ended = await self._read(effect, math.inf)
            if ended is _UNBOUND and late:
                ended = BindResult("refused", "the API server did not write the bind in its time")
            elif ended.outcome == "unknown" and ended is not _UNBOUND:
                # Who does not answer may stand still, with the request before it: its time begins when it goes on.
                over = max(over, self.timing.clock() + lasting)
            if ended.outcome != "unknown":
                self._posted.pop((effect.uid, effect.serial), None)
                self.ended[ended.outcome] += 1
                return ended
            await backoff.wait()

    async def _bind(self, effect: Bind) -> BindResult:
        if not self.may_bind():
            return BindResult("refused", "this replica may not bind now: another one leads")
        body = binding(effect.name, effect.uid, effect.node, effect.annotations)
        # Whoever waits for the bind hears of it in time: what is left to find out after that is settled without them.
        over = self.timing.clock() + self.settings.bind_whole
        first = await self._post(effect, body, over)
        if first.outcome != "unknown" or self.timing.clock() >= over:
            return first
        seen = await self._read(effect, over)
        if seen is not _UNBOUND or not self.may_bind():
            return seen if seen.outcome != "unknown" else first
        # The same again is no second bind: whichever of the two arrives last is told that the pod is bound.
        again = await self._post(effect, body, over, repeated=True)
        return again if again.outcome != "unknown" else first

    async def _post(self, effect: Bind, body: bytes, over: float, *, repeated: bool = False) -> BindResult:
        # What we send has no fields that the server would have to look for in vain.
        asked = f"timeout={self.settings.bind_seconds}s&fieldValidation=Ignore"
        path = f"{pod_path(effect.namespace, effect.name)}/binding?{asked}"
        busy = min(over, self.timing.clock() + self.settings.busy)
        backoff = Backoff(self.timing, most=1.0)
        while True:
            try:
                answer = await self.connection.call("POST", path, body, wait=self._wait(over))
            except NotSentError as error:
                return BindResult("unknown" if repeated else "refused", f"nothing was written: {error}")
            except ClusterError as error:
                self._note(effect, error)
                return BindResult("unknown", str(error))
            pause = max(retry_after(answer), backoff.next())
            if answer.status != 429 or self.timing.clock() + pause > busy:
                return await self._judge(effect, answer, over, repeated=repeated)
            await self.timing.sleep(pause)

    async def _judge(self, effect: Bind, answer: Answer, over: float, *, repeated: bool) -> BindResult:
        status = answer.status
        if status in {200, 201}:
            return BindResult("written")
        said = status_of(answer.body).message or f"the API server answers {status}"
        if status == 409:
            seen = await self._read(effect, over)
            return BindResult("unknown" if repeated else "refused", said) if seen is _UNBOUND else seen
        if status == 408 or status >= 500:
            self._note(effect, said)
            return BindResult("unknown", said)
        # What refuses the second request need not have refused the first, unless the pod itself is gone.
        return BindResult("unknown" if repeated and status != 404 else "refused", said)

    def _note(self, effect: Bind, why: object) -> None:
        self._posted[effect.uid, effect.serial] = self.timing.clock()
        log.warning("bind pod=%s/%s node=%s not answered: %s", effect.namespace, effect.name, effect.node, why)

    async def _read(self, effect: Bind, over: float) -> BindResult:
        """What the pod is now, by the quorum; `_UNBOUND` if the bind may still come."""
        try:
            answer = await self.connection.call("GET", pod_path(effect.namespace, effect.name), wait=self._wait(over))
            if answer.status == 404:
                return BindResult("refused", f"pod {effect.namespace}/{effect.name} is gone")
            if answer.status != 200:
                return BindResult(
                    "unknown", status_of(answer.body).message or f"the API server answers {answer.status}"
                )
            pod = decode_pod(answer.body)
        except (ClusterError, InputError) as error:
            return BindResult("unknown", str(error))
        return _compared(effect, pod)


def _compared(effect: Bind, pod: PodView) -> BindResult:
    """What a pod as it is now tells of a bind."""
    name = f"pod {effect.namespace}/{effect.name}"
    if pod.uid != effect.uid:
        return BindResult("refused", f"{name} is another one of the same name by now")
    if not pod.node:
        # The server refuses to bind a pod that is being deleted, however late the request comes.
        return BindResult("refused", f"{name} is being deleted") if pod.deleting else _UNBOUND
    if pod.node != effect.node:
        return BindResult("refused", f"{name} is bound to node {pod.node} already")
    # The record alone counts: other keys hold the time of the request, which differs when a bind is asked for again.
    keys = (GRANT,) if GRANT in effect.annotations else tuple(effect.annotations)
    if any(pod.annotations.get(key) != effect.annotations[key] for key in keys):
        return BindResult("refused", f"{name} is bound there with other devices already")
    return BindResult("written")
