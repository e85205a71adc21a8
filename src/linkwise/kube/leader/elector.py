"""Elector: keeps one replica in the election, by reading and writing the Lease; `election` decides.

The fence is extended only by a write of this process that succeeded, from the moment it was sent. A write whose answer was
lost extends nothing: the Lease is read, and renewed again if this replica holds it.

A standby reads the Lease in an interval, and at once when a watch says that it has changed. The interval is what counts: a
watch that is refused, breaks or stays silent makes a hand-over later by one interval, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from linkwise.errors import ClusterError, InputError, LostLeaseError
from linkwise.kube.errors import ForbiddenError
from linkwise.kube.leader.election import (
    Fence,
    LeaseSpec,
    LeaseTimes,
    Sighting,
    decide,
    observe,
    released,
    renewed,
    taken,
)
from linkwise.kube.perform.wake_ups import timestamp
from linkwise.net.http.client import NotSentError
from linkwise.net.timing import Backoff, Timing
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.watch_stream import status_of
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["Elector", "LeaseObject", "NoNamespaceError", "whole_seconds"]

log: Final = logging.getLogger(__name__)

ROLE_GRACE: Final = 30.0  # seconds
"""for which a missing permission is retried at start: an API server that has just started has not loaded its roles yet"""
RELEASE_SECONDS: Final = 2.0
"""for each of the requests that release the Lease"""
RELEASE_ATTEMPTS: Final = 3
_LABELS: Final = {"app.kubernetes.io/name": "linkwise"}
_ALONE: Final = "for a single replica, set leader.enabled to false (LINKWISE_LEADER_ENABLED=false)"


@dataclass(slots=True)
class Elector:
    """One replica of an election; `run` it until the Lease is lost, then `release` what it holds."""

    lease: LeaseObject
    identity: str
    """of this process alone: what is held under it was taken by it"""
    times: LeaseTimes = field(default_factory=LeaseTimes)
    timing: Timing = field(default_factory=Timing)
    fence: Fence = field(init=False)
    trouble: str = ""
    """why the Lease could not be read or written last; empty if it could"""
    attempts: int = 0
    """rounds so far"""
    _last: Sighting = Sighting()  # noqa: RUF009 - frozen
    _holds_lease: bool = False
    """whether the Lease is as this replica wrote it, as far as it knows: it can be renewed without a read"""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    """set when the Lease has changed since the last round began"""
    _stopped: bool = False
    _began: float | None = None

    def __post_init__(self) -> None:
        self.fence = Fence(self.times.renew_deadline)

    @property
    def leader(self) -> str:
        """The holder of the Lease as last seen; empty if there is none."""
        return self._last.spec.holder if self._last.spec else ""

    @property
    def transitions(self) -> int:
        """How often the holder changed."""
        return self._last.spec.transitions if self._last.spec else 0

    @property
    def leads(self) -> bool:
        """Whether this replica has taken the Lease; what it may write is for the fence to say."""
        return self._last.led

    @property
    def age(self) -> float | None:
        """Seconds since the last successful renewal was sent; None if there was none."""
        return None if self.fence.started is None else self.timing.clock() - self.fence.started

    def may_write(self) -> bool:
        """Whether this replica may write now."""
        return self.fence.may_write(self.timing.clock())

    @property
    def left(self) -> float:
        """Seconds for which this replica may write without another renewal."""
        return self.fence.left(self.timing.clock()) if self.fence.open else 0.0

    def guard(self) -> None:
        """Refuse a write; to be called immediately before it is sent."""
        if not self.may_write():
            raise NotSentError(f"this replica may not write now: {self.refusal() or 'it does not lead'}")

    def refusal(self) -> str:
        """Why this replica does not decide, as a sentence; empty if it does."""
        if self.may_write():
            return ""
        if self._last.led and not self.fence.holds(self.timing.clock()):
            why = f": {self.trouble}" if self.trouble else ""
            return f"{self.lease} was not renewed for {self.times.renew_deadline:g} s{why}"
        if self._last.led:
            return f"it has just taken {self.lease} and is still reading what the leader before it wrote"
        return f"it is a standby, and {self.leader or 'no replica'} is the leader by {self.lease}"

    async def run(self) -> None:
        """Take part until `release`; LostLeaseError if another replica has taken the Lease."""
        self._began = self.timing.clock()
        watching = asyncio.create_task(self._watch())
        try:
            while not self._stopped:
                self._changed.clear()
                await self.round()
                if self._last.led:
                    watching.cancel()
                await self._rest()
        finally:
            watching.cancel()

    async def round(self) -> None:
        """Renew, take or look at the Lease once; a failure is kept in `trouble`.

        Raises:
            LostLeaseError: this replica led, and the Lease is not its own any more.
            ClusterError: the Lease can't be used: its namespace does not exist, or the role lacks it since the start.
        """
        try:
            await self._look_and_act()
        except NoNamespaceError:
            if not self._last.led:
                raise
            self._note("its namespace does not exist any more")
        except ForbiddenError as error:
            if not self._last.seen and self.timing.clock() - (self._began or 0.0) >= ROLE_GRACE:
                raise
            self._note(str(error))
        except LostLeaseError:
            self.fence.open = False
            raise
        except ClusterError as error:
            self._holds_lease = False  # a write may have arrived, or not
            self._note(str(error))
        else:
            self._note("")
        finally:
            self.attempts += 1

    async def release(self, *, keep: bool = False) -> None:
        """Stop writing and give the Lease up, if this replica holds it, so that another one need not wait.

        With `keep` the Lease is left to expire, because a write of this replica may still arrive at the API server.
        """
        self._stopped, self.fence.open = True, False
        if not self._last.led or keep:
            return
        try:
            for _ in range(RELEASE_ATTEMPTS):  # a renewal that was in flight may arrive in between
                current = await self.lease.read(RELEASE_SECONDS)
                if current is None or current.holder != self.identity:
                    return
                if await self.lease.replace(released(current, self._stamp()), RELEASE_SECONDS):
                    log.info("released lease=%s", self.lease)
                    return
        except ClusterError as error:
            log.warning("%s was not released, so the next leader waits until it expires: %s", self.lease, error)

    async def _watch(self) -> None:
        """End pauses between rounds when the Lease changes; forever."""
        backoff = Backoff(self.timing, self.times.retry_period)

        def changed() -> None:
            backoff.reset()
            self._changed.set()

        while True:
            await backoff.wait()
            with suppress(ClusterError):  # the rounds report an API server that can't be reached
                await self.lease.watch(changed, self.times.duration)

    async def _rest(self) -> None:
        """Wait for the next round."""
        waits = [asyncio.ensure_future(self.timing.sleep(self._pause())), asyncio.ensure_future(self._changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _look_and_act(self) -> None:
        if (
            self._holds_lease
            and self._last.spec
            and await self._write(renewed(self._last.spec, self._seconds, self._stamp()))
        ):
            return
        self._holds_lease = False
        self._see(await self.lease.read(self._wait))
        match decide(self._last, self.identity, self.timing.clock()):
            case "lost":
                holder = f"{self.leader} has it" if self.leader else "it was released or deleted"
                raise LostLeaseError(
                    f"lost {self.lease}: {holder}; this replica ends, and may lead again after a restart"
                )
            case "renew" if self._last.spec:
                await self._write(renewed(self._last.spec, self._seconds, self._stamp()))
            case "create":
                await self._write(taken(None, self.identity, self._seconds, self._stamp()), create=True)
            case "take":
                await self._write(taken(self._last.spec, self.identity, self._seconds, self._stamp()))

    async def _write(self, spec: LeaseSpec, *, create: bool = False) -> bool:
        """Write the Lease; if that succeeds, it is held from when it was sent."""
        if self._stopped:
            return True
        started = self.timing.clock()
        write = self.lease.create if create else self.lease.replace
        written = await write(spec, self._wait)
        if written is None:
            return False
        if not self._last.led:
            log.info("holds lease=%s identity=%s transitions=%d", self.lease, self.identity, spec.transitions)
        self._see(written)
        self.fence.renew(started)
        self._holds_lease = True
        return True

    def _see(self, spec: LeaseSpec | None) -> None:
        before = self.leader
        self._last = observe(self._last, spec, self.identity, self.timing.clock(), self.times)
        if self.leader not in {before, self.identity}:
            log.info("lease=%s holder=%s", self.lease, self.leader or "none")

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log.warning("%s", trouble)
        elif self.trouble and not trouble:
            log.info("lease=%s is reachable again", self.lease)
        self.trouble = trouble

    def _pause(self) -> float:
        """Until the next round: earlier if the Lease of another replica is over before that."""
        period = self.times.retry_period
        if self._last.led:
            return period
        rest = self._last.free_at - self.timing.clock()
        return rest if 0.0 < rest < period else period * (1.0 + 0.2 * self.timing.chance())

    @property
    def _wait(self) -> float:
        """For a response: a renewal can be tried again before the deadline."""
        return self.times.renew_deadline / 2

    @property
    def _seconds(self) -> int:
        return whole_seconds(self.times.duration)

    def _stamp(self) -> str:
        return timestamp(self.timing.now())


class NoNamespaceError(ClusterError):
    """The namespace of the Lease does not exist."""


def whole_seconds(duration: float) -> int:
    """A lease duration as the API server stores it: not shorter."""
    return max(1, math.ceil(duration))


class LeaseObject:
    """One Lease, as this replica last read or wrote it."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace, self._name = namespace, name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._document: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    async def read(self, wait: float) -> LeaseSpec | None:
        """The Lease as it is now; None if there is none."""
        answer = await self._connection.call("GET", f"{self._collection}/{quote(self._name, safe='')}", wait=wait)
        if answer.status == 404:
            self._document = {}
            return None
        return self._accept(answer, "get")

    async def watch(self, changed: Callable[[], None], wait: float) -> None:
        """Call `changed` whenever it was written or deleted, until the watch ends or was silent for `wait` seconds.

        Raises:
            ClusterError: it can't be watched.
        """
        selector = quote(f"metadata.name={self._name}", safe="")  # by which RBAC finds the name
        async with self._connection.stream(f"{self._collection}?watch=1&fieldSelector={selector}", wait) as stream:
            if stream.status != 200:
                raise ClusterError(f"can't watch {self}: the API server answered {stream.status}")
            loop = asyncio.get_running_loop()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait) as limit:
                    async for _ in stream.chunks():
                        changed()
                        limit.reschedule(loop.time() + wait)

    async def create(self, spec: LeaseSpec, wait: float) -> LeaseSpec | None:
        """Create it; None if another replica was faster."""
        meta = {"name": self._name, "namespace": self._namespace, "labels": _LABELS}
        document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": _fields(spec)}
        answer = await self._connection.call("POST", self._collection, encode(document), wait=wait)
        if answer.status == 409:
            return None
        if answer.status == 404:
            raise NoNamespaceError(
                f"namespace {self._namespace}, in which replicas elect their leader, does not exist; create it (kubectl create"
                f" namespace {self._namespace}), or name another with leader.namespace; {_ALONE}"
            )
        return self._accept(answer, "create")

    async def replace(self, spec: LeaseSpec, wait: float) -> LeaseSpec | None:
        """Write it as it was last read, with other fields; None if another client has changed or deleted it since."""
        document = {**self._document, "spec": {**self._document.get("spec", {}), **_fields(spec)}}
        path = f"{self._collection}/{quote(self._name, safe='')}"
        answer = await self._connection.call("PUT", path, encode(document), wait=wait)
        return None if answer.status in {404, 409} else self._accept(answer, "update")

    def _accept(self, answer: Answer, verb: str) -> LeaseSpec:
        if answer.status == 403:
            message = status_of(answer.body).message or "forbidden"
            raise ForbiddenError(f"can't {verb} {self}: {message}; `linkwise manifests rbac` prints the role; {_ALONE}")
        if answer.status not in {200, 201}:
            message = status_of(answer.body).message or f"the API server answered {answer.status}"
            raise ClusterError(f"can't {verb} {self}: {message}")
        try:
            self._document = decode_as(answer.body, dict[str, Any])
            return _spec(self._document.get("spec") or {}, str(self._document["metadata"]["resourceVersion"]))
        except (InputError, TypeError, ValueError, AttributeError, KeyError) as error:
            raise ClusterError(f"{self} can't be read: {error}") from error


def _spec(fields: dict[str, Any], version: str) -> LeaseSpec:
    return LeaseSpec(
        str(fields.get("holderIdentity") or ""),
        int(fields.get("leaseDurationSeconds") or 0),
        str(fields.get("acquireTime") or ""),
        str(fields.get("renewTime") or ""),
        int(fields.get("leaseTransitions") or 0),
        version,
    )


def _fields(spec: LeaseSpec) -> dict[str, object]:
    return {
        "holderIdentity": spec.holder,
        "leaseDurationSeconds": spec.duration,
        "acquireTime": spec.acquired,
        "renewTime": spec.renewed,
        "leaseTransitions": spec.transitions,
    }
