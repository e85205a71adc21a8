"""Prometheus counters and histograms of the service; `gauges` adds what is collected per scrape.

docs/reference/metrics.md lists every metric with its labels.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from linkwise import __version__
from linkwise.engine.reasons.catalog import code_of_rule, refusal_of
from linkwise.engine.reasons.phrases import PENDING_CODES
from linkwise.speed.uniform_mapping import UniformMapping

if TYPE_CHECKING:
    from linkwise.broker.effects import FilterAnswer

__all__ = ["Counting"]

BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
WAITS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
CALLS: Final = ("filter", "prioritize", "bind", "preempt", "volcano_predicate")
"""verbs by which schedulers ask: those of kube-scheduler, and the first one of Volcano for a pod"""
STRANGERS: Final = ("no_certificate", "bad_certificate", "untrusted_server", "protocol")
"""why callers are refused on the extender's port"""
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
        self._last_calls = Gauge(
            "linkwise_last_call_timestamp_seconds",
            "When a scheduler last called a verb, in seconds since 1970; 0 before the first call.",
            ["verb"],
            registry=self.registry,
        )
        self._decisions = Counter(
            "linkwise_decisions",
            "Filter results by policy and by the rule that rejected the first node; empty if a node fits.",
            ["policy", "reason"],
            registry=self.registry,
        )
        self._refusals = Counter(
            "linkwise_refusals",
            "Filter results without a node, by the code of the reason that rejected the first node.",
            ["code"],
            registry=self.registry,
        )
        self._binds = Counter(
            "linkwise_binds",
            "Binds by outcome: written, refused or unknown; conflict if the node or devices were no longer free, unseen"
            " if the watch had not delivered the pod (nothing was sent in either case).",
            ["outcome"],
            registry=self.registry,
        )
        self._admissions = Counter(
            "linkwise_admissions",
            "Admission reviews by call and verdict: unchanged, changed, warned, refused, or unreadable.",
            ["call", "verdict"],
            registry=self.registry,
        )
        self._bookings = Counter(
            "linkwise_volcano_bookings",
            "Calls of Volcano to allocate or deallocate a pod: booked, refused, or returned.",
            ["result"],
            registry=self.registry,
        )
        self._volcano_jobs = Counter(
            "linkwise_volcano_jobs",
            "Calls of Volcano before a job is enqueued: accepted, or refused because its shape is invalid.",
            ["verdict"],
            registry=self.registry,
        )
        self._ungated = Histogram(
            "linkwise_gang_wait_seconds",
            "Seconds from the moment that a gang was complete until the scheduling gate of a member was removed.",
            buckets=WAITS,
            registry=self.registry,
        )
        self._expiry = Gauge(
            "linkwise_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate of the admission webhook expires, in seconds since 1970; 0 without a webhook.",
            registry=self.registry,
        )
        self._tls_expiry = Gauge(
            "linkwise_tls_certificate_expiry_timestamp_seconds",
            "When a certificate of the extender's port expires, in seconds since 1970: that of the service (serving), and the"
            " one that it keeps for schedulers (client); 0 without TLS.",
            ["certificate"],
            registry=self.registry,
        )
        self._strangers = Counter(
            "linkwise_tls_refused",
            "Callers refused on the extender's port with TLS: no_certificate (403 for a scheduler's route), bad_certificate,"
            " untrusted_server (the client refused ours) or protocol (not TLS).",
            ["reason"],
            registry=self.registry,
        )
        # Looking up a labelled child takes longer than incrementing it, and there are few of them.
        self._by_answer = cache(lambda verb, code: (self._requests.labels(verb, code), self._seconds.labels(verb)))
        self._by_call = {verb: self._last_calls.labels(verb) for verb in CALLS}
        self._by_decision = cache(self._decisions.labels)
        self._by_verdict = cache(self._admissions.labels)
        for code in PENDING_CODES:
            self._refusals.labels(code)
        for outcome in ("written", "refused", "unknown", "conflict", "unseen"):
            self._binds.labels(outcome)
        for result in ("booked", "refused", "returned"):
            self._bookings.labels(result)
        for verdict in ("accepted", "refused"):
            self._volcano_jobs.labels(verdict)
        for certificate in ("serving", "client"):
            self._tls_expiry.labels(certificate)
        for reason in STRANGERS:
            self._strangers.labels(reason)
        build = Gauge("linkwise_build_info", "Version of the running service.", ["version"], registry=self.registry)
        build.labels(__version__).set(1)

    def request(self, verb: str, code: int, seconds: float) -> None:
        """Count a request."""
        counter, histogram = self._by_answer(verb, code)
        counter.inc()
        histogram.observe(seconds)
        if code == 200 and (last := self._by_call.get(verb)):
            last.set(time.time())

    def decision(self, answer: FilterAnswer) -> None:
        """Count a filter result."""
        text = None if answer.nodes else _text(answer)
        refused = refusal_of(text) if text else None
        reason = "" if answer.nodes else refused[0] if refused else OTHER
        self._by_decision(answer.policy or "none", reason).inc()
        if not answer.nodes:
            # Without a policy the request is invalid; other texts that are not in the catalogue are a plug-in's.
            unknown = code_of_rule("", "") if answer.policy else "Invalid"
            self._refusals.labels(code_of_rule(*refused) if refused else unknown).inc()

    def admission(self, call: str, verdict: str) -> None:
        """Count an admission review."""
        self._by_verdict(call, verdict).inc()

    def certificate(self, expires: float) -> None:
        """Set when the certificate of the webhook expires, in seconds since the epoch."""
        self._expiry.set(expires)

    def serving_certificate(self, expires: float) -> None:
        """Set when the certificate of the extender's port expires, in seconds since the epoch."""
        self._tls_expiry.labels("serving").set(expires)

    def client_certificate(self, expires: float) -> None:
        """Set when the client certificate for schedulers expires, in seconds since the epoch."""
        self._tls_expiry.labels("client").set(expires)

    def stranger(self, reason: str) -> None:
        """Count a caller that was refused on the extender's port."""
        self._strangers.labels(reason).inc()

    def bind(self, outcome: str) -> None:
        """Count a bind by its outcome."""
        self._binds.labels(outcome).inc()

    def booking(self, result: str) -> None:
        """Count a call of Volcano about an allocation."""
        self._bookings.labels(result).inc()

    def volcano_job(self, verdict: str) -> None:
        """Count a call of Volcano about a job."""
        self._volcano_jobs.labels(verdict).inc()

    def ungated(self, seconds: float) -> None:
        """Count a member of a gang whose scheduling gate was removed that long after the gang was complete."""
        self._ungated.observe(seconds)


def _text(answer: FilterAnswer) -> str | None:
    """The short reason of the first node; when no node fits, it is nearly always the same for all of them."""
    for texts in (answer.failed, answer.unresolvable):
        text = texts.text if isinstance(texts, UniformMapping) else next(iter(texts.values()), None)
        if text is not None:
            return text
    return None
