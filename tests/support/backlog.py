"""A cluster under a steady backlog of small pods, second by second, as kube-scheduler would drive it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from linkwise.broker.effects import Event
from linkwise.broker.watch_events import PodDeleted
from linkwise.testing.cluster import NVIDIA, binds, broker_of, device_pod, seen_bound, seen_steered, steers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView
    from linkwise.testing.cluster import FakeNode

__all__ = ["Backlog", "one_gpu"]

START: Final = 1_000.0
WAITING: Final = 12
"""small pods that are pending at any time"""
SHORTEST: Final = 40
"""seconds that a small pod runs at least; less than 80 at most"""


def one_gpu(number: int) -> PodView:
    """A small pod of one device."""
    return device_pod(f"small-{number}", 1, NVIDIA)


class Backlog:
    """Small pods that are replaced as soon as they start, and the pods that wait beside them."""

    def __init__(
        self,
        nodes: Iterable[FakeNode],
        large: Iterable[PodView],
        settings: PlacingSettings | None = None,
        small: Callable[[int], PodView] = one_gpu,
    ) -> None:
        self.boxes = list(nodes)
        self.names = [box.name for box in self.boxes]
        self.broker: Broker = broker_of(*self.boxes, settings=settings)
        self.now = START
        self.started: dict[str, float] = {}
        """by name, seconds since the beginning"""
        self.events: list[Event] = []
        self.idle = 0.0
        """device seconds that were kept free for a reservation"""
        self._small = small
        self._made = 0
        self._ends: dict[str, float] = {}
        self._pending: list[PodView] = []
        self._fill()
        self.run(60)
        for pod in large:
            self.add(pod)

    def add(self, pod: PodView) -> None:
        """A pod is created."""
        pod = replace(pod, created=self.now)
        self._pending.append(pod)
        self.take(self.broker.observe([pod], self.now))

    def run(self, seconds: int) -> None:
        """Let that many seconds pass."""
        for _ in range(seconds):
            self.now += 1.0
            over = [uid for uid, end in self._ends.items() if end <= self.now]
            for uid in over:
                del self._ends[uid]
            self.take(self.broker.observe([PodDeleted(uid) for uid in over], self.now))
            self._schedule()
            while (due := self.broker.next_deadline()) is not None and due <= self.now:
                self.take(self.broker.step(self.now, 1000))
            self.idle += self.broker.counts().reserved
            self._fill()

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out; what is written on gated pods is observed at once."""
        effects = tuple(effects)
        self.events += [effect for effect in effects if isinstance(effect, Event)]
        for steer in steers(effects):
            for pod in [pod for pod in self._pending if pod.uid == steer.uid]:
                self._pending[self._pending.index(pod)] = new = seen_steered(pod, steer)
                self.take(self.broker.observe([new], self.now))

    def _fill(self) -> None:
        while sum(_is_small(pod) for pod in self._pending) < WAITING:
            self._made += 1
            self.add(self._small(self._made))

    def _schedule(self) -> None:
        """Every pending pod is tried, by priority and age; of equal small ones only as many as fit."""
        full = False
        for pod in sorted(self._pending, key=lambda pod: (-pod.priority, pod.created, pod.uid)):
            small = _is_small(pod)
            if (full and small) or pod.gates:
                continue
            answer = self.broker.filter(pod, self.names, self.now)
            self.take(answer.effects)
            if answer.nodes:
                self._bind(pod, answer.nodes[0])
            else:
                full = full or small
                self._report(pod)

    def _bind(self, pod: PodView, node: str) -> None:
        answer = self.broker.bind(pod.uid, node, self.now)
        assert not answer.error, answer.error
        (bound,) = binds(answer.effects)
        self.take(answer.effects)
        self.take(self.broker.outcome(bound, "written", self.now))
        self.take(self.broker.observe([seen_bound(pod, bound)], self.now))
        self._pending.remove(pod)
        self._ends[pod.uid] = self.now + (SHORTEST + crc32(pod.uid.encode()) % 40 if _is_small(pod) else 600)
        self.started[pod.name] = self.now - START

    def _report(self, pod: PodView) -> None:
        """The scheduler reports a pod as unschedulable, once."""
        if not pod.unschedulable_since:
            new = replace(pod, unschedulable_since=self.now, version=pod.version + 1)
            self._pending[self._pending.index(pod)] = new
            self.take(self.broker.observe([new], self.now))


def _is_small(pod: PodView) -> bool:
    return pod.name.startswith("small")
