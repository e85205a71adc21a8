"""Cell values of Tables: ages, counts, and the status column of pods and nodes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = [
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
