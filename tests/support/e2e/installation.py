"""Installation of the chart on a cluster: Helm creates the objects, and their pods run as processes.

What stands in for what is said in `support.e2e.process_pods`.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from support.e2e.api_client import LABEL, Api
from support.e2e.helm import NAMESPACE, RELEASE, Helm
from support.e2e.node_objects import node
from support.e2e.process_pods.cluster import networked_cluster
from support.e2e.process_pods.container import Image
from support.e2e.process_pods.kubelet import ProcessKubelet, machine_node
from support.e2e.processes import wait_for
from support.e2e.scheduler import Serve
from support.e2e.service import Placing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.e2e.api_client import Raw
    from support.e2e.process_pods.cluster import NetworkedCluster
    from support.e2e.process_pods.pod import PodProcesses

__all__ = ["MACHINE", "VALUES", "Installation", "installed_cluster", "simulated_node"]

MACHINE: Final = "dgx1-v100"
GPUS: Final = 8
WORD: Final = "linkwise.dev/simulated"
"""label of nodes whose agents simulate devices"""
SECONDS: Final = 30.0
TOKEN: Final = token_hex(16)
VALUES: Final[Mapping[str, Any]] = {
    # No kubelet is there to serve devices to, and no devices.
    "config": {
        "agent": {"driver": "simulated", "source": MACHINE, "plugin": "never"},
        "kube": {"bind_timeout": 1.5},
    },
    "agent": {"nodeSelector": {WORD: "true"}},
    # The tests compare the ledger of the service with the pods.
    "service": {"env": [{"name": "LINKWISE_DEBUG_TOKEN", "value": TOKEN}]},
    # A test has less time than a cluster.
    "leaderElection": {"leaseDuration": 4, "renewDeadline": 2, "retryPeriod": 0.4},
}


class Installation:
    """A cluster with machines for pods, and Helm; nothing is installed at first."""

    def __init__(self, cluster: NetworkedCluster, kubelet: ProcessKubelet, helm: Helm, chart: Path) -> None:
        self.cluster, self.kubelet, self.helm, self.chart = cluster, kubelet, helm, chart
        self.placing = Placing(cluster, Leader(self))

    @property
    def api(self) -> Api:
        """The administrator's connection."""
        return self.cluster.api

    def install(self, *words: str, **values: Any) -> str:  # noqa: ANN401 - values of the chart
        """Install or upgrade with these values beside those that every test needs; returns when all is ready."""
        try:
            return self.helm.install(self.chart, merged(VALUES, values), *words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from error

    def pods(self, component: str) -> list[PodProcesses]:
        """The pods of a component."""
        return self.kubelet.running(component)

    def objects(self, path: str) -> dict[str, Raw]:
        """Objects of a collection by name."""
        return {found["metadata"]["name"]: found for found in self.api.list(path)}

    def leader(self) -> str:
        """The address in the EndpointSlice that only the leader writes; empty if there is none."""
        slices = self.api.list(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
        own = [
            found
            for found in slices
            if found["metadata"].get("labels", {}).get("kubernetes.io/service-name") == RELEASE
        ]
        return "".join(address for found in own for one in found["endpoints"] or [] for address in one["addresses"])

    def service(self, address: str = "") -> Api:
        """A connection to a replica of the service, by default the leader; without a client certificate."""
        at = address or wait_for(self.leader, SECONDS, "there is a leader")
        return Api(f"https://localhost:{self.cluster.network.door((at, 39999))}", TOKEN)

    def add_nodes(self, *names: str) -> None:
        """Make nodes whose agents simulate devices, and wait until the service has seen what they publish."""
        self.cluster.create([simulated_node(name) for name in names])
        wait_for(
            lambda: set(names) <= self.placing.snapshot()["objects"].keys(), SECONDS, "the service knows the devices"
        )

    def clear(self) -> None:
        """Remove what tests have made: their namespaces with all pods, and nodes with devices and what tells of them."""
        for space in self.api.list(f"/api/v1/namespaces?labelSelector={LABEL}"):
            self.api.delete(f"/api/v1/namespaces/{space['metadata']['name']}/pods")
            self.api.delete(f"/api/v1/namespaces/{space['metadata']['name']}")
        for found in self.api.list(f"/api/v1/nodes?labelSelector={WORD}"):
            self.api.delete(f"/api/v1/nodes/{found['metadata']['name']}")
        for kind in ("deviceinventories", "acceleratorpolicies"):
            self.api.delete(f"/apis/linkwise.dev/v1alpha1/{kind}")

    def state(self) -> str:
        """What runs, what waits and what was printed last, for the message of a failed test."""
        pods = self.cluster.kubectl("get", "pods", "--namespace", NAMESPACE, "--output", "wide")
        waiting = json.dumps(self.kubelet.waiting(), indent=1)
        logs = [
            "\n".join([f"--- {pod.name} {container.spec['name']}", *container.process.tail(8).splitlines()[1:]])
            for pod in self.kubelet.pods.values()
            for container in pod.containers
            if container.process and not container.ready
        ]
        return "\n".join([pods, waiting, repr(self.kubelet.errors), *logs])


class Leader(Serve):
    """The replica that leads, where other tests have a service that they started themselves."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._known: dict[str, Api] = {}

    @property
    def http(self) -> Api:  # type: ignore[override]
        """A connection to the leader of this moment."""
        address = wait_for(self._installation.leader, SECONDS, "there is a leader")
        if address not in self._known:
            self._known[address] = self._installation.service(address)
        return self._known[address]


@contextmanager
def installed_cluster(
    programs: Path, helm: Path, root: Path, folder: Path, *api_flags: str, images: Mapping[str, Image] | None = None
) -> Iterator[Installation]:
    """A cluster with two machines and the means to install on it, until the end of the block."""
    with networked_cluster(programs, folder, *api_flags) as cluster:
        cluster.create([machine_node("machine-1"), machine_node("machine-2")])
        known = {**stand_ins(programs, root), **(images or {})}
        kubelet = ProcessKubelet(cluster.api, cluster.network, folder / "pods", NAMESPACE, known, [root])
        chart = folder / "chart"
        shutil.copytree(root / "deploy/chart", chart)
        try:
            kubelet.start()
            yield Installation(cluster, kubelet, Helm(helm / "helm", folder, cluster.kubeconfig("admin")), chart)
        finally:
            kubelet.close()


def stand_ins(programs: Path, root: Path) -> dict[str, Image]:
    """What runs for the images of the chart: the checkout, and the kube-scheduler that was built."""
    python = {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {
        "linkwise": Image((Path(sys.executable).parent,), ("linkwise",), python, user=65532),
        "kube-scheduler": Image((programs,), (), {}, user=65532),
    }


def simulated_node(name: str, **labels: str) -> Raw:
    """A node whose agent simulates devices; their number is what the kubelet would report."""
    return node(name, {"nvidia.com/gpu": GPUS}, labels={WORD: "true", "kubernetes.io/os": "linux", **labels})


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a chart over others."""
    both = {
        key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in more.items()
    }
    return {**base, **both}
