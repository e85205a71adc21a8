"""Checks of the scheduler's configuration: what kube-scheduler is configured to send to Linkwise, and how.

Source: Kubernetes' own validation of such files; seed 004, the policy file of its scheduler.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from linkwise.config.scheduler_config import VERBS, WEIGHT
from linkwise.config.scheduler_file import POLICY
from linkwise.dialects.registry import is_native, managed_resources
from linkwise.doctor.facts import Check, names_text, problem, warning
from linkwise.doctor.objects import items_at, name, object_at, texts_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.config.scheduler_file import ExtenderEntry, SchedulerDocument
    from linkwise.doctor.facts import Facts, Finding

__all__ = ["CHECKS"]

GROUP: Final = "Scheduler configuration"
SAMPLED_FROM: Final = 100
"""nodes up to which kube-scheduler considers all of them in any case"""
_GENERATE: Final = "`linkwise config scheduler` prints a complete configuration"
_FILE, _POD_FLAGS = "scheduler-files", "kube-schedulers"


def _place(document: SchedulerDocument, extender: ExtenderEntry | None = None) -> str:
    return f"{document.place}:{extender.line}" if extender else document.place


def readable(facts: Facts) -> Iterator[Finding]:
    """The configuration can be read, and is of a kind that kube-scheduler still supports."""
    for document in facts.schedulers:
        if document.problem:
            yield problem(document.place, document.problem, f"correct that line, or write the file again: {_GENERATE}")
        elif document.kind == POLICY:
            yield problem(
                document.place,
                "it is a scheduler policy file (kind Policy), which kube-scheduler does not read since Kubernetes 1.23",
                "convert it with `linkwise config scheduler --from-policy FILE`, and start kube-scheduler with --config",
            )
        elif document.ours is None:
            yield problem(
                document.place,
                "none of its extenders is Linkwise, so no pod is sent to it",
                f"add the extender: {_GENERATE}",
            )
    for pod in facts.items(_POD_FLAGS):
        containers = items_at(pod, "spec", "containers")
        words = [word for each in containers for key in ("command", "args") for word in texts_at(each, key)]
        if any(word.startswith("--policy-config-file") for word in words):
            yield problem(
                f"pod/{name(pod)}",
                "the cluster's kube-scheduler is started with --policy-config-file, which was removed in Kubernetes 1.23",
                "convert the file with `linkwise config scheduler --from-policy FILE`, and use --config instead",
            )


def sampling(facts: Facts) -> Iterator[Finding]:
    """All nodes are considered."""
    for document, _ in facts.extenders:
        if document.sampling == 100:
            continue
        nodes = len(facts.items("nodes"))
        value = "not set" if document.sampling is None else document.sampling
        found = f"percentageOfNodesToScore is {value}: kube-scheduler samples the nodes of clusters with more than 100"
        remedy = "set it to 100, also in profiles that have their own: the best node may not be in the sample"
        yield (problem if nodes > SAMPLED_FROM else warning)(document.place, found, remedy)


def weight(facts: Facts) -> Iterator[Finding]:
    """Linkwise's ranks outweigh the in-tree scores."""
    for document, extender in facts.extenders:
        if "prioritizeVerb" not in extender.verbs or extender.weight >= WEIGHT:
            continue
        if extender.weight < 1:
            found = "weight is not set, and kube-scheduler does not start with a prioritizeVerb and no positive weight"
            yield problem(_place(document, extender), found, f"set weight: {WEIGHT}")
            continue
        found = f"weight is {extender.weight}: the in-tree scores can outweigh a better rank of Linkwise, which {WEIGHT} prevents"
        yield warning(_place(document, extender), found, f"set weight: {WEIGHT}")


def verbs(facts: Facts) -> Iterator[Finding]:
    """All verbs are delegated, and binding to one extender only."""
    for document, extender in facts.extenders:
        missing = [key for key in VERBS if key not in extender.verbs]
        place = _place(document, extender)
        lines = ", ".join(f"{key}: {VERBS[key]}" for key in missing)
        if {"filterVerb", "bindVerb"} & set(missing):
            found = f"{' and '.join(missing)} not set: without filter and bind, devices are neither chosen nor recorded"
            yield problem(place, found, f"set {lines}")
        elif missing:
            yield warning(
                place, f"{' and '.join(missing)} not set: kube-scheduler decides that by itself", f"set {lines}"
            )
        binding = [each.url for each in document.extenders if "bindVerb" in each.verbs]
        if len(binding) > 1:
            found = f"{len(binding)} extenders have a bindVerb, and kube-scheduler starts with one only: {names_text(binding)}"
            yield problem(document.place, found, "remove bindVerb from the extenders that are not Linkwise")


