"""NUMA nodes of a real node: a simulated tree in /sys, and a kubelet that aligns devices with it.

The kubelet reads NUMA nodes, their CPUs, memory and distances from /sys/devices/system/node. In the machine's own mount
namespace another tree is mounted there, over which the CPUs of the host are distributed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from support.e2e.config_files import write_json
from support.e2e.real_node.kubelet import SETTINGS

if TYPE_CHECKING:
    from support.e2e.real_node.node import RealNode

__all__ = ["align_with_numa"]

TREE: Final = "/run/numa"
MEMORY: Final = 1_000_000  # kB


def align_with_numa(node: RealNode, count: int, policy: str, scope: str = "container") -> None:
    """Restart the kubelet on a machine of `count` NUMA nodes, with this policy and scope of the Topology Manager."""
    node.stop_kubelet()
    node.machine.run("sh", "-ec", _script(count))
    settings = {**SETTINGS, "topologyManagerPolicy": policy, "topologyManagerScope": scope}
    write_json(node.machine.folder / "kubelet.yaml", settings)
    write_json(node.machine.root / "var/lib/kubelet/config.yaml", settings)  # where the agent reads it
    node.start_kubelet()


def _script(count: int) -> str:
    lines = [f"mkdir {TREE}", f"echo 0-{count - 1} > {TREE}/online"]
    for number in range(count):
        folder = f"{TREE}/node{number}"
        distances = " ".join("10" if number == other else "21" for other in range(count))
        lines += [
            f"mkdir -p {folder}/hugepages",
            f"echo 'Node {number} MemTotal:       {MEMORY} kB' > {folder}/meminfo",
            f"echo {distances} > {folder}/distance",
        ]
    for cpu in range(os.cpu_count() or 1):
        lines.append(f"ln -s /sys/devices/system/cpu/cpu{cpu} {TREE}/node{cpu % count}/cpu{cpu}")
    return "\n".join([*lines, f"mount --bind {TREE} /sys/devices/system/node"])
