"""Binder: one POST per pod that writes node and devices together, and the outcome of it.

*written*: the API server has stored the binding. *refused*: it has not, and never will. *unknown*: either is possible, so
the pod stays assumed until `settle` has found out.
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
from linkwise.net.http.client import NotSentError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.watch_stream import status_of
from linkwise.wire.kubernetes.writes import binding

if TYPE_CHECKING:
    from linkwise.broker.effects import Bind
    from linkwise.kube.client.api import Connection
    from linkwise.model.verdict import Outcome
    from linkwise.model.views import PodView
    from linkwise.net.http.client import Answer

__all__ = ["Binder", "pod_path", "retry_after"]

log = logging.getLogger(__name__)

_MAX_CONCURRENT_READS: Final = 8
"""while settling: after an outage the API server does not get a read for every unknown bind at once"""
_MAX_RETRY_AFTER: Final = 30.0  # s
"""however long the Retry-After header is: other writes wait in the queue"""
_UNBOUND: Final = BindResult("unknown", "the pod is not bound yet")


def pod_path(namespace: str, name: str) -> str:
    """API path of a pod."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def retry_after(answer: Answer) -> float:
    """The Retry-After header in seconds, limited; 0 without one."""
    text = answer.retry_after
    return min(float(text), _MAX_RETRY_AFTER) if text.isdecimal() else 0.0


