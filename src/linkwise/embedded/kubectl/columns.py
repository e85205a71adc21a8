"""The columns of kinds that people look at, as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from linkwise.embedded.kubectl.cells import (
    NONE,
    age,
    at_path,
    images,
    moment,
    names,
    node_roles,
    node_status,
    pod_ready,
    pod_restarts,
    pod_status,
    span,
)

__all__ = ["COLUMNS", "Cell"]

Raw = dict[str, Any]
Value = Callable[[Raw, float], Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One column."""

    name: str
    value: Value
    kind: str = "string"
    form: str = ""
    wide: bool = False
    """whether only those see it who ask for more"""


def _text(path: str, unset: str = NONE) -> Value:
    def value(document: Raw, _: float) -> str:
        found = at_path(document, path)
        return unset if found in {None, ""} else str(found)

    return value


def _number(path: str) -> Value:
    return lambda document, _: int(at_path(document, path) or 0)


def _size(path: str) -> Value:
    return lambda document, _: len(at_path(document, path) or ())


def _since(path: str) -> Value:
    return lambda document, now: age(at_path(document, path), now)


def _containers(document: Raw, _: float) -> str:
    return names(at_path(document, ".spec.template.spec.containers"))


def _images(document: Raw, _: float) -> str:
    return images(document.get("spec") or {})


def _selector(document: Raw, _: float) -> str:
    found = at_path(document, ".spec.selector.matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or NONE


def _address(kind: str) -> Value:
    def value(node: Raw, _: float) -> str:
        found = at_path(node, ".status.addresses") or ()
        return next((str(one.get("address")) for one in found if one.get("type") == kind), NONE)

    return value


def _ready_of(document: Raw, _: float) -> str:
    return f"{at_path(document, '.status.readyReplicas') or 0}/{at_path(document, '.spec.replicas') or 0}"


def _job_status(job: Raw, _: float) -> str:
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    conditions = [found for found in at_path(job, ".status.conditions") or () if found.get("status") == "True"]
    known = {"Complete": "Complete", "Failed": "Failed", "Suspended": "Suspended", "FailureTarget": "FailureTarget"}
    return next((known[found["type"]] for found in conditions if found.get("type") in known), "Running")


def _completions(job: Raw, _: float) -> str:
    done = at_path(job, ".status.succeeded") or 0
    wanted = at_path(job, ".spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at_path(job, ".spec.parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_time(job: Raw, now: float) -> str:
    begin, end = at_path(job, ".status.startTime"), at_path(job, ".status.completionTime")
    return span((moment(end) if end else now) - moment(begin)) if begin else ""


def _event_seen(event: Raw, now: float) -> str:
    return age(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Raw, _: float) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _gates(pod: Raw, _: float) -> str:
    return NONE if not at_path(pod, ".spec.readinessGates") else f"0/{len(pod['spec']['readinessGates'])}"


_AGE: Final = Cell("Age", _since(".metadata.creationTimestamp"))
_TEMPLATE: Final = (
    Cell("Containers", _containers, wide=True),
    Cell("Images", _images, wide=True),
    Cell("Selector", _selector, wide=True),
)

COLUMNS: Final[dict[str, tuple[Cell, ...]]] = {
    "pods": (
        Cell("Ready", lambda pod, _: pod_ready(pod)),
        Cell("Status", lambda pod, _: pod_status(pod)),
        Cell("Restarts", lambda pod, _: pod_restarts(pod)),
        _AGE,
        Cell("IP", _text(".status.podIP"), wide=True),
        Cell("Node", _text(".spec.nodeName"), wide=True),
        Cell("Nominated Node", _text(".status.nominatedNodeName"), wide=True),
        Cell("Readiness Gates", _gates, wide=True),
    ),
    "nodes": (
        Cell("Status", lambda node, _: node_status(node)),
        Cell("Roles", lambda node, _: node_roles(node)),
        _AGE,
        Cell("Version", _text(".status.nodeInfo.kubeletVersion", "")),
        Cell("Internal-IP", _address("InternalIP"), wide=True),
        Cell("External-IP", _address("ExternalIP"), wide=True),
        Cell("OS-Image", _text(".status.nodeInfo.osImage", "<unknown>"), wide=True),
        Cell("Kernel-Version", _text(".status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Cell("Container-Runtime", _text(".status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "namespaces": (Cell("Status", _text(".status.phase", "")), _AGE),
    "events": (
        Cell("Last Seen", _event_seen),
        Cell("Type", _text(".type", "")),
        Cell("Reason", _text(".reason", "")),
        Cell("Object", _event_object),
        Cell("Subobject", _text(".involvedObject.fieldPath", ""), wide=True),
        Cell("Source", _text(".source.component", ""), wide=True),
        Cell("Message", _text(".message", "")),
        Cell("First Seen", _since(".firstTimestamp"), wide=True),
        Cell("Count", _number(".count"), kind="integer", wide=True),
        Cell("Name", _text(".metadata.name"), form="name", wide=True),
    ),
    "configmaps": (Cell("Data", _size(".data"), kind="integer"), _AGE),
    "secrets": (Cell("Type", _text(".type")), Cell("Data", _size(".data"), kind="integer"), _AGE),
    "serviceaccounts": (Cell("Secrets", _size(".secrets"), kind="integer"), _AGE),
    "services": (
        Cell("Type", _text(".spec.type")),
        Cell("Cluster-IP", _text(".spec.clusterIP")),
        Cell("External-IP", lambda *_: NONE),
        Cell("Port(s)", lambda service, _: names(at_path(service, ".spec.ports"), "port")),
        _AGE,
    ),
    "deployments.apps": (
        Cell("Ready", _ready_of),
        Cell("Up-to-date", _number(".status.updatedReplicas"), kind="integer"),
        Cell("Available", _number(".status.availableReplicas"), kind="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "replicasets.apps": (
        Cell("Desired", _number(".spec.replicas"), kind="integer"),
        Cell("Current", _number(".status.replicas"), kind="integer"),
        Cell("Ready", _number(".status.readyReplicas"), kind="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "statefulsets.apps": (Cell("Ready", _ready_of), _AGE, *_TEMPLATE[:2]),
    "daemonsets.apps": (
        Cell("Desired", _number(".status.desiredNumberScheduled"), kind="integer"),
        Cell("Current", _number(".status.currentNumberScheduled"), kind="integer"),
        Cell("Ready", _number(".status.numberReady"), kind="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "jobs.batch": (
        Cell("Status", _job_status),
        Cell("Completions", _completions),
        Cell("Duration", _job_time),
        _AGE,
        *_TEMPLATE,
    ),
    "leases.coordination.k8s.io": (Cell("Holder", _text(".spec.holderIdentity", "")), _AGE),
    "priorityclasses.scheduling.k8s.io": (
        Cell("Value", _number(".value"), kind="integer"),
        Cell("Global-Default", lambda document, _: bool(document.get("globalDefault")), kind="boolean"),
        _AGE,
    ),
}
"""by kind; the name comes before them, unless it is among them"""
