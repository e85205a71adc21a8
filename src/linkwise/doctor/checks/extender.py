"""Checks of the way from the scheduler to the service: its Service, its leader, its readiness, and calls that failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, problem, skipped, warning
from linkwise.doctor.objects import find, items_at, labels, name, namespace, number_at, text_at, texts_at, time_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import CertificateFacts, Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS", "ready_addresses", "validity"]

GROUP: Final = "Service"
SERVICE: Final = "linkwise"
RECENT: Final = 3600.0
"""seconds for which a failed call in an event counts"""
PATIENCE: Final = 60.0
"""seconds after which a pod should have been filtered"""
GPUSHARE_PORT: Final = 32766
"""NodePort of gpushare's extender, which its policy file names on the loopback"""
DEFAULT_LEASE: Final = 15
DAY: Final = 86_400.0  # seconds
LATE: Final = 0.9
"""of its lifetime after which a certificate should have been renewed long ago: it is due after two thirds"""
_FAILED: Final = re.compile(r'with extender at URL (\S+)|(?:Post|dial) "?(https?://\S+?)"?:', re.IGNORECASE)
_VERBS: Final = ("filter", "prioritize", "bind", "preempt", "predicate")


def service(facts: Facts) -> Iterator[Finding]:
    """The Service exists, and leads to a replica."""
    subject = f"service/{SERVICE}"
    if find(facts.items("services"), SERVICE) is None:
        found = f"there is no Service {SERVICE} in namespace {facts.namespace}"
        yield problem(subject, found, "install the chart there, or name the namespace of the service with -n")
    elif not ready_addresses(facts, SERVICE):
        yield problem(
            subject,
            "it has no ready endpoint, so no scheduler reaches the service",
            f"check the pods of the service: `kubectl -n {facts.namespace} get pods -l app.kubernetes.io/component=service`;"
            " the leader writes EndpointSlice linkwise-leader when it is elected",
        )


def ready_addresses(facts: Facts, service_name: str) -> frozenset[str]:
    """Addresses of the ready endpoints of a Service, by its EndpointSlices, or its Endpoints if it has none."""
    slices = [each for each in facts.items("slices") if labels(each).get("kubernetes.io/service-name") == service_name]
    found = {
        address
        for each in slices
        for endpoint in items_at(each, "endpoints")
        if _is_ready(endpoint)
        for address in texts_at(endpoint, "addresses")
    }
    legacy = find(facts.items("endpoints"), service_name)
    if not slices and legacy is not None:
        found = {
            text_at(address, "ip")
            for subset in items_at(legacy, "subsets")
            for address in items_at(subset, "addresses")
        }
    return frozenset(found - {""})


def _is_ready(endpoint: Raw) -> bool:
    conditions = endpoint.get("conditions")
    return not isinstance(conditions, dict) or conditions.get("ready") is not False


def leader(facts: Facts) -> Iterator[Finding]:
    """The Lease is held and renewed, and the Service leads to its holder."""
    lease_name = facts.settings.leader.lease
    lease = find(facts.items("leases"), lease_name)
    subject = f"lease/{lease_name}"
    if not facts.settings.leader.enabled:
        yield skipped("leader election is off (leader.enabled)")
        return
    if lease is None:
        if facts.embedded:
            yield skipped("one service runs without a leader election")
            return
        found = f"there is no Lease {lease_name} in namespace {facts.namespace}: no replica was ever elected"
        yield problem(subject, found, "check the logs of the service, and its rights on leases: `--check rbac-service`")
        return
    holder, renewed = text_at(lease, "spec", "holderIdentity"), time_at(lease, "spec", "renewTime")
    duration = number_at(lease, "spec", "leaseDurationSeconds") or DEFAULT_LEASE
    age = facts.time_of("leases") - renewed if renewed is not None else None
    if not holder or age is None or age > 2 * duration:
        when = "never" if age is None else f"{age:.0f} s ago"
        found = f"the Lease is not held: last renewed {when} by {holder or 'no replica'}, and it lasts {duration} s"
        yield problem(
            subject, found, "check that a replica of the service runs, and its logs for why it is not elected"
        )
        return
    pod = next(
        (each for each in facts.items("own-pods") if holder.startswith(f"{name(each)}_") or holder == name(each)), None
    )
    address = text_at(pod, "status", "podIP")
    leads_to = ready_addresses(facts, SERVICE)
    if pod is not None and address and leads_to and address not in leads_to:
        found = f"the leader is pod {name(pod)} at {address}, and the Service leads to {names_text(leads_to)}"
        yield problem(
            f"service/{SERVICE}",
            found,
            "the leader writes EndpointSlice linkwise-leader: check its rights, and delete other slices",
        )


