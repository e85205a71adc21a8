"""Checks of pods that wait: those that no scheduler has looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.findings import Check, names_text, problem
from linkwise.doctor.objects import condition, items_at, name, namespace, text_at, time_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts
    from linkwise.doctor.findings import Finding

__all__ = ["CHECKS"]

GROUP: Final = "Pods"
PATIENCE: Final = 60.0  # seconds


def unscheduled(facts: Facts) -> Iterator[Finding]:
    """Every pod that names our scheduler is looked at by it."""
    names = {each for document, _ in facts.extenders for each in document.schedulers} | set(
        facts.settings.explain.schedulers
    )
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


CHECKS: Final = (
    Check(
        "pods-untried",
        GROUP,
        "every pod is tried by the scheduler that it names",
        unscheduled,
        ("pending",),
        ("scheduler-files", "settings"),
    ),
)
