"""Chart on a real node: its pods are containers of the image that was built, with addresses, Services and names."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from support.e2e.helm import NAMESPACE, Helm
from support.e2e.installation import merged
from support.e2e.process_pods.cluster import networked_cluster
from support.e2e.processes import wait_for
from support.e2e.real_node.images import write_program_image
from support.e2e.real_node.machine import demanded_machine
from support.e2e.real_node.node import RealNode
from support.e2e.real_node.pod_network import BRIDGE, KUBELET, Names, prepare_services, proxy, wait_for_rules
from support.nvml_stub.stub import SONAME, Stub

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Raw
    from support.e2e.process_pods.cluster import NetworkedCluster
    from support.nvml_stub.machine import StubMachine

__all__ = ["REPOSITORY", "ContainerInstallation", "installed_node"]

REPOSITORY: Final = "docker.io/linkwise/linkwise"
"""the one of the chart, as containerd names it"""
DRIVER: Final = "run/nvidia/driver"
"""where NVIDIA's driver container puts the driver; in the machine this is a folder of its own"""
LIBRARIES: Final = f"{DRIVER}/usr/lib/x86_64-linux-gnu"
VALUES: Final[Mapping[str, Any]] = {
    "agent": {"env": [{"name": "NVML_STUB", "value": f"/host/{DRIVER}/nvml.txt"}]},
    # A test has less time than a cluster.
    "config": {"agent": {"interval": 1}, "kube": {"bind_timeout": 1.5}},
    "leaderElection": {"leaseDuration": 4, "renewDeadline": 2, "retryPeriod": 0.4},
}
SECONDS: Final = 60.0


class ContainerInstallation:
    """A cluster with one real node, whose containerd has the images of the chart, and Helm."""

    def __init__(self, cluster: NetworkedCluster, node: RealNode, helm: Helm, chart: Path) -> None:
        self.cluster, self.node, self.helm, self.chart = cluster, node, helm, chart
        self._proxy = proxy(cluster.programs, node.machine, node.name, cluster.kubeconfig("proxy"))

    def start(self) -> None:
        """Start what a node has: container runtime, kubelet, kube-proxy."""
        self.node.containerd.start()
        self.node.start_kubelet()
        self._proxy.start()
        wait_for_rules(self.node.machine)

    def reboot(self) -> None:
        """End all programs and containers of the node, start it again, and wait until all pods are ready again."""
        before = self._containers()
        self.node.reboot()
        self.start()
        wait_for(lambda: before.isdisjoint(self._containers()), SECONDS, "all containers are new")
        self.wait_ready()

    def add_image(self, archive: Path) -> None:
        """Import an archive into the namespace of Kubernetes."""
        self.node.containerd.ctr("images", "import", archive)

    def tag(self, old: str, new: str) -> None:
        """Give the image another tag."""
        self.node.containerd.ctr("images", "tag", f"{REPOSITORY}:{old}", f"{REPOSITORY}:{new}")

    def add_gpus(self, machine: StubMachine) -> None:
        """Install a driver with these GPUs on the node."""
        stub = Stub(self.node.machine.root / DRIVER)
        folder = self.node.machine.root / LIBRARIES
        folder.mkdir(parents=True)
        shutil.copy(stub.library, folder / SONAME)
        stub.write(machine)
        self.node.add_nvidia(len(machine.gpus))

    def install(self, **values: Any) -> str:  # noqa: ANN401 - values of the chart
        """Install or upgrade; returns when all pods are ready."""
        try:
            return self.helm.install(self.chart, merged(VALUES, values))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from error

    def pods(self, component: str) -> list[Raw]:
        """Pods of a component that are not being deleted."""
        selector = f"app.kubernetes.io/component%3D{component}"
        found = self.cluster.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}")
        return [
            {"apiVersion": "v1", "kind": "Pod", **pod} for pod in found if "deletionTimestamp" not in pod["metadata"]
        ]

    def wait_ready(self) -> None:
        """Wait until as many pods as the chart has are ready, and no others are left."""

        def ready() -> bool:
            counts = {component: self._ready(component) for component in ("service", "scheduler", "agent")}
            if counts != {"service": [True, True], "scheduler": [True, True], "agent": [True]}:
                raise AssertionError(f"{counts}\n{self.state()}")
            return True

        wait_for(ready, SECONDS, "all pods of the chart are ready")

    def state(self) -> str:
        """What runs and what happened last, for the message of a failed test."""
        parts = [self.cluster.kubectl("get", "pods", "--all-namespaces", "--output", "wide")]
        parts.append(self.cluster.kubectl("get", "events", "--namespace", NAMESPACE, "--sort-by", ".lastTimestamp"))
        for component in ("service", "scheduler", "agent"):
            for pod in self.pods(component):
                for container in pod["spec"]["containers"]:
                    with suppress(OSError, AssertionError):
                        log = self.node.logs(pod, container["name"])
                        parts.append("\n".join([f"--- {pod['metadata']['name']}", *log.splitlines()[-12:]]))
        return "\n".join(parts)

    def _containers(self) -> set[str]:
        """Ids of the containers of the chart, as the kubelet reports them."""
        found = self.cluster.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods")
        return {one["containerID"] for pod in found for one in pod["status"].get("containerStatuses", ())}

    def _ready(self, component: str) -> list[bool]:
        return [
            {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}.get("Ready") == "True"
            for pod in self.pods(component)
        ]


@contextmanager
def installed_node(
    programs: Path, container_programs: Path, helm: Path, root: Path, folder: Path
) -> Iterator[ContainerInstallation]:
    """A cluster with a real node that has the image of kube-scheduler, until the end of the block; nothing is installed."""
    with networked_cluster(programs, folder) as cluster:
        names = Names(cluster)
        (folder / "machine").mkdir()
        with demanded_machine(folder / "machine", cluster.network.enter) as machine:
            prepare_services(machine)
            names.start()
            node = RealNode(cluster, machine, container_programs, *KUBELET, plugin=BRIDGE)
            chart = folder / "chart"
            shutil.copytree(root / "deploy/chart", chart)
            made = ContainerInstallation(cluster, node, Helm(helm / "helm", folder, cluster.kubeconfig("admin")), chart)
            try:
                made.start()
                version = cluster.api.get("/version")["gitVersion"]
                scheduler = f"registry.k8s.io/kube-scheduler:{version}"
                made.add_image(
                    write_program_image(folder / "scheduler.tar", scheduler, cluster.programs / "kube-scheduler")
                )
                yield made
            finally:
                node.close()
                names.close()
