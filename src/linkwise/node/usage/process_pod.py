"""Pod of a process: from its cgroup, or from the files that the kubelet has mounted into its container.

Supported are cgroup v1 and v2, the systemd and the cgroupfs driver of the kubelet, and the names of containerd, CRI-O and
Docker. A process that is outside of the cgroup namespace of the reader has a path with `..`, which names the pod as well.
Mounts tell the pod where the cgroup does not: on a kubelet with cgroupsPerQOS off, a cgroup has only the container's id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["ContainerOwner", "owner_by_cgroup", "owner_by_mounts"]

_UID: Final = r"[0-9a-f]{8}(?P<dash>[-_]?)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{12}"
"""the systemd driver writes underscores for hyphens; that of a static pod is a hash without either"""
_POD: Final = re.compile(rf"(?:^|[/-])pod(?P<uid>{_UID})(?=\.slice|[/:]|$)")
_CONTAINER: Final = re.compile(r"(?:^|[/:-])(?P<id>[0-9a-f]{64})(?=\.scope|[/:]|$)")
_MOUNTED: Final = re.compile(rf"/pods/(?P<uid>{_UID})/(?:etc-hosts|containers/[^/]+/[^/]+)")
_TARGETS: Final = frozenset({"/etc/hosts", "/dev/termination-log"})
"""where the kubelet mounts a file of the pod into each of its containers"""


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """The pod of a process, and its container."""

    pod: str
    """UID"""
    container: str = ""
    """id of the container runtime; empty for a process of the pod's own cgroup"""


def owner_by_cgroup(text: str) -> ContainerOwner | None:
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


def owner_by_mounts(text: str) -> ContainerOwner | None:
    """The pod in the text of /proc/PID/mountinfo; None for a process that is in no container of the kubelet."""
    for line in text.splitlines():
        fields = line.split(" ", 5)  # ID PARENT DEVICE ROOT TARGET ...
        if len(fields) > 5 and fields[4] in _TARGETS and (found := _MOUNTED.search(fields[3])):
            return ContainerOwner(found["uid"])
    return None
