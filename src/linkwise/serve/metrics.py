"""Prometheus counters and histograms of the service; `gauges` adds what is collected per scrape.

docs/reference/metrics.md lists every metric with its labels.
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
"""rule id by the short reason that kube-scheduler gets"""
OTHER: Final = "manifest"
"""the reason label of refusals without a rule: the pod's request is invalid"""


class Counting:
    """Counters and histograms of one service."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the page for nothing
        self.registry: Final = CollectorRegistry()
        self._seconds = Histogram(
            "linkwise_request_duration_seconds",
            "Request latency by verb.",
            ["verb"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._requests = Counter(
            "linkwise_requests", "Requests by verb and status code.", ["verb", "code"], registry=self.registry
        )
        self._decisions = Counter(
            "linkwise_decisions",
            "Filter results by policy and by the rule that rejected the first node; empty if a node fits.",
            ["policy", "reason"],
            registry=self.registry,
        )
        self._binds = Counter(
            "linkwise_binds",
            "Binds by outcome: written, refused or unknown; conflict if the node or devices were no longer free, unseen"
            " if the watch had not delivered the pod (nothing was sent in either case).",
            ["outcome"],
            registry=self.registry,
        )
        # Looking up a labelled child takes longer than incrementing it, and there are few of them.
        self._by_answer = cache(lambda verb, code: (self._requests.labels(verb, code), self._seconds.labels(verb)))
        self._by_decision = cache(self._decisions.labels)
        for outcome in ("written", "refused", "unknown", "conflict", "unseen"):
            self._binds.labels(outcome)
        build = Gauge("linkwise_build_info", "Version of the running service.", ["version"], registry=self.registry)
        build.labels(__version__).set(1)

    def request(self, verb: str, code: int, seconds: float) -> None:
        """Count a request."""
        counter, histogram = self._by_answer(verb, code)
        counter.inc()
        histogram.observe(seconds)

    def decision(self, answer: FilterAnswer) -> None:
        """Count a filter result."""
        self._by_decision(answer.policy or "none", "" if answer.nodes else _reason(answer)).inc()

    def bind(self, outcome: str) -> None:
        """Count a bind by its outcome."""
        self._binds.labels(outcome).inc()


def _reason(answer: FilterAnswer) -> str:
    """The rule that rejected the first node; when no node fits, it is nearly always the same for all of them."""
    for texts in (answer.failed, answer.unresolvable):
        text = texts.text if isinstance(texts, UniformMapping) else next(iter(texts.values()), None)
        if text is not None:
            return RULES.get(text, OTHER)
    return OTHER