def ready(facts: Facts) -> Iterator[Finding]:
    """The service answers, and is ready."""
    answer = facts.service
    if not answer.ready:
        found = f"the service is not ready: {'; '.join(answer.waits) or 'it gives no reason'}"
        yield problem(
            f"service/{SERVICE}",
            found,
            "wait until its lists are complete; if it persists, check its logs and its role",
        )


def notes(facts: Facts) -> Iterator[Finding]:
    """The service reports no problem of its own."""
    for note in facts.service.notes:
        yield warning(
            f"service/{SERVICE}", note, "the note says what to do; it is also in /readyz and in the log of the service"
        )


def drift(facts: Facts) -> Iterator[Finding]:
    """Records of devices agree."""
    for key, value in sorted(facts.metrics.items()):
        if key.startswith("linkwise_drift{") and value:
            kind = key.partition('kind="')[2].partition('"')[0]
            found = f"{value:.0f} record(s) of devices disagree ({kind})"
            remedy = (
                "`linkwise get devices` and `linkwise explain pod/NAME` name the pods; delete pods that share a device"
            )
            yield warning("", found, remedy)


def events(facts: Facts) -> Iterator[Finding]:
    """No scheduler reports that it can't call the service."""
    failing: dict[str, list[Raw]] = {}
    for event in facts.items("events"):
        match = _FAILED.search(text_at(event, "message"))
        when = (
            time_at(event, "lastTimestamp")
            or time_at(event, "eventTime")
            or time_at(event, "metadata", "creationTimestamp")
        )
        if match and when is not None and facts.api_now - when < RECENT:
            failing.setdefault((match[1] or match[2]).rstrip(",\"'"), []).append(event)
    for url, failed in sorted(failing.items()):
        pods = {f"{namespace(each)}/{text_at(each, 'involvedObject', 'name')}" for each in failed}
        last = max(failed, key=lambda each: time_at(each, "lastTimestamp") or 0.0)
        found = f"a scheduler can't call {url}, for {len(pods)} pod(s) such as {names_text(sorted(pods)[:1])}: {_short(last)}"
        remedy = "check urlPrefix, certificates and network policies; `--scheduler-config FILE` on the scheduler's host tries it"
        yield problem("", found, remedy, sorted(pods))


def _short(event: Raw) -> str:
    return " ".join(text_at(event, "message").split())[:200]


def called(facts: Facts) -> Iterator[Finding]:
    """A scheduler has called the service since pods are waiting."""
    prefix = "linkwise_last_call_timestamp_seconds{"
    last = max(
        (
            value
            for key, value in facts.metrics.items()
            if key.startswith(prefix) and any(verb in key for verb in _VERBS)
        ),
        default=0.0,
    )
    waiting = [
        pod
        for pod in facts.items("pending")
        if _names_us(facts, pod)
        and not text_at(pod, "spec", "nodeName")
        and not items_at(pod, "spec", "schedulingGates")
    ]
    ages = [
        facts.api_now - made for pod in waiting if (made := time_at(pod, "metadata", "creationTimestamp")) is not None
    ]
    quiet = facts.api_now - last
    if ages and max(ages) > PATIENCE and quiet > max(RECENT, PATIENCE):
        when = f"for {quiet / 3600:.0f} h" if last else "since the service started"
        found = f"no scheduler has called the service {when}, and {len(waiting)} pod(s) wait for one that should"
        yield problem(
            f"service/{SERVICE}",
            found,
            "check that the scheduler runs, and that urlPrefix of its extender leads to the Service",
            [f"{namespace(each)}/{name(each)}" for each in waiting],
        )


