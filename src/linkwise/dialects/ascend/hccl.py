"""Rank table of a job: the file hccl.json, by which the processes of a training job find each other's chips.

Source: contract ascend, section 5, version 1.0; all numbers are texts. Huawei's controllers write it into a ConfigMap that
the user creates with the job and mounts into its pods.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.dialects.ascend.rank_table import Ranks
    from linkwise.model.views import PodView

__all__ = ["INITIALIZING", "KEY", "config_map_name", "rank_index", "read_table", "table_job", "table_text"]

KEY: Final = "hccl.json"
INITIALIZING: Final = '{"status":"initializing"}'
"""until all pods of the job have their chips"""
_LABEL: Final = "ring-controller.atlas"
_VERSION: Final = "1.0"
_JOB_LABELS: Final = (
    "volcano.sh/job-name",
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_RANK: Final = "hccl/rankIndex"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def table_job(pod: PodView) -> str:
    """The job of a pod that wants a rank table; empty if it wants none. A pod without a job is one of its own."""
    if not pod.labels.get(_LABEL, "").startswith("ascend-910"):
        return ""
    return next((pod.labels[label] for label in _JOB_LABELS if pod.labels.get(label)), pod.name)


def config_map_name(job: str) -> str:
    """The name of the ConfigMap with the rank table of a job."""
    return f"rings-config-{job}"


def rank_index(pod: PodView) -> int | None:
    """The rank of a pod in its job, by its annotation; None without one that can be read."""
    text = pod.annotations.get(_RANK, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def table_text(entries: Sequence[Ranks]) -> str:
    """The rank table of pods in the order of their ranks; pods on one server share its entry."""
    servers: dict[str, dict[str, object]] = {}
    devices: dict[str, list[dict[str, str]]] = {}
    rank = 0
    for entry in entries:
        server = entry.server
        hosts = {"host_ip": server.host} if server.host else {}
        own = devices.setdefault(server.id, [])
        servers.setdefault(server.id, {"device": own, "server_id": server.id, **hosts})
        for number, chip in sorted(entry.chips.items()):
            own.append({"device_id": str(number), "device_ip": chip.ip, "rank_id": str(rank)})
            rank += 1
    table = {
        "status": "completed",
        "server_list": list(servers.values()),
        "server_count": str(len(servers)),
        "version": _VERSION,
    }
    return json.dumps(table, separators=(",", ":"))


def read_table(text: object) -> dict[str, object] | None:
    """The rank table in a text, complete or not; None if it is none."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("status") in {"initializing", "completed"} else None
