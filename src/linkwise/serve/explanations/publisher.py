"""Publisher: shows owners why their pods are pending, in a condition and in events of each pod.

Works in rounds beside the calls. A round explains the pods that are due, equal pods once, and stops when the rate is used
up: the first in line are those about which nothing is published, then by priority and age. What to publish is decided by
`explain.publishing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.broker.watch_events import PodDeleted
from linkwise.explain.published.lists import PodExplainer
from linkwise.explain.published.publishing import finding_of, has_plan, is_ours, placed, published, waits
from linkwise.model.views import FINISHED, PodView
from linkwise.net.timing import RateLimit, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.config.settings import ExplainSettings
    from linkwise.explain.published.publishing import Published
    from linkwise.serve.explanations.explainer import Explainer

__all__ = ["Publisher"]

log: Final = logging.getLogger(__name__)

ROUND_SECONDS: Final = 0.5
"""between two rounds"""
MAX_ROUND_SECONDS: Final = 5.0
"""after which a round ends: what it has explained may be outdated, and pods of higher priority may have come"""
PODS_PER_TURN: Final = 500
"""pending pods that are looked at before calls are answered"""
PLANNED_SECONDS: Final = 30.0
"""for which the scheduler may carry out a plan before it is published on the pod; most pods are bound by then"""
IDLE_SHARE: Final = 3.0
"""after an explanation the publisher rests for this many times as long as it took, so that calls have the rest"""


class Publisher:
    """Publishes the reasons of pending pods.

    Args:
        explainer: explains pods.
        tell: passes on effects.
        settings: whether, when and how often something is published.
        timing: the monotonic clock and sleep of rounds; the explainer's clock is that of decisions.
    """

    def __init__(
        self,
        explainer: Explainer,
        tell: Callable[[Iterable[Effect]], None],
        settings: ExplainSettings,
        timing: Timing | None = None,
    ) -> None:
        self._timing: Final = timing or Timing()
        self._settings: Final = settings
        self._explainer: Final = explainer
        self._broker: Final = explainer.broker
        self._tell: Final = tell
        self._rate: Final = RateLimit(self._timing, settings.rate, settings.burst)
        self.schedulers: Final = set(settings.schedulers)
        """names of schedulers that call the service: those of the settings, and those that have asked about a pod"""
        self._pending: dict[str, float] = {}
        """by UID: when a pod without a node was last explained, or is first due minus the interval"""
        self._planned: dict[str, float] = {}
        """by UID: when a pod about which nothing is published was first due while a plan was written on it"""
        self._published: dict[str, Published] = {}
        self._bound: dict[str, None] = {}
        """pods whose condition is to become True"""
        self.explained = 0
        """explanations so far; those of equal pods in one round count once"""

    def observe(self, events: Iterable[WatchEvent]) -> None:
        """Keep track of pods without a node, and of pods that have since been bound."""
        first = self._timing.clock() + self._settings.delay - self._settings.interval
        for event in events:
            if isinstance(event, PodDeleted):
                self._forget(event.uid)
            elif isinstance(event, PodView):
                if waits(event):
                    self._pending.setdefault(event.uid, first)
                elif self._is_placed(event):
                    self._pending.pop(event.uid, None)
                    self._planned.pop(event.uid, None)
                    self._bound[event.uid] = None
                else:
                    self._forget(event.uid)

    def _is_placed(self, pod: PodView) -> bool:
        """Whether the pod has a node, and its condition says that it has none."""
        said = pod.uid in self._published or (pod.condition is not None and not pod.condition.status)
        return bool(pod.node) and said and not pod.deleting and pod.phase not in FINISHED

    def _forget(self, uid: str) -> None:
        self._pending.pop(uid, None)
        self._planned.pop(uid, None)
        self._published.pop(uid, None)
        self._bound.pop(uid, None)

    def codes(self) -> Mapping[str, int]:
        """The number of pending pods by code, of those that have been explained."""
        return Counter(last.finding.code for uid, last in self._published.items() if uid in self._pending)

    async def run(self, may_publish: Callable[[], bool]) -> None:
        """Publish in rounds, until cancelled; a failure is logged and the next round tries again."""
        failure = ""
        while True:
            await self._timing.sleep(ROUND_SECONDS)
            if not may_publish():
                continue
            try:
                await self.round()
            except Exception as error:
                if failure != (failure := f"{type(error).__name__}: {error}"):
                    log.exception("pending reasons not published (a bug in Linkwise)")

    async def round(self) -> None:
        """Publish what is due, as far as the rate allows."""
        self._publish_placed()
        due = await self._due()
        if not due:
            return
        many = PodExplainer(self._broker, self._explainer.clock())
        began = self._timing.clock()
        for pod in due:
            started = self._timing.clock()
            if not self._rate.ready() or started - began > MAX_ROUND_SECONDS:
                return
            await self._publish(pod, many)
            spent = self._timing.clock() - started
            if spent > 0.0:
                await self._timing.sleep(IDLE_SHARE * spent)

    async def _publish(self, pod: PodView, many: PodExplainer) -> None:
        before = many.surveys + len(many.groups)
        explanation = await self._explainer.once(lambda: many.explain(pod.uid, frozenset({pod.namespace})))
        self.explained += many.surveys + len(many.groups) > before
        now_there = self._broker.pods.get(pod.uid)
        if explanation is None or now_there is None or not waits(now_there) or pod.uid not in self._pending:
            return  # bound or deleted meanwhile
        self._pending[pod.uid] = self._timing.clock()
        finding = finding_of(explanation)
        if finding is None:
            self._published.pop(pod.uid, None)
            return
        last, now = self._published.get(pod.uid), self._explainer.clock()
        effects, self._published[pod.uid] = published(now_there, finding, last, now, self._settings.interval)
        if effects:
            self._rate.spend()
            self._tell(effects)

    def _publish_placed(self) -> None:
        for uid in list(self._bound):
            if not self._rate.ready():
                return
            pod = self._broker.pods.get(uid)
            condition = placed(pod, self._published.get(uid), self._explainer.clock()) if pod and pod.node else None
            self._forget(uid)
            if condition:
                self._rate.spend()
                self._tell([condition])

    async def _due(self) -> list[PodView]:
        """The pods to explain now: those of which nothing is published first, then by priority and age."""
        now, interval, due = self._timing.clock(), self._settings.interval, list[PodView]()
        for number, (uid, at) in enumerate(list(self._pending.items())):
            if number % PODS_PER_TURN == PODS_PER_TURN - 1:
                await asyncio.sleep(0)
            if now - at < interval or uid not in self._pending:
                continue
            pod = self._broker.pods.get(uid)
            if pod is None or not waits(pod):
                self._forget(uid)
            elif (
                has_plan(pod)
                and uid not in self._published
                and now < self._planned.setdefault(uid, now) + PLANNED_SECONDS
            ):
                continue
            elif is_ours(self._broker, pod, self.schedulers):
                due.append(pod)
            else:
                self._pending[uid] = now - interval + max(1.0, self._settings.delay)  # a scheduler may ask later
        return sorted(due, key=lambda pod: (pod.uid in self._published, -pod.priority, pod.created, pod.uid))
