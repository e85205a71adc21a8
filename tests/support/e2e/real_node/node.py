"""Real node of a cluster: runs pods in real containers and shows what is in them."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import path_of
from support.e2e.config_files import NODE
from support.e2e.pod_objects import pod
from support.e2e.processes import wait_for
from support.e2e.real_node.cgroups import remove_cgroups
from support.e2e.real_node.containerd import CDI, ISOLATED, Containerd
from support.e2e.real_node.images import IMAGE
from support.e2e.real_node.kubelet import kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.own_cluster import OwnCluster
    from support.e2e.real_node.machine import Machine

__all__ = [
    "ASCEND_CONTROL",
    "ASCEND_MANAGER",
    "DAVINCI",
    "DRM",
    "KFD",
    "RealNode",
    "container_pod",
    "running_node",
    "scheduled_pod",
]

SECONDS: Final = 30.0
STANDARD: Final = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "pts"})
"""in /dev of every container"""
NVIDIA: Final = 195
"""major number of NVIDIA's devices"""
UVM: Final = 511
"""one that the kernel gives to nvidia-uvm"""

DAVINCI: Final = 236
"""major number of the chips of Huawei's driver; the kernel chooses it when the driver is loaded"""
ASCEND_MANAGER: Final = 237
DRM: Final = 226
"""major number of graphics devices"""
KFD: Final = 234
"""one that the kernel gives to /dev/kfd"""
ASCEND_CONTROL: Final = ("davinci_manager", "devmm_svm", "hisi_hdc", "dvpp_cmdlist")


