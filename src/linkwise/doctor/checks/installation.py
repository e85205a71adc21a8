"""Checks of the installation itself: CRDs, settings, and the replicas of the service and its scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.doctor.facts import Check, names_text, problem, skipped, warning
from linkwise.doctor.objects import condition, find, is_selected, items_at, labels, name, number_at, object_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.doctor.facts import Facts, Finding
    from linkwise.doctor.objects import Raw

__all__ = ["CHECKS"]

_APPLY: Final = "`linkwise manifests crd | kubectl apply --server-side -f -`"
_ANY: Final = "x-kubernetes-preserve-unknown-fields"
SERVICE, SCHEDULER = "linkwise", "linkwise-scheduler"


def installed(facts: Facts) -> Iterator[Finding]:
    """All definitions are there, and the API server serves them."""
    for wanted in facts.schemas:
        there = find(facts.items("crds"), name(wanted))
        subject = f"customresourcedefinition/{name(wanted)}"
        if there is None:
            yield problem(subject, f"there is no CustomResourceDefinition {name(wanted)}", f"install it: {_APPLY}")
            continue
        established = condition(there, "Established")
        if established.get("status") != "True":
            why = (
                text_at(condition(there, "NamesAccepted"), "message")
                or text_at(established, "message")
                or "no reason is given"
            )
            found = f"the API server does not serve it (Established is not True): {why}"
            yield problem(subject, found, "remove what its names collide with, or wait if it was just created")


def schemas(facts: Facts) -> Iterator[Finding]:
    """No field of this version is dropped by the API server."""
    for wanted in facts.schemas:
        there = find(facts.items("crds"), name(wanted))
        if there is None:
            continue
        for version in items_at(wanted, "spec", "versions"):
            served = next(
                (each for each in items_at(there, "spec", "versions") if each.get("name") == version.get("name")), None
            )
            subject = f"customresourcedefinition/{name(wanted)}"
            if served is None:
                found = f"version {text_at(version, 'name')} is not in it: it is of another version of Linkwise"
                yield problem(subject, found, f"update it: {_APPLY}")
                continue
            missing = sorted(_missing(_schema(version), _schema(served), ""))
            if missing:
                found = f"its schema is older than this version of Linkwise: the API server drops {names_text(missing)}"
                yield problem(subject, found, f"update it: {_APPLY}", missing)


def _schema(version: Raw) -> Raw:
    return object_at(version, "schema", "openAPIV3Schema")


def _missing(wanted: Raw, served: Raw, path: str) -> Iterator[str]:
    """Fields of one schema that another lacks, the outermost only."""
    if served.get(_ANY) is True:
        return
    there = object_at(served, "properties")
    for key, inner in object_at(wanted, "properties").items():
        place = f"{path}.{key}" if path else key
        if key not in there:
            if served.get("type") == "object" and not there and path == "":
                return  # a schema that describes nothing prunes nothing that it knows of
            yield place
        elif isinstance(inner, dict):
            yield from _missing(inner, object_at(there, key), place)
            yield from _missing(object_at(inner, "items"), object_at(there, key, "items"), f"{place}[]")


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
    Check("crd-installed", "CRDs", "both definitions are installed and served", installed, ("crds",)),
    Check("crd-schema", "CRDs", "the schemas have every field of this version", schemas, ("crds",)),
    Check("settings-valid", "Installation", "the settings are valid", settings, ("settings",)),
    Check("replicas-ready", "Installation", "all replicas are ready", available, ("deployments",)),
    Check("replicas-leader", "Installation", "several replicas elect a leader", replicas, ("deployments", "settings")),
    Check("replicas-budget", "Installation", "nodes of replicas can be drained", budget, ("deployments", "budgets")),
)
