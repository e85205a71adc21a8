"""The line of pods that wait for a node: who is next, who has to wait after a failure, and who comes back for what.

As in kube-scheduler a pod is in one of three places: next in line (by priority, then by age), held back for a time that
doubles with each attempt, or waiting for something to happen. Whatever happens while a pod is being tried counts for it
too, so that nobody waits for news that are over.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Literal

__all__ = ["Queue", "QueueSettings"]

Place = Literal["next", "held back", "waiting", "tried"]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How long pods wait."""

    first: float = 1.0  # seconds
    """after the first failure"""
    most: float = 10.0  # seconds
    leftover: float = 300.0  # seconds
    """after which a pod is tried again, though nothing has happened"""


@dataclass(slots=True)
class _Waiting:
    uid: str
    priority: int
    age: tuple[float, int]
    place: Place = "next"
    attempts: int = 0
    ready: float = 0.0
    """when it has waited long enough after its last failure"""
    token: int = 0
    """of its entry in a heap; older entries do not count"""
    seen: int = 0
    """what had happened when it was last taken out"""


class Queue:
    """Pods by UID."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self._settings = settings or QueueSettings()
        self._pods: dict[str, _Waiting] = {}
        self._next: list[tuple[int, tuple[float, int], int, str]] = []
        self._later: list[tuple[float, int, str]] = []
        self._numbers = count(1)
        self._happened = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def places(self) -> dict[str, int]:
        """How many pods are where."""
        found: dict[str, int] = {}
        for pod in self._pods.values():
            found[pod.place] = found.get(pod.place, 0) + 1
        return found

    def put(self, uid: str, priority: int, created: float) -> None:
        """A pod that was not here before."""
        if uid not in self._pods:
            self._pods[uid] = pod = _Waiting(uid, priority, (created, next(self._numbers)))
            self._to_next(pod)

    def drop(self, uid: str) -> None:
        """The pod has a node, or is gone."""
        self._pods.pop(uid, None)

    def pop(self, now: float) -> str | None:
        """Who is to be tried now."""
        self._bring_back(now)
        while self._next:
            _, _, token, uid = heapq.heappop(self._next)
            pod = self._pods.get(uid)
            if pod is not None and pod.place == "next" and pod.token == token:
                pod.place, pod.seen = "tried", self._happened
                pod.attempts += 1
                return uid
        return None

    def refused(self, uid: str, now: float) -> None:
        """No node will do: the pod waits for something to happen, or is tried again if that happened meanwhile."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        pod.ready = now + self._pause(pod)
        if self._happened > pod.seen:
            self._hold_back(pod)
        else:
            pod.place = "waiting"
            self._to_later(pod, now + self._settings.leftover)

    def failed(self, uid: str, now: float) -> None:
        """Something went wrong that may well go right next time."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.ready = now + self._pause(pod)
            self._hold_back(pod)

    def wake(self, uid: str, now: float) -> None:
        """The pod itself has changed."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if pod.place == "waiting":
            self._return(pod, now)
        elif pod.place == "tried":
            pod.seen = -1

    def wake_all(self, now: float) -> None:
        """Something has changed that may let anybody in."""
        self._happened += 1
        for pod in self._pods.values():
            if pod.place == "waiting":
                self._return(pod, now)

    def due(self) -> float | None:
        """When somebody may be next, if nothing happens before."""
        if self._next:
            return 0.0
        while self._later:
            when, token, uid = self._later[0]
            pod = self._pods.get(uid)
            if pod is not None and pod.token == token:
                return when
            heapq.heappop(self._later)
        return None

    def _bring_back(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            _, token, uid = heapq.heappop(self._later)
            pod = self._pods.get(uid)
            if pod is not None and pod.token == token and pod.place in {"held back", "waiting"}:
                self._to_next(pod)

    def _pause(self, pod: _Waiting) -> float:
        return min(self._settings.first * 2.0 ** min(pod.attempts - 1, 30), self._settings.most)

    def _return(self, pod: _Waiting, now: float) -> None:
        if pod.ready <= now:
            self._to_next(pod)
        else:
            self._hold_back(pod)

    def _to_next(self, pod: _Waiting) -> None:
        pod.place, pod.token = "next", next(self._numbers)
        heapq.heappush(self._next, (-pod.priority, pod.age, pod.token, pod.uid))

    def _hold_back(self, pod: _Waiting) -> None:
        pod.place = "held back"
        self._to_later(pod, pod.ready)

    def _to_later(self, pod: _Waiting, when: float) -> None:
        pod.token = next(self._numbers)
        heapq.heappush(self._later, (when, pod.token, pod.uid))