@dataclass(slots=True)
class Binder:
    """Binds pods and determines the outcome."""

    connection: Connection
    settings: PerformSettings = field(default_factory=PerformSettings)
    timing: Timing = field(default_factory=Timing)
    ended: Counter[Outcome] = field(default_factory=Counter)
    """by outcome; an unknown bind counts once more when it is settled"""
    in_flight: int = 0
    """binds that wait for their response"""
    _reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT_READS))
    _posted: dict[tuple[str, int], float] = field(default_factory=dict)
    """when each bind of unknown outcome was last sent"""

    def _timeout(self, deadline: float) -> float:
        """For one response of a bind with this deadline."""
        return min(self.settings.bind_seconds + self.settings.bind_margin, max(0.0, deadline - self.timing.clock()))

    async def bind(self, effect: Bind) -> BindResult:
        """Write a bind; idempotent."""
        self.in_flight += 1
        try:
            ended = await self._bind(effect)
        finally:
            self.in_flight -= 1
        self.ended[ended.outcome] += 1
        if ended.outcome != "unknown":
            self._posted.pop((effect.uid, effect.serial), None)
        return ended

    async def settle(self, effect: Bind) -> BindResult:
        """Determine the outcome of an unknown bind; retries until it is known."""
        backoff = Backoff(self.timing, most=5.0)
        posted = self._posted.setdefault((effect.uid, effect.serial), self.timing.clock())
        # The API server ends a request at its timeout parameter, and etcd drops a pending write a few seconds later: if a
        # quorum read finds the pod unbound after that, this request will not bind it any more.
        lifetime = self.settings.bind_seconds + self.settings.settle_margin
        expiry = posted + lifetime
        while True:
            async with self._reads:
                expired = self.timing.clock() >= expiry
                ended = await self._read(effect, math.inf)
            if ended is _UNBOUND and expired:
                ended = BindResult("refused", "the API server did not write the binding within its timeout")
            elif ended.outcome == "unknown" and ended is not _UNBOUND:
                # A server that does not answer may be suspended with the request in it: its time starts on resume.
                expiry = max(expiry, self.timing.clock() + lifetime)
            if ended.outcome != "unknown":
                self._posted.pop((effect.uid, effect.serial), None)
                self.ended[ended.outcome] += 1
                return ended
            await backoff.wait()

    async def _bind(self, effect: Bind) -> BindResult:
        body = binding(effect.name, effect.uid, effect.node, effect.annotations)
        # The caller gets a result by then; an outcome that is still unknown is settled in the background.
        deadline = self.timing.clock() + self.settings.bind_deadline
        first = await self._post(effect, body, deadline)
        if first.outcome != "unknown" or self.timing.clock() >= deadline:
            return first
        current = await self._read(effect, deadline)
        if current is not _UNBOUND:
            return current if current.outcome != "unknown" else first
        # Sending it again is safe: whichever request arrives last gets a conflict, because the pod is bound.
        second = await self._post(effect, body, deadline, repeated=True)
        return second if second.outcome != "unknown" else first

    async def _post(self, effect: Bind, body: bytes, deadline: float, *, repeated: bool = False) -> BindResult:
        # fieldValidation=Ignore saves the server a search for unknown fields, of which we send none.
        query = f"timeout={self.settings.bind_seconds:g}s&fieldValidation=Ignore"
        path = f"{pod_path(effect.namespace, effect.name)}/binding?{query}"
        retry_until = min(deadline, self.timing.clock() + self.settings.busy_retry)
        backoff: Backoff | None = None
        while True:
            try:
                answer = await self.connection.call("POST", path, body, wait=self._timeout(deadline))
            except NotSentError as error:
                return BindResult("unknown" if repeated else "refused", f"nothing was written: {error}")
            except ClusterError as error:
                self._note_unanswered(effect, error)
                return BindResult("unknown", str(error))
            pause = 0.0
            if answer.status == 429:
                backoff = backoff or Backoff(self.timing, most=1.0)
                pause = max(retry_after(answer), backoff.next())
            if answer.status != 429 or self.timing.clock() + pause > retry_until:
                return await self._judge(effect, answer, deadline, repeated=repeated)
            await self.timing.sleep(pause)

    async def _judge(self, effect: Bind, answer: Answer, deadline: float, *, repeated: bool) -> BindResult:
        """The outcome that a response to the POST implies."""
        status = answer.status
        if status in {200, 201}:
            return BindResult("written")
        message = status_of(answer.body).message or f"the API server answered {status}"
        if status == 409:
            current = await self._read(effect, deadline)
            return BindResult("unknown" if repeated else "refused", message) if current is _UNBOUND else current
        if status == 408 or status >= 500:
            self._note_unanswered(effect, message)
            return BindResult("unknown", message)
        # The cause that refused the second request need not have refused the first, unless the pod is deleted.
        return BindResult("unknown" if repeated and status != 404 else "refused", message)

    def _note_unanswered(self, effect: Bind, why: object) -> None:
        self._posted[effect.uid, effect.serial] = self.timing.clock()
        log.warning("bind pod=%s/%s node=%s not answered: %s", effect.namespace, effect.name, effect.node, why)

    async def _read(self, effect: Bind, deadline: float) -> BindResult:
        """Quorum read of the pod, compared with the bind; `_UNBOUND` if the bind may still arrive."""
        try:
            path = pod_path(effect.namespace, effect.name)
            answer = await self.connection.call("GET", path, wait=self._timeout(deadline))
            if answer.status == 404:
                return BindResult("refused", f"pod {effect.namespace}/{effect.name} no longer exists")
            if answer.status != 200:
                return BindResult(
                    "unknown", status_of(answer.body).message or f"the API server answered {answer.status}"
                )
            pod = decode_pod(answer.body)
        except (ClusterError, InputError) as error:
            return BindResult("unknown", str(error))
        return _compare(effect, pod)


def _compare(effect: Bind, pod: PodView) -> BindResult:
    """The outcome of a bind that the current pod implies."""
    name = f"pod {effect.namespace}/{effect.name}"
    if pod.uid != effect.uid:
        return BindResult("refused", f"{name} was deleted and recreated with another UID")
    if not pod.node:
        # The API server refuses to bind a pod that is being deleted, however late the request arrives.
        return BindResult("refused", f"{name} is being deleted") if pod.deleting else _UNBOUND
    if pod.node != effect.node:
        return BindResult("refused", f"{name} is already bound to node {pod.node}")
    # Only the grant counts: other annotations contain the time of the request, which differs between retries.
    if GRANT in effect.annotations and pod.annotations.get(GRANT) != effect.annotations[GRANT]:
        return BindResult("refused", f"{name} is already bound to this node with other devices")
    return BindResult("written")