def _names_us(facts: Facts, pod: Raw) -> bool:
    names = {each for document, _ in facts.extenders for each in document.schedulers} | set(
        facts.settings.explain.schedulers
    )
    return text_at(pod, "spec", "schedulerName") in names


def certificates(facts: Facts) -> Iterator[Finding]:
    """The certificates by which the scheduler and the service know each other are valid."""
    secrets = {name(each): facts.certificates.get(f"secret/{name(each)}", ()) for each in facts.items("tls-secrets")}
    if not secrets:
        yield skipped("TLS of the service is off (tls.enabled), or its certificates come from files")
    for secret, found in secrets.items():
        remedy = "the service renews it: check that a replica leads, its log, and its rights on the Secret"
        if not found:
            yield problem(
                f"secret/{secret}", "it holds no certificate that can be read", "delete it: the service creates another"
            )
        for each in found:
            yield from validity(facts, each, f"secret/{secret}", remedy)


def validity(facts: Facts, certificate: CertificateFacts, subject: str, remedy: str) -> Iterator[Finding]:
    """What is wrong with the time of a certificate."""
    left = (certificate.ends - facts.api_now) / DAY
    past = (facts.api_now - certificate.begins) / max(1.0, certificate.ends - certificate.begins)
    if left <= 0:
        yield problem(subject, f"its certificate expired {-left:.1f} day(s) ago", remedy)
    elif past > LATE:
        yield warning(subject, f"its certificate expires in {left:.1f} day(s) and was not renewed", remedy)


def port(facts: Facts) -> Iterator[Finding]:
    """The addresses in --scheduler-config answer, as seen from this machine."""
    for document in facts.schedulers:
        extender = document.ours
        tried = facts.connections.get(extender.url) if extender and document.local else None
        if extender is None or tried is None or not tried.error:
            continue
        # rule 004.trouble: the port is closed on the loopback, and open at the address of the machine.
        if extender.loopback and extender.port == GPUSHARE_PORT:
            remedy = (
                "kube-proxy serves NodePorts on the loopback only in iptables mode with localhostNodePorts: use the address of the"
                " node or of the Service, `linkwise config scheduler --from-policy FILE --url URL`, or a port on the host network"
            )
        else:
            remedy = "run this on the scheduler's host; check the address, network policies and the certificates of tlsConfig"
        open_at = f"; the port is open at {names_text(tried.elsewhere)}" if tried.elsewhere else ""
        yield problem(document.place, f"{extender.url} does not answer: {tried.error}{open_at}", remedy)


CHECKS: Final = (
    Check(
        "extender-service",
        GROUP,
        "Service linkwise leads to a replica",
        service,
        ("services",),
        ("slices", "endpoints"),
    ),
    Check(
        "extender-leader",
        GROUP,
        "a replica is elected, and the Service leads to it",
        leader,
        ("leases", "settings"),
        ("own-pods", "slices", "endpoints"),
    ),
    Check("extender-ready", GROUP, "the service is ready", ready, ("readyz",), ("services",)),
    Check("extender-notes", GROUP, "the service reports no problem", notes, ("readyz",), ("services",)),
    Check("extender-events", GROUP, "no scheduler reports failed calls", events, ("events",)),
    Check(
        "extender-called",
        GROUP,
        "schedulers call the service",
        called,
        ("metrics", "pending"),
        ("scheduler-files", "settings", "services"),
    ),
    Check(
        "extender-certificate",
        GROUP,
        "the certificates between scheduler and service are valid",
        certificates,
        ("tls-secrets",),
    ),
    Check(
        "extender-port",
        GROUP,
        "the addresses in --scheduler-config answer from this machine",
        port,
        ("connections",),
        ("scheduler-files",),
    ),
    Check("records-agree", GROUP, "records of devices agree", drift, ("metrics",), ("services",)),
)
