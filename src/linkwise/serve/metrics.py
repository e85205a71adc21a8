"""What the service tells Prometheus: numbers that are counted as things happen, and some that are looked up when asked.

Every name, with its labels, is in the table of docs/reference/metrics.md.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from linkwise import __version__
from linkwise.engine.reasons.catalog import REFUSALS
from linkwise.speed.uniform_mapping import UniformMapping

if TYPE_CHECKING:
    from linkwise.broker.answers import FilterAnswer

__all__ = ["Counting"]

BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
RULES: Final = {text.short: rule for (rule, _), text in reversed(REFUSALS.items())}
"""the rule by the text that schedulers are told"""
OTHER: Final = "manifest"
"""the reason of refusals that no rule has words for: what the pod says makes no sense"""


class Counting:
    """Counters and histograms of one service."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the page and nobody reads them
        self.registry: Final = CollectorRegistry()
        self._seconds = Histogram(
            "linkwise_request_duration_seconds",
            "How long requests take to answer.",
            ["verb"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._requests = Counter(
            "linkwise_requests", "Requests by verb and status code.", ["verb", "code"], registry=self.registry
        )
        self._decisions = Counter(
            "linkwise_decisions",
            "Answers to filter, by policy and by the rule that refused the first node; empty if some node fits.",
            ["policy", "reason"],
            registry=self.registry,
        )
        self._binds = Counter(
            "linkwise_binds",
            "Binds by outcome: written, refused, unknown; before anything was sent, conflict if the node or the devices can't"
            " be had any more, unseen if the pod is not known.",
            ["outcome"],
            registry=self.registry,
        )
        # Finding what labels stand for takes longer than counting, and they are few.
        self._by_answer = cache(lambda verb, code: (self._requests.labels(verb, code), self._seconds.labels(verb)))
        self._by_decision = cache(self._decisions.labels)
        for outcome in ("written", "refused", "unknown", "conflict", "unseen"):
            self._binds.labels(outcome)
        build = Gauge("linkwise_build_info", "The version that runs.", ["version"], registry=self.registry)
        build.labels(__version__).set(1)

    def request(self, verb: str, code: int, seconds: float) -> None:
        """A request was answered."""
        counter, histogram = self._by_answer(verb, code)
        counter.inc()
        histogram.observe(seconds)

    def decision(self, answer: FilterAnswer) -> None:
        """A pod was offered nodes, or refused."""
        self._by_decision(answer.policy or "none", "" if answer.nodes else _reason(answer)).inc()

    def bind(self, outcome: str) -> None:
        """A bind ended."""
        self._binds.labels(outcome).inc()


def _reason(answer: FilterAnswer) -> str:
    """The rule that refused the first node: where every node is refused, it is nearly always the same for all."""
    for texts in (answer.failed, answer.unresolvable):
        text = texts.text if isinstance(texts, UniformMapping) else next(iter(texts.values()), None)
        if text is not None:
            return RULES.get(text, OTHER)
    return OTHER
