"""kubelet of a real node: registers with the API server under the node's own user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from support.e2e.config_files import write_json
from support.e2e.real_node.containerd import ENDPOINT

if TYPE_CHECKING:
    from pathlib import Path

    from support.e2e.real_node.machine import Inside, Machine

__all__ = ["kubelet"]

SETTINGS: Final[dict[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "containerRuntimeEndpoint": ENDPOINT,
    # control groups v1 are enough, and there is no systemd
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    # the host's swap, disk and memory are not what is tested
    "failSwapOn": False,
    "localStorageCapacityIsolation": False,
    "evictionHard": {"memory.available": "1Mi"},
    "imageGCHighThresholdPercent": 100,
    # no ports, and no files outside the machine; /etc/resolv.conf may be a link into the host's /run
    "resolvConf": "",
    "enableServer": False,
    "readOnlyPort": 0,
    "healthzPort": 0,
    "makeIPTablesUtilChains": False,
    "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    # device plugins soon change the node's capacity
    "syncFrequency": "1s",
    "nodeStatusUpdateFrequency": "1s",
    "nodeStatusReportFrequency": "1s",
}


def kubelet(programs: Path, machine: Machine, name: str, kubeconfig: Path, *more: str) -> Inside:
    """kubelet of a node of this name, to be started in a machine that runs; further flags precede the settings."""
    settings = write_json(machine.folder / "kubelet.yaml", SETTINGS)
    flags = [f"--config={settings}", f"--kubeconfig={kubeconfig}", f"--hostname-override={name}", *more]
    return machine.process("kubelet", [programs / "kubelet", *flags])
