"""Cgroups of processes: the pod and the container that a process belongs to, from the text of /proc/PID/cgroup.

Supported are cgroup v1 and v2, the systemd and the cgroupfs driver of the kubelet, and the names of containerd, CRI-O and
Docker. A process that is outside of the cgroup namespace of the reader has a path with `..`, which names the pod as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["ContainerOwner", "owner_of"]

# The systemd driver writes underscores for hyphens; the UID of a static pod is a hash without either.
_POD: Final = re.compile(
    r"(?:^|[/-])pod(?P<uid>[0-9a-f]{8}(?P<dash>[-_]?)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{12})"
    r"(?=\.slice|[/:]|$)"
)
_CONTAINER: Final = re.compile(r"(?:^|[/:-])(?P<id>[0-9a-f]{64})(?=\.scope|[/:]|$)")


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """The pod of a process, and its container."""

    pod: str
    """UID"""
    container: str = ""
    """id of the container runtime; empty for a process of the pod's own cgroup"""


def owner_of(text: str) -> ContainerOwner | None:
    """The pod in the text of /proc/PID/cgroup; None for a process that belongs to none.

    Of several pods in a path, as in a cluster that runs in a container, the innermost counts.
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]  # NUMBER:CONTROLLERS:PATH
        pods = list(_POD.finditer(path))
        if pods:
            containers = [found["id"] for found in _CONTAINER.finditer(path, pods[-1].end())]
            return ContainerOwner(pods[-1]["uid"].replace("_", "-"), containers[-1] if containers else "")
    return None
