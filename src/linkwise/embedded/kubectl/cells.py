"""What stands in a column: ages, counts, and the one word that says how a pod or a node is."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "age",
    "at_path",
    "images",
    "moment",
    "names",
    "node_roles",
    "node_status",
    "pod_ready",
    "pod_restarts",
    "pod_status",
    "span",
]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ROLE: Final = "node-role.kubernetes.io/"


def age(text: object, now: float) -> str:
    """How long ago a time is, as kubectl says it."""
    try:
        return span(now - moment(str(text)))
    except ValueError:
        return UNKNOWN


def moment(text: str) -> float:
    """A time as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def span(seconds: float) -> str:
    """A length of time in at most two units, coarser the longer it is."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    for below, unit, more in (
        (whole < 120, f"{whole}s", ""),
        (minutes < 10, f"{minutes}m", f"{whole % 60}s" if whole % 60 else ""),
        (minutes < 180, f"{minutes}m", ""),
        (hours < 8, f"{hours}h", f"{minutes % 60}m" if minutes % 60 else ""),
        (hours < 48, f"{hours}h", ""),
        (hours < 192, f"{days}d", f"{hours % 24}h" if hours % 24 else ""),
        (days < 730, f"{days}d", ""),
    ):
        if below:
            return unit + more
    return f"{days // 365}y" + (f"{days % 365}d" if days < 365 * 8 and days % 365 else "")


def at_path(document: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """What lies under a simple JSON path, such as .status.phase or .spec.a[0].b; None if nothing does."""
    found = document
    for word, number in _STEP.findall(path):
        if number:
            found = found[int(number)] if isinstance(found, list) and int(number) < len(found) else None
        else:
            found = found.get(word) if isinstance(found, dict) else None
    return found


def names(found: Any, key: str = "name") -> str:  # noqa: ANN401 - JSON
    """The names of some things in a list."""
    return ",".join(str(one.get(key, "")) for one in found or ()) or NONE


def images(spec: Raw) -> str:
    """What the containers of a template run."""
    return names(((spec.get("template") or {}).get("spec") or {}).get("containers"), "image")


def pod_ready(pod: Raw) -> str:
    """How many containers are ready."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(found.get('ready')) for found in statuses)}/{len(pod['spec'].get('containers') or ())}"


def pod_restarts(pod: Raw) -> str:
    """How often containers were started again."""
    return str(
        sum(int(found.get("restartCount") or 0) for found in (pod.get("status") or {}).get("containerStatuses") or ())
    )


def pod_status(pod: Raw) -> str:
    """The one word."""
    status = pod.get("status") or {}
    word = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    for found in reversed(status.get("containerStatuses") or ()):
        state = found.get("state") or {}
        if (waiting := state.get("waiting") or {}).get("reason"):
            word = waiting["reason"]
        elif (ended := state.get("terminated")) is not None:
            word = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return word


def node_status(node: Raw) -> str:
    """Whether a node is ready, and takes pods."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((found.get("status") for found in conditions if found.get("type") == "Ready"), None)
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(node: Raw) -> str:
    """What a node is for."""
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))) or NONE
