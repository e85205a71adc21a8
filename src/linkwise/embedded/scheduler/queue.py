"""Scheduling queue: active, backoff and unschedulable pods, as in kube-scheduler.

Active pods are sorted by priority, then age. The backoff doubles with each attempt. Unschedulable pods are requeued when
the cluster changes; a change during a pod's scheduling attempt counts as well, so that no change is missed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Literal

__all__ = ["QueueSettings", "SchedulingQueue"]

QueueName = Literal["active", "backoff", "unschedulable", "in flight"]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Backoff times, named as in KubeSchedulerConfiguration."""

    initial_backoff: float = 1.0  # seconds
    """after the first failure"""
    max_backoff: float = 10.0  # seconds
    max_unschedulable: float = 300.0  # seconds
    """after which an unschedulable pod is tried again without a cluster change"""


@dataclass(slots=True)
class _QueuedPod:
    uid: str
    priority: int
    age: tuple[float, int]
    queue: QueueName = "active"
    attempts: int = 0
    backoff_until: float = 0.0
    """end of its backoff"""
    token: int = 0
    """of its current heap entry; older entries are stale"""
    move_count: int = 0
    """`_moves` at the start of its last attempt"""


class SchedulingQueue:
    """Pending pods by UID."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self._settings = settings or QueueSettings()
        self._pods: dict[str, _QueuedPod] = {}
        self._active: list[tuple[int, tuple[float, int], int, str]] = []
        self._later: list[tuple[float, int, str]] = []
        self._sequence = count(1)
        self._moves = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def counts(self) -> dict[str, int]:
        """Number of pods per queue."""
        counts: dict[str, int] = {}
        for pod in self._pods.values():
            counts[pod.queue] = counts.get(pod.queue, 0) + 1
        return counts

    def add(self, uid: str, priority: int, created: float) -> None:
        """Add a new pod."""
        if uid not in self._pods:
            self._pods[uid] = pod = _QueuedPod(uid, priority, (created, next(self._sequence)))
            self._add_active(pod)

    def delete(self, uid: str) -> None:
        """Remove a pod that was bound or deleted."""
        self._pods.pop(uid, None)

    def pop(self, now: float) -> str | None:
        """The next pod to schedule, or None."""
        self._flush(now)
        while self._active:
            _, _, token, uid = heapq.heappop(self._active)
            pod = self._pods.get(uid)
            if pod is not None and pod.queue == "active" and pod.token == token:
                pod.queue, pod.move_count = "in flight", self._moves
                pod.attempts += 1
                return uid
        return None

    def add_unschedulable(self, uid: str, now: float) -> None:
        """No node fits: wait for a cluster change, or back off if one happened during the attempt."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        pod.backoff_until = now + self._backoff(pod)
        if self._moves > pod.move_count:
            self._add_backoff(pod)
        else:
            pod.queue = "unschedulable"
            self._add_later(pod, now + self._settings.max_unschedulable)

    def add_backoff(self, uid: str, now: float) -> None:
        """The attempt failed with an error: retry after the backoff."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.backoff_until = now + self._backoff(pod)
            self._add_backoff(pod)

    def activate(self, uid: str, now: float) -> None:
        """Requeue a pod that was updated."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if pod.queue == "unschedulable":
            self._requeue(pod, now)
        elif pod.queue == "in flight":
            pod.move_count = -1

    def move_all(self, now: float) -> None:
        """Requeue all unschedulable pods after a cluster change."""
        self._moves += 1
        for pod in self._pods.values():
            if pod.queue == "unschedulable":
                self._requeue(pod, now)

    def next_deadline(self) -> float | None:
        """When the next pod may become active without a cluster change; None if never."""
        if self._active:
            return 0.0
        while self._later:
            when, token, uid = self._later[0]
            pod = self._pods.get(uid)
            if pod is not None and pod.token == token:
                return when
            heapq.heappop(self._later)
        return None

    def _flush(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            _, token, uid = heapq.heappop(self._later)
            pod = self._pods.get(uid)
            if pod is not None and pod.token == token and pod.queue in {"backoff", "unschedulable"}:
                self._add_active(pod)

    def _backoff(self, pod: _QueuedPod) -> float:
        return min(self._settings.initial_backoff * 2.0 ** min(pod.attempts - 1, 30), self._settings.max_backoff)

    def _requeue(self, pod: _QueuedPod, now: float) -> None:
        if pod.backoff_until <= now:
            self._add_active(pod)
        else:
            self._add_backoff(pod)

    def _add_active(self, pod: _QueuedPod) -> None:
        pod.queue, pod.token = "active", next(self._sequence)
        heapq.heappush(self._active, (-pod.priority, pod.age, pod.token, pod.uid))

    def _add_backoff(self, pod: _QueuedPod) -> None:
        pod.queue = "backoff"
        self._add_later(pod, pod.backoff_until)

    def _add_later(self, pod: _QueuedPod, when: float) -> None:
        pod.token = next(self._sequence)
        heapq.heappush(self._later, (when, pod.token, pod.uid))