class RealNode:
    """Node with a real kubelet and real containers, one per cluster.

    Programs that need kubelet's default paths run inside: `real_node.machine.process("agent", command)`. Others reach
    the same sockets and folders through `device_plugins`, `pod_resources`, `cdi` and `machine.root`.
    """

    name = NODE

    def __init__(
        self,
        cluster: OwnCluster,
        machine: Machine,
        container_programs: Path,
        *flags: str,
        plugin: Mapping[str, object] = ISOLATED,
    ) -> None:
        """Make it with further flags of the kubelet, and with a CNI plugin."""
        self.cluster, self.machine = cluster, machine
        self.containerd = Containerd(container_programs, machine, plugin)
        self.kubelet = kubelet(cluster.programs, machine, self.name, cluster.kubeconfig("node"), *flags)
        self._executions = count(1)

    @property
    def cdi(self) -> Path:
        """Folder of CDI specifications: /var/run/cdi of the machine."""
        return self.machine.root / CDI.lstrip("/")

    @property
    def device_plugins(self) -> Path:
        """Folder of kubelet's registration socket, kubelet.sock, and of the sockets of device plugins."""
        return self.machine.root / "var/lib/kubelet/device-plugins"

    @property
    def pod_resources(self) -> Path:
        """Socket of kubelet's PodResources API."""
        return self.machine.root / "var/lib/kubelet/pod-resources/kubelet.sock"

    def add_nvidia(self, count: int) -> None:
        """Make the device nodes of NVIDIA's driver for this many GPUs."""
        for index in range(count):
            self.machine.mknod(f"nvidia{index}", NVIDIA, index)
        self.machine.mknod("nvidiactl", NVIDIA, 255)
        self.machine.mknod("nvidia-uvm", UVM, 0)

    def add_ascend(self, count: int) -> None:
        """Make the device nodes of Huawei's driver for this many chips."""
        for index in range(count):
            self.machine.mknod(f"davinci{index}", DAVINCI, index)
        for minor, name in enumerate(ASCEND_CONTROL):
            self.machine.mknod(name, ASCEND_MANAGER, minor)

    def add_amd(self, render_nodes: Mapping[int, int]) -> None:
        """Make the device nodes of the amdgpu driver: cards by the number of their render node."""
        (self.machine.root / "dev/dri").mkdir(exist_ok=True)
        for render, card in render_nodes.items():
            self.machine.mknod(f"dri/renderD{render}", DRM, render)
            self.machine.mknod(f"dri/card{card}", DRM, card)
        self.machine.mknod("kfd", KFD, 0)

    def start_kubelet(self) -> None:
        """Start kubelet and wait until it has reported a Ready node."""
        before = self._heartbeat()
        self.kubelet.start()
        self.kubelet.wait_until(lambda: self._heartbeat() > before, SECONDS)

    def stop_kubelet(self) -> None:
        """Stop kubelet; containers keep running, and the Node object stays Ready, since no controller watches it."""
        self.kubelet.stop()

    def restart_kubelet(self) -> None:
        """Stop kubelet and start it again."""
        self.stop_kubelet()
        self.start_kubelet()

    def object(self) -> Raw:
        """The Node object."""
        return dict(self.cluster.api.get(f"/api/v1/nodes/{self.name}"))

    def wait_allocatable(self, resource: str, amount: int) -> None:
        """Wait until kubelet reports this amount of a resource as allocatable."""

        def reported() -> bool:
            seen = self.object()["status"]["allocatable"]
            if seen.get(resource, "0") != str(amount):
                raise AssertionError(f"{seen}\n{self.kubelet.tail()}")
            return True

        wait_for(reported, SECONDS, f"{self.name} has {amount} {resource}")

    def run(self, pod: Raw, phase: str = "Running", seconds: float = SECONDS) -> Raw:
        """Create a pod and wait for its phase; the pod as it is then, or AssertionError with its events."""
        self.cluster.api.create(pod)
        return self.wait_phase(pod, phase, seconds)

    def wait_phase(self, pod: Raw, phase: str, seconds: float = SECONDS) -> Raw:
        """The pod as soon as it is in a phase; a Running one is Ready too."""

        def reached() -> Raw | None:
            found: Raw = self.cluster.api.get(path_of(pod))
            conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", ())}
            if found["status"]["phase"] == phase and (phase != "Running" or conditions.get("Ready") == "True"):
                return found
            raise AssertionError("\n".join([str(found["status"]), *self.events(pod), self.kubelet.tail()]))

        return wait_for(reached, seconds, f"pod {pod['metadata']['name']} is {phase}")

    def remove(self, pod: Raw) -> None:
        """Delete a pod and wait until kubelet has stopped its containers."""
        running = set(self._containers(pod).values())
        self.cluster.api.call("DELETE", path_of(pod))
        wait_for(lambda: not self.cluster.api.answers(path_of(pod)), SECONDS, f"{pod['metadata']['name']} is deleted")
        wait_for(lambda: running.isdisjoint(self.containerd.containers()), SECONDS, "its containers are removed")

    def events(self, pod: Raw) -> list[str]:
        """Events of a pod, the newest last."""
        return self.cluster.events(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def environment(self, pod: Raw, container: str = "main") -> dict[str, str]:
        """The environment that the first process of a container was started with."""
        text = (self.process(pod, container) / "environ").read_text()
        return dict(line.split("=", 1) for line in text.split("\0") if line)

    def process_id(self, pod: Raw, container: str = "main") -> int:
        """Id of the first process of a container, in the machine's PID namespace."""
        return int(self.process(pod, container).name)

    def process(self, pod: Raw, container: str = "main") -> Path:
        """The /proc folder of the first process of a container."""
        return self.containerd.process_of(self._containers(pod)[container])

    def devices(self, pod: Raw, container: str = "main") -> dict[str, tuple[int, int]]:
        """Major and minor numbers of the device nodes in a container, by path, without those that all containers have."""
        folder = self.process(pod, container) / "root/dev"
        found = {path.relative_to(folder): path.lstat() for path in folder.rglob("*")}
        return {
            f"/dev/{path}": (os.major(status.st_rdev), os.minor(status.st_rdev))
            for path, status in sorted(found.items())
            if path.parts[0] not in STANDARD and (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode))
        }

    def execute(self, pod: Raw, *command: str, container: str = "main") -> str:
        """Output of a command that runs in a container; AssertionError with its error output if it fails."""
        name = f"e2e-{next(self._executions)}"
        return self.containerd.ctr("tasks", "exec", "--exec-id", name, self._containers(pod)[container], *command)

    def logs(self, pod: Raw, container: str = "main") -> str:
        """Output of a container, also of one that has ended."""
        about = self.cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])["metadata"]
        folder = self.machine.root / f"var/log/pods/{about['namespace']}_{about['name']}_{about['uid']}/{container}"
        files = sorted(folder.glob("*.log"), key=lambda path: int(path.stem))
        lines = [line.split(" ", 3)[3] for path in files for line in path.read_text().splitlines()]
        return "\n".join(lines)

    def reboot(self) -> None:
        """End all programs and containers; `start` of containerd and kubelet finds their files as after a boot."""
        containers = self.containerd.containers()
        self.machine.reboot()
        remove_cgroups(containers)

    def close(self) -> None:
        """End everything on the node at once; clearing the cluster deletes the Node object."""
        containers = self.containerd.containers()
        self.machine.close()
        remove_cgroups(containers)

    def _containers(self, pod: Raw) -> dict[str, str]:
        """Ids of the running containers of a pod, by name."""
        found: Raw = self.cluster.api.get(path_of(pod))
        statuses = [one for one in found["status"].get("containerStatuses", ()) if "running" in one["state"]]
        return {one["name"]: one["containerID"].removeprefix("containerd://") for one in statuses}

    def _heartbeat(self) -> str:
        """When kubelet last reported that the node is Ready; empty if it is not there or not Ready."""
        nodes = self.cluster.api.list(f"/api/v1/nodes?fieldSelector=metadata.name%3D{self.name}")
        conditions = [one for node in nodes for one in node["status"].get("conditions", ())]
        ready = [one for one in conditions if one["type"] == "Ready" and one["status"] == "True"]
        return str(ready[0]["lastHeartbeatTime"]) if ready else ""


def container_pod(
    namespace: str,
    name: str,
    limits: Mapping[str, int | str] | None = None,
    *,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    **spec: Any,  # noqa: ANN401 - as `pod` has them
) -> Raw:
    """A pod on the real node that runs a command, or waits until it is terminated; further words are those of `pod`."""
    made = pod(namespace, name, limits, **{"nodeName": NODE, "terminationGracePeriodSeconds": 5, **spec})
    for container in (*made["spec"].get("initContainers", ()), *made["spec"]["containers"]):
        container |= {"image": IMAGE, "imagePullPolicy": "Never"}
    main = made["spec"]["containers"][0]
    main["env"] = [{"name": key, "value": value} for key, value in (environment or {}).items()] or main.get("env", [])
    main["command"] = list(command) or main.get("command", [])
    return made


def scheduled_pod(namespace: str, name: str, limits: Mapping[str, int | str] | None = None, **more: Any) -> Raw:  # noqa: ANN401 - as `container_pod` has them
    """The same, and the scheduler chooses its node."""
    return container_pod(namespace, name, limits, **{"nodeName": None, **more})


@contextmanager
def running_node(cluster: OwnCluster, machine: Machine, container_programs: Path) -> Iterator[RealNode]:
    """A Ready node until the end of the block, in a machine of its own that runs."""
    node = RealNode(cluster, machine, container_programs)
    try:
        node.containerd.start()
        node.start_kubelet()
        yield node
    finally:
        node.close()
