"""Table responses for kubectl get: the server chooses the columns and formats the cells."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.embedded.kinds.registry import Column, Served
    from linkwise.embedded.storage.collection import Raw, Stored

__all__ = [
    "COLUMNS",
    "Table",
    "TableColumn",
    "age",
    "at_path",
    "human_duration",
    "images",
    "names",
    "node_roles",
    "node_status",
    "parse_time",
    "pod_ready",
    "pod_restarts",
    "pod_status",
]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ROLE: Final = "node-role.kubernetes.io/"
Value = Callable[[dict[str, Any], float], Any]
_META: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def age(text: object, now: float) -> str:
    """The time since a timestamp, as kubectl prints it."""
    try:
        return human_duration(now - parse_time(str(text)))
    except ValueError:
        return UNKNOWN


def parse_time(text: str) -> float:
    """A timestamp as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def human_duration(seconds: float) -> str:
    """A duration in at most two units, as kubectl's HumanDuration."""
    total = int(seconds)
    if total < 0:
        return "0s" if total >= -1 else "<invalid>"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    for applies, coarse, fine in (
        (total < 120, f"{total}s", ""),
        (minutes < 10, f"{minutes}m", f"{total % 60}s" if total % 60 else ""),
        (minutes < 180, f"{minutes}m", ""),
        (hours < 8, f"{hours}h", f"{minutes % 60}m" if minutes % 60 else ""),
        (hours < 48, f"{hours}h", ""),
        (hours < 192, f"{days}d", f"{hours % 24}h" if hours % 24 else ""),
        (days < 730, f"{days}d", ""),
    ):
        if applies:
            return coarse + fine
    return f"{days // 365}y" + (f"{days % 365}d" if days < 365 * 8 and days % 365 else "")


def at_path(document: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a simple JSON path, such as .status.phase or .spec.a[0].b; None if there is none."""
    value = document
    for key, index in _STEP.findall(path):
        if index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def names(items: Any, key: str = "name") -> str:  # noqa: ANN401 - JSON
    """The names of list items, separated by commas."""
    return ",".join(str(item.get(key, "")) for item in items or ()) or NONE


def images(spec: Raw) -> str:
    """The container images of a pod template."""
    return names(((spec.get("template") or {}).get("spec") or {}).get("containers"), "image")


def pod_ready(pod: Raw) -> str:
    """Ready containers of all containers."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{len(pod['spec'].get('containers') or ())}"


def pod_restarts(pod: Raw) -> str:
    """The number of container restarts."""
    return str(
        sum(int(status.get("restartCount") or 0) for status in (pod.get("status") or {}).get("containerStatuses") or ())
    )


def pod_status(pod: Raw) -> str:
    """The STATUS column of a pod."""
    status = pod.get("status") or {}
    summary = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            summary = "SchedulingGated"
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        if (waiting := state.get("waiting") or {}).get("reason"):
            summary = waiting["reason"]
        elif (terminated := state.get("terminated")) is not None:
            summary = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return summary


def node_status(node: Raw) -> str:
    """The STATUS column of a node."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((condition.get("status") for condition in conditions if condition.get("type") == "Ready"), None)
    states = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def node_roles(node: Raw) -> str:
    """The ROLES column of a node."""
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))) or NONE


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


def _claim_state(claim: Raw, _: float) -> str:
    status, deleted = claim.get("status") or {}, "deletionTimestamp" in claim["metadata"]
    states = {
        "deleted": deleted,
        "pending": "allocation" not in status and not deleted,
        "allocated": "allocation" in status,
        "reserved": "allocation" in status and status.get("reservedFor"),
    }
    return ",".join(state for state, applies in states.items() if applies)


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
    "resourceclaims.resource.k8s.io": (TableColumn("State", _claim_state), _AGE),
    "resourceclaimtemplates.resource.k8s.io": (_AGE,),
    "deviceclasses.resource.k8s.io": (_AGE,),
    "resourceslices.resource.k8s.io": (
        TableColumn("Node", _text(".spec.nodeName", "<unset>")),
        TableColumn("Driver", _text(".spec.driver", "")),
        TableColumn("Pool", _text(".spec.pool.name", "")),
        _AGE,
    ),
    "leases.coordination.k8s.io": (TableColumn("Holder", _text(".spec.holderIdentity", "")), _AGE),
    "priorityclasses.scheduling.k8s.io": (
        TableColumn("Value", _number(".value"), type="integer"),
        TableColumn("Global-Default", lambda document, _: bool(document.get("globalDefault")), type="boolean"),
        _AGE,
    ),
}
"""by resource; NAME comes first unless it is listed"""


_NAME: Final = TableColumn("Name", lambda document, _: document["metadata"]["name"], format="name")


_CREATED: Final = TableColumn(
    "Created At", lambda document, _: document["metadata"].get("creationTimestamp"), format="date-time"
)


class Table:
    """Renders the objects of one resource as a Table."""

    def __init__(self, served: Served, clock: Callable[[], float], include_object: str = "Metadata") -> None:
        """`include_object`: `None`, `Metadata` or `Object`, as in the query parameter of that name."""
        self._columns = _columns_of(served)
        self._clock = clock
        self._include_object = include_object

    @property
    def definitions(self) -> list[Raw]:
        """The column definitions."""
        return [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": "",
                "priority": int(column.wide),
            }
            for column in self._columns
        ]

    def rows(self, stored: Iterable[Stored]) -> list[Raw]:
        """One row per object."""
        now = self._clock()
        return [self._row(stored_object.read(), now) for stored_object in stored]

    def document(
        self, stored: Iterable[Stored], version: int, continue_token: str = "", *, columns: bool = True
    ) -> Raw:
        """A Table of these objects."""
        meta: Raw = {"resourceVersion": str(version)} | ({"continue": continue_token} if continue_token else {})
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.definitions if columns else None,
            "rows": self.rows(stored),
        }

    def _row(self, document: Raw, now: float) -> Raw:
        cells: list[Any] = [column.value(document, now) for column in self._columns]
        row: Raw = {"cells": cells}
        if self._include_object == "Object":
            row["object"] = document
        elif self._include_object == "Metadata":
            row["object"] = {**_META, "metadata": document["metadata"]}
        return row


def _columns_of(served: Served) -> tuple[TableColumn, ...]:
    built_in = COLUMNS.get(served.resource.group_resource)
    if built_in is not None:
        return built_in if any(column.name == _NAME.name for column in built_in) else (_NAME, *built_in)
    if served.columns:
        return (_NAME, *(_custom_column(column) for column in served.columns))
    return _NAME, _CREATED


def _custom_column(column: Column) -> TableColumn:
    def value(document: Raw, now: float) -> Any:  # noqa: ANN401 - JSON
        result = at_path(document, column.path)
        return age(result, now) if column.type == "date" and isinstance(result, str) else result

    # Ages are sent as formatted strings.
    return TableColumn(column.name, value, type="string" if column.type == "date" else column.type, wide=column.wide)