def resources(facts: Facts) -> Iterator[Finding]:
    """All pods with devices are sent, each name is listed once, and kube-scheduler accounts for them."""
    known = [each for names in managed_resources().values() for each in names if not is_native(each)]
    on_nodes = {key for node in facts.items("nodes") for key in object_at(node, "status", "capacity")}
    for document, extender in facts.extenders:
        place = _place(document, extender)
        if extender.managed is None:
            if not facts.settings.placing.every_pod:
                found = "managedResources is not set, so pods without devices are sent too, which the service refuses to bind"
                yield problem(
                    place, found, f"set placing.every_pod of the service to true, or list resources: {_GENERATE}"
                )
            continue
        listed = [each.name for each in extender.managed]
        twice = [each for each, count in Counter(listed).items() if count > 1]
        if twice:
            found = f"managedResources lists {names_text(twice)} twice, and kube-scheduler does not start"
            yield problem(place, found, "list each resource once")
        if missing := [each for each in known if each not in listed]:
            needed = [each for each in missing if each in on_nodes]
            found = f"managedResources lacks {names_text(needed or missing)}"
            tail = ", which nodes have" if needed else ""
            remedy = f"add them, so that pods that request only these are sent to Linkwise: {_GENERATE}"
            yield (problem if needed else warning)(place, f"{found}{tail}", remedy, missing)
        if ignored := [each.name for each in extender.managed if each.ignored]:
            found = f"ignoredByScheduler is true for {names_text(ignored)}"
            remedy = "set it to false: kube-scheduler then counts the total per node, and preempts by it"
            yield warning(place, found, remedy, ignored)


def node_names(facts: Facts) -> Iterator[Finding]:
    """Node names are sent, not Node objects."""
    for document, extender in facts.extenders:
        if not extender.node_cache:
            found = "nodeCacheCapable is not true: kube-scheduler sends whole Node objects, megabytes per call in large clusters"
            yield warning(_place(document, extender), found, "set nodeCacheCapable: true")


def ignorable(facts: Facts) -> Iterator[Finding]:
    """A failed call never binds a pod without devices."""
    for document, extender in facts.extenders:
        if extender.ignorable and "bindVerb" in extender.verbs:
            found = "ignorable is true together with bindVerb: while Linkwise is down, pods are bound without devices"
            yield problem(_place(document, extender), found, "set ignorable: false")


def timeout(facts: Facts) -> Iterator[Finding]:
    """The scheduler waits for the result of a bind."""
    limit = facts.settings.kube.bind_timeout
    for document, extender in facts.extenders:
        if extender.timeout <= limit:
            found = f"httpTimeout is {extender.timeout:g} s, and a bind may take {limit:g} s (kube.bind_timeout)"
            remedy = "raise httpTimeout, or the scheduler retries pods whose bind succeeds after it has given up"
            yield problem(_place(document, extender), found, remedy)


def tls(facts: Facts) -> Iterator[Finding]:
    """The scheduler and the service authenticate each other, unless they share a host."""
    serves_tls = facts.settings.tls.enabled
    for document, extender in facts.extenders:
        place, config = _place(document, extender), extender.tls
        certificate = config.get("certFile") or config.get("certData")
        authority = config.get("caFile") or config.get("caData")
        if extender.scheme == "http":
            if serves_tls:
                found = f"{extender.url} is plain HTTP, and the service serves TLS (tls.enabled): every call fails"
                yield problem(
                    place, found, "use https, and set enableHTTPS and tlsConfig: `linkwise config scheduler --help`"
                )
            elif not extender.loopback:
                found = f"{extender.url} is plain HTTP to another host: calls can be read and forged on the way"
                yield warning(place, found, "turn on TLS (tls.enabled of the service), and use https in urlPrefix")
            continue
        if config.get("insecure") or not authority:
            found = (
                "the certificate of the service is not verified: tlsConfig is insecure, or has no authority (caFile)"
            )
            yield warning(
                place, found, "set tlsConfig.caFile to the ca.crt of Secret linkwise-scheduler-tls, and insecure: false"
            )
        if serves_tls and not certificate:
            found = "tlsConfig has no client certificate, and the service answers 403 to schedulers without one"
            yield problem(place, found, "set tlsConfig.certFile and keyFile to those of Secret linkwise-scheduler-tls")


CHECKS: Final = (
    Check(
        "scheduler-config",
        GROUP,
        "the scheduler's configuration can be read and has Linkwise as an extender",
        readable,
        (_FILE,),
        (_POD_FLAGS,),
    ),
    Check("scheduler-sampling", GROUP, "the scheduler considers all nodes", sampling, (_FILE, "nodes")),
    Check("scheduler-weight", GROUP, "a better rank of Linkwise always wins", weight, (_FILE,)),
    Check("scheduler-verbs", GROUP, "filter, prioritize, preempt and bind are delegated", verbs, (_FILE,)),
    Check(
        "scheduler-resources",
        GROUP,
        "every pod that requests devices is sent to Linkwise",
        resources,
        (_FILE, "settings", "nodes"),
    ),
    Check("scheduler-node-names", GROUP, "node names are sent instead of Node objects", node_names, (_FILE,)),
    Check("scheduler-ignorable", GROUP, "no pod is bound without its devices", ignorable, (_FILE,)),
    Check("scheduler-timeout", GROUP, "the scheduler waits longer than a bind may take", timeout, (_FILE, "settings")),
    Check("scheduler-tls", GROUP, "calls of the scheduler are encrypted and verified", tls, (_FILE, "settings")),
)
