"""Writers of single fields, in the background: gates, records, conditions, policy status, rank tables, evictions.

A gang's plan takes two requests per member. The first writes the nomination to the status and returns the pod as it is; the
second writes the annotation and removes the gate in one patch that is refused if the pod has changed since. So no gate of
others is lost, a pod that was bound meanwhile is left alone, and repeating both is harmless. For a pod of Volcano the patch
restricts its node affinity, too.

The broker sends the record of a pod that another scheduler has bound until the pod is observed with it, so a failed write is
not retried here.

A strategic merge patch merges conditions by their type, so those of kube-scheduler and of the kubelet stay as they are. The
newest condition of a pod counts: one that waits in the queue is replaced. The sender limits the rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from linkwise.broker.effects import Condition, Evict, PolicyStatus, RankTable, Record, Steer
from linkwise.dialects.ascend.rank_table import KEY, read_table
from linkwise.errors import InputError
from linkwise.kube.client.api import MERGE, STRATEGIC
from linkwise.kube.perform.bind import pod_path
from linkwise.kube.perform.write_queue import Attempts, PendingPodQueue, WriteQueue, WriteResult, is_gone
from linkwise.net.timing import Backoff, RateLimit
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.objects import decode_pod
from linkwise.wire.kubernetes.writes import (
    annotations_patch,
    condition_patch,
    encode,
    eviction,
    gates_patch,
    nomination_patch,
    pinned_terms,
    status_patch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.views import PodView

__all__ = ["ConditionWriter", "Evictor", "GrantRecorder", "RankTableWriter", "StatusWriter", "Steerer"]

LOOK_AGAIN: Final = 30.0  # seconds
"""before a ConfigMap that does not exist, or holds something else, is read again"""
MOST: Final = 10_000
"""tables that are remembered"""
_RETRIABLE: Final = (0, 408, 409, 429)
"""no response, a pod that changed in the meantime, a disruption budget without allowed disruptions"""


@dataclass(slots=True)
class Steerer(PendingPodQueue[Steer]):
    """Writes plans in the order in which they come: a gang by rank, and before the next gang."""

    past_tense = "steered"
    permission = "patch on pods and pods/status"
    ungated: Callable[[float], None] = lambda _: None
    """called with the seconds from the complete gang to the removed gate"""

    async def run(self) -> None:
        """Write queued plans, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.steers, settings.steers_burst)
        await self._run_and_retry(settings.concurrent_steers, rate)

    async def _attempt(self, effect: Steer) -> WriteResult | None:
        path = pod_path(effect.namespace, effect.name)
        result: WriteResult | None = None
        for _ in range(self.attempts.settings.steer_conflicts):
            first = await self._nominate(path, effect)
            if not first.done:
                return first
            try:
                pod = decode_pod(first.body)
            except InputError as error:
                return WriteResult(0, str(error))
            if _is_outdated(effect, pod):
                return None
            if _is_done(effect, pod):
                return first
            gates = [gate for gate in pod.gates if gate != effect.gate] if effect.gate in pod.gates else None
            terms = pinned_terms(first.body, effect.pin) if effect.pin else ()
            patch = gates_patch(effect.uid, pod.version, effect.annotations, gates, terms)
            result = await self.attempts.write("PATCH", path, patch, MERGE, versioned=True)
            if result.status != 409:
                break
        if result and result.done and effect.gate and effect.since:
            self.ungated(max(0.0, self.attempts.timing.now() - effect.since))
        return result

    async def _nominate(self, path: str, effect: Steer) -> WriteResult:
        if effect.node is None:
            return await self.attempts.write("GET", path)
        patch = nomination_patch(effect.uid, effect.node)
        return await self.attempts.write("PATCH", f"{path}/status", patch, MERGE)


@dataclass(slots=True)
class GrantRecorder(WriteQueue[Record]):
    """Writes records, one request in flight per pod."""

    past_tense = "given the record of its devices"

    def tell(self, effect: Record) -> None:
        """Queue a record; it replaces one that is queued for the same pod."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued records, until cancelled."""
        await self._run(self.attempts.settings.concurrent_records)

    async def _send(self, effect: Record) -> WriteResult:
        patch = annotations_patch(effect.uid, effect.annotations)
        return await self.attempts.write("PATCH", pod_path(effect.namespace, effect.name), patch, MERGE)


@dataclass(slots=True)
class ConditionWriter(WriteQueue[Condition]):
    """Writes conditions, one request in flight per pod."""

    past_tense = "given its condition"
    permission = "patch on pods/status"

    def tell(self, effect: Condition) -> None:
        """Queue a condition."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued conditions, until cancelled."""
        await self._run(self.attempts.settings.concurrent_conditions)

    async def _send(self, effect: Condition) -> WriteResult:
        path = f"{pod_path(effect.namespace, effect.name)}/status"
        return await self.attempts.write("PATCH", path, condition_patch(effect.uid, effect.condition), STRATEGIC)


@dataclass(slots=True)
class StatusWriter(WriteQueue[PolicyStatus]):
    """Writes statuses one after the other; one that fails is made again by the service."""

    past_tense = "reported"
    permission = "patch on acceleratorpolicies/status"

    def tell(self, effect: PolicyStatus) -> None:
        """Queue a status; it replaces one that is queued for the same policy."""
        self._put(effect)

    async def run(self) -> None:
        """Write queued statuses, until cancelled."""
        await self._run(1)

    async def _send(self, effect: PolicyStatus) -> WriteResult:
        path = f"/apis/linkwise.dev/v1alpha1/acceleratorpolicies/{quote(effect.name, safe='')}/status"
        return await self.attempts.write("PATCH", path, status_patch(effect.status), MERGE)


