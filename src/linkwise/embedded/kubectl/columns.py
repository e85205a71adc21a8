"""Table columns of the built-in kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from linkwise.embedded.kubectl.cells import (
    NONE,
    age,
    at_path,
    human_duration,
    images,
    names,
    node_roles,
    node_status,
    parse_time,
    pod_ready,
    pod_restarts,
    pod_status,
)

__all__ = ["COLUMNS", "TableColumn"]

Raw = dict[str, Any]
Value = Callable[[Raw, float], Any]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a Table."""

    name: str
    value: Value
    type: str = "string"
    format: str = ""
    wide: bool = False
    """whether only `-o wide` prints it"""


def _text(path: str, unset: str = NONE) -> Value:
    def value(document: Raw, _: float) -> str:
        value_at = at_path(document, path)
        return unset if value_at in {None, ""} else str(value_at)

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
    labels = at_path(document, ".spec.selector.matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _address(address_type: str) -> Value:
    def value(node: Raw, _: float) -> str:
        addresses = at_path(node, ".status.addresses") or ()
        return next((str(address.get("address")) for address in addresses if address.get("type") == address_type), NONE)

    return value


def _ready_replicas(document: Raw, _: float) -> str:
    return f"{at_path(document, '.status.readyReplicas') or 0}/{at_path(document, '.spec.replicas') or 0}"


def _job_status(job: Raw, _: float) -> str:
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    conditions = [
        condition for condition in at_path(job, ".status.conditions") or () if condition.get("status") == "True"
    ]
    statuses = {"Complete": "Complete", "Failed": "Failed", "Suspended": "Suspended", "FailureTarget": "FailureTarget"}
    return next(
        (statuses[condition["type"]] for condition in conditions if condition.get("type") in statuses), "Running"
    )


def _completions(job: Raw, _: float) -> str:
    succeeded = at_path(job, ".status.succeeded") or 0
    completions = at_path(job, ".spec.completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallel = at_path(job, ".spec.parallelism") or 0
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def _job_duration(job: Raw, now: float) -> str:
    begin, end = at_path(job, ".status.startTime"), at_path(job, ".status.completionTime")
    return human_duration((parse_time(end) if end else now) - parse_time(begin)) if begin else ""


def _event_last_seen(event: Raw, now: float) -> str:
    return age(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Raw, _: float) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _gates(pod: Raw, _: float) -> str:
    return NONE if not at_path(pod, ".spec.readinessGates") else f"0/{len(pod['spec']['readinessGates'])}"


_AGE: Final = TableColumn("Age", _since(".metadata.creationTimestamp"))
_TEMPLATE: Final = (
    TableColumn("Containers", _containers, wide=True),
    TableColumn("Images", _images, wide=True),
    TableColumn("Selector", _selector, wide=True),
)

COLUMNS: Final[dict[str, tuple[TableColumn, ...]]] = {
    "pods": (
        TableColumn("Ready", lambda pod, _: pod_ready(pod)),
        TableColumn("Status", lambda pod, _: pod_status(pod)),
        TableColumn("Restarts", lambda pod, _: pod_restarts(pod)),
        _AGE,
        TableColumn("IP", _text(".status.podIP"), wide=True),
        TableColumn("Node", _text(".spec.nodeName"), wide=True),
        TableColumn("Nominated Node", _text(".status.nominatedNodeName"), wide=True),
        TableColumn("Readiness Gates", _gates, wide=True),
    ),
    "nodes": (
        TableColumn("Status", lambda node, _: node_status(node)),
        TableColumn("Roles", lambda node, _: node_roles(node)),
        _AGE,
        TableColumn("Version", _text(".status.nodeInfo.kubeletVersion", "")),
        TableColumn("Internal-IP", _address("InternalIP"), wide=True),
        TableColumn("External-IP", _address("ExternalIP"), wide=True),
        TableColumn("OS-Image", _text(".status.nodeInfo.osImage", "<unknown>"), wide=True),
        TableColumn("Kernel-Version", _text(".status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        TableColumn("Container-Runtime", _text(".status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "namespaces": (TableColumn("Status", _text(".status.phase", "")), _AGE),
    "events": (
        TableColumn("Last Seen", _event_last_seen),
        TableColumn("Type", _text(".type", "")),
        TableColumn("Reason", _text(".reason", "")),
        TableColumn("Object", _event_object),
        TableColumn("Subobject", _text(".involvedObject.fieldPath", ""), wide=True),
        TableColumn("Source", _text(".source.component", ""), wide=True),
        TableColumn("Message", _text(".message", "")),
        TableColumn("First Seen", _since(".firstTimestamp"), wide=True),
        TableColumn("Count", _number(".count"), type="integer", wide=True),
        TableColumn("Name", _text(".metadata.name"), format="name", wide=True),
    ),
    "configmaps": (TableColumn("Data", _size(".data"), type="integer"), _AGE),
    "secrets": (TableColumn("Type", _text(".type")), TableColumn("Data", _size(".data"), type="integer"), _AGE),
    "serviceaccounts": (TableColumn("Secrets", _size(".secrets"), type="integer"), _AGE),
    "services": (
        TableColumn("Type", _text(".spec.type")),
        TableColumn("Cluster-IP", _text(".spec.clusterIP")),
        TableColumn("External-IP", lambda *_: NONE),
        TableColumn("Port(s)", lambda service, _: names(at_path(service, ".spec.ports"), "port")),
        _AGE,
    ),
    "deployments.apps": (
        TableColumn("Ready", _ready_replicas),
        TableColumn("Up-to-date", _number(".status.updatedReplicas"), type="integer"),
        TableColumn("Available", _number(".status.availableReplicas"), type="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "replicasets.apps": (
        TableColumn("Desired", _number(".spec.replicas"), type="integer"),
        TableColumn("Current", _number(".status.replicas"), type="integer"),
        TableColumn("Ready", _number(".status.readyReplicas"), type="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "statefulsets.apps": (TableColumn("Ready", _ready_replicas), _AGE, *_TEMPLATE[:2]),
    "daemonsets.apps": (
        TableColumn("Desired", _number(".status.desiredNumberScheduled"), type="integer"),
        TableColumn("Current", _number(".status.currentNumberScheduled"), type="integer"),
        TableColumn("Ready", _number(".status.numberReady"), type="integer"),
        _AGE,
        *_TEMPLATE,
    ),
    "jobs.batch": (
        TableColumn("Status", _job_status),
        TableColumn("Completions", _completions),
        TableColumn("Duration", _job_duration),
        _AGE,
        *_TEMPLATE,
    ),
    "leases.coordination.k8s.io": (TableColumn("Holder", _text(".spec.holderIdentity", "")), _AGE),
    "priorityclasses.scheduling.k8s.io": (
        TableColumn("Value", _number(".value"), type="integer"),
        TableColumn("Global-Default", lambda document, _: bool(document.get("globalDefault")), type="boolean"),
        _AGE,
    ),
}
"""by resource; NAME comes first unless it is listed"""
