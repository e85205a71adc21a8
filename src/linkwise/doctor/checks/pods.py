"""Checks of pods that wait: those that no scheduler has looked at, and those for which it can't call the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, problem
from linkwise.doctor.objects import condition, items_at, name, namespace, text_at, time_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS"]

GROUP: Final = "Pods"
PATIENCE: Final = 60.0  # seconds
MESSAGE: Final = 300
"""characters of an error that are shown"""


def unscheduled(facts: Facts) -> Iterator[Finding]:
    """Every pod that names our scheduler is looked at by it."""
    names = _schedulers(facts)
    waiting: dict[str, list[str]] = {}
    for pod in facts.items("pending"):
        scheduler, made = text_at(pod, "spec", "schedulerName"), time_at(pod, "metadata", "creationTimestamp")
        # A scheduler that has tried a pod and failed says so in this condition; the API server sets it for gated pods.
        tried = (
            text_at(pod, "spec", "nodeName")
            or condition(pod, "PodScheduled")
            or items_at(pod, "spec", "schedulingGates")
        )
        if scheduler in names and not tried and made is not None and facts.api_now - made > PATIENCE:
            waiting.setdefault(scheduler, []).append(f"{namespace(pod)}/{name(pod)}")
    for scheduler, pods in sorted(waiting.items()):
        found = f"no scheduler called {scheduler} has tried {len(pods)} pod(s) that name it: {names_text(pods)}"
        remedy = "start it, and check its profile names, its lease and its log: `kubectl get lease -A | grep scheduler`"
        yield problem(f"pod/{pods[0].partition('/')[2]}" if len(pods) == 1 else "", found, remedy, pods)


def failing(facts: Facts) -> Iterator[Finding]:
    """No pod waits because each attempt to schedule it ends with an error."""
    names = _schedulers(facts)
    failed: dict[str, list[tuple[float, Raw]]] = {}
    for pod in facts.items("pending"):
        tried = condition(pod, "PodScheduled")
        since = time_at(tried, "lastTransitionTime")
        # "Unschedulable" is an answer; this is the reason if there was none, or a refusal to answer.
        if since is None or text_at(tried, "reason") != "SchedulerError":
            continue
        if text_at(pod, "spec", "schedulerName") in names and facts.api_now - since > PATIENCE:
            failed.setdefault(text_at(pod, "spec", "schedulerName"), []).append((since, pod))
    for scheduler, found in sorted(failed.items()):
        since, oldest = min(found, key=lambda each: each[0])
        message = " ".join(text_at(condition(oldest, "PodScheduled"), "message").split())[:MESSAGE]
        sentence = (
            f"attempts of {scheduler} to schedule {len(found)} pod(s) end with an error, the oldest for"
            f" {facts.api_now - since:.0f} s: {message}"
        )
        remedy = (
            "it calls a replica that does not lead: compare `kubectl get lease,endpointslices` in the namespace of the service with"
            " urlPrefix, which must lead through Service linkwise; restarting the scheduler ends its connections"
            if "not the leader" in message
            else "check that the Service leads to the leader (`--check extender-service,extender-leader`), and the scheduler's log"
        )
        pods = [f"{namespace(pod)}/{name(pod)}" for _, pod in found]
        yield problem(f"pod/{name(oldest)}" if len(pods) == 1 else "", sentence, remedy, pods)


def _schedulers(facts: Facts) -> set[str]:
    """Names of schedulers that call the service."""
    configured = {each for document, _ in facts.extenders for each in document.schedulers}
    return configured | set(facts.settings.explain.schedulers)


CHECKS: Final = (
    Check(
        "pods-untried",
        GROUP,
        "every pod is tried by the scheduler that it names",
        unscheduled,
        ("pending",),
        ("scheduler-files", "settings"),
    ),
    Check(
        "pods-failing",
        GROUP,
        "attempts to schedule pods end with an answer",
        failing,
        ("pending",),
        ("scheduler-files", "settings"),
    ),
)