@dataclass(slots=True)
class RankTableWriter(WriteQueue[RankTable]):
    """Writes tables one after the other; the service offers them again every few seconds, and most are written already."""

    past_tense = "given a rank table"
    permission = "get and patch on configmaps"
    role_command = "linkwise manifests rbac --rank-tables"
    _written: dict[str, RankTable] = field(default_factory=dict)
    """the table that each ConfigMap has, as far as this process knows"""
    _later: dict[str, float] = field(default_factory=dict)
    """when to read a ConfigMap again in which there was nothing to write"""

    def tell(self, effect: RankTable) -> None:
        """Queue a table, unless the ConfigMap has it."""
        known = self._written.get(effect.uid)
        if known != effect and self.attempts.timing.clock() >= self._later.get(effect.uid, 0.0):
            self._put(effect)

    async def run(self) -> None:
        """Write queued tables, until cancelled."""
        await self._run(1)

    async def _send(self, effect: RankTable) -> WriteResult | None:
        place = f"/api/v1/namespaces/{quote(effect.namespace, safe='')}/configmaps/{quote(effect.name, safe='')}"
        answer = await self.attempts.write("GET", place)
        if not answer.done:
            self._wait(effect)
            return None if answer.status == 404 else answer
        version, text = _current(answer.body)
        table = read_table(text)
        if table is None:  # the user's own
            self._wait(effect)
            return None
        if table == read_table(effect.text):
            self._remember(effect)
            return None
        patch = {"metadata": {"resourceVersion": version}, "data": {KEY: effect.text}}
        result = await self.attempts.write("PATCH", place, encode(patch), MERGE, versioned=True)
        if result.done:
            self._remember(effect)
        return result

    def _remember(self, effect: RankTable) -> None:
        if len(self._written) >= MOST:
            self._written.pop(next(iter(self._written)))
        self._written[effect.uid] = effect
        self._later.pop(effect.uid, None)

    def _wait(self, effect: RankTable) -> None:
        if len(self._later) >= MOST:
            self._later.pop(next(iter(self._later)))
        self._later[effect.uid] = self.attempts.timing.clock() + LOOK_AGAIN


@dataclass(slots=True)
class Evictor(WriteQueue[Evict]):
    """Evicts pods; checks before every attempt whether the pod is still to be evicted."""

    past_tense = "evicted"
    permission = "create on pods/eviction"
    role_command = "linkwise manifests rbac"
    version_of: Callable[[str], int | None] = lambda _: 0
    """by UID: the resourceVersion of a pod that is still to be evicted, 0 if unknown, None if it is not"""
    given_up: Callable[[str], None] = lambda _: None
    """called with the UID of a pod that was not evicted, so that its eviction can be requested again"""

    def tell(self, effect: Evict) -> None:
        """Queue an eviction; a pod is queued once."""
        if effect.uid not in self._queue:
            self._put(effect)

    async def run(self) -> None:
        """Evict queued pods, until cancelled."""
        settings = self.attempts.settings
        rate = RateLimit(self.attempts.timing, settings.evictions, settings.evictions_burst)
        await self._run(settings.concurrent_evictions, rate)

    async def _send(self, effect: Evict) -> WriteResult | None:
        result = await self._evict(effect)
        if result is None or not (result.done or is_gone(result)):
            self.given_up(effect.uid)
        return result

    async def _evict(self, effect: Evict) -> WriteResult | None:
        single = self._single_attempt()
        path = f"{pod_path(effect.namespace, effect.name)}/eviction"
        backoff = Backoff(single.timing, first=1.0, most=60.0)
        for left in reversed(range(single.settings.evict_attempts)):
            version = self.version_of(effect.uid)
            if version is None:
                return None
            # With the resourceVersion as a precondition: a container that starts in the meantime changes it.
            result = await single.write("POST", path, eviction(effect.namespace, effect.name, effect.uid, version))
            retriable = result.status >= 500 or result.status in _RETRIABLE
            if not retriable or is_gone(result):
                return result
            if not left or self.flushing:
                break
            await backoff.wait()
        return result

    def _single_attempt(self) -> Attempts:
        """Attempts without retries: the eviction must be checked again before each one."""
        attempts = self.attempts
        return Attempts(attempts.connection, replace(attempts.settings, max_attempts=1, outage=0.0), attempts.timing)


def _is_outdated(effect: Steer, pod: PodView) -> bool:
    """Whether it is another pod, it has a node by now, or it can't be pinned any more because an earlier plan ungated it."""
    ungated = effect.pin and effect.gate not in pod.gates and not _is_done(effect, pod)
    return bool(pod.uid != effect.uid or pod.node or pod.deleting or ungated)


def _is_done(effect: Steer, pod: PodView) -> bool:
    """Whether the pod has all that is written by the second request."""
    there = all(pod.annotations.get(key, "") == text for key, text in effect.annotations.items())
    return there and effect.gate not in pod.gates


def _current(body: bytes) -> tuple[object, object]:
    """The resourceVersion and the table of a ConfigMap; None for what it does not have."""
    try:
        document = decode_as(body, dict[str, object])
    except InputError:
        return None, None
    metadata, data = document.get("metadata"), document.get("data")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version, data.get(KEY) if isinstance(data, dict) else None
