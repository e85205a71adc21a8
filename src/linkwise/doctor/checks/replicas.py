"""Checks of the installation itself: settings, replicas of the service and of its scheduler, and their disruption budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, problem, skipped, warning
from linkwise.doctor.objects import find, is_selected, labels, name, number_at, object_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding

__all__ = ["CHECKS"]

GROUP: Final = "Installation"
SERVICE, SCHEDULER = "linkwise", "linkwise-scheduler"


def settings(facts: Facts) -> Iterator[Finding]:
    """The settings are valid."""
    for sentence in facts.settings_problems:
        yield problem(
            facts.settings_place,
            sentence,
            "correct it, and restart the pods: `linkwise config show --config FILE` checks a file",
        )


def available(facts: Facts) -> Iterator[Finding]:
    """All replicas are ready."""
    there = [each for each in (SERVICE, SCHEDULER) if find(facts.items("deployments"), each) is not None]
    if not there:
        yield skipped(f"there is no Deployment of Linkwise in namespace {facts.namespace}")
    for each in there:
        deployment = find(facts.items("deployments"), each)
        wanted = number_at(deployment, "spec", "replicas")
        wanted = 1 if wanted is None else wanted
        ready = number_at(deployment, "status", "readyReplicas") or 0
        if wanted == 0:
            yield problem(
                f"deployment/{each}",
                "it is scaled to zero",
                f"scale it up: `kubectl scale deployment/{each} --replicas=2`",
            )
        elif ready < wanted:
            found = f"{ready} of {wanted} replicas are ready"
            remedy = f"`kubectl -n {facts.namespace} describe deployment/{each}` and the logs of its pods say why"
            yield (warning if ready else problem)(f"deployment/{each}", found, remedy)


def replicas(facts: Facts) -> Iterator[Finding]:
    """Several replicas elect a leader."""
    deployment = find(facts.items("deployments"), SERVICE)
    if deployment is None:
        yield skipped(f"there is no Deployment {SERVICE} in namespace {facts.namespace}")
        return
    count = number_at(deployment, "spec", "replicas")
    if count is not None and count > 1 and not facts.settings.leader.enabled:
        found = f"{count} replicas without a leader election allocate the same devices twice"
        yield problem(f"deployment/{SERVICE}", found, "set leader.enabled to true, or replicas to 1")


def budget(facts: Facts) -> Iterator[Finding]:
    """Nodes can be drained."""
    for each in facts.items("budgets"):
        for deployment in facts.items("deployments"):
            pods = labels(object_at(deployment, "spec", "template"))
            count = number_at(deployment, "spec", "replicas")
            if not pods or not is_selected(object_at(each, "spec", "selector"), pods):
                continue
            least, most = object_at(each, "spec").get("minAvailable"), object_at(each, "spec").get("maxUnavailable")
            blocks = least == "100%" or (isinstance(least, int) and least >= (1 if count is None else count))
            if blocks or most in {0, "0", "0%"}:
                found = f"it never lets a pod of deployment/{name(deployment)} be evicted, so its node can't be drained"
                yield warning(
                    f"poddisruptionbudget/{name(each)}", found, "run two replicas, or allow one to be unavailable"
                )


CHECKS: Final = (
    Check("settings-valid", GROUP, "the settings are valid", settings, ("settings",)),
    Check("replicas-ready", GROUP, "all replicas are ready", available, ("deployments",)),
    Check("replicas-leader", GROUP, "several replicas elect a leader", replicas, ("deployments", "settings")),
    Check("replicas-budget", GROUP, "nodes of replicas can be drained", budget, ("deployments", "budgets")),
)
