"""Kubelet of the nodes of a test: runs the pods of a namespace that are assigned to them as processes.

A thread brings Services, volumes, processes and statuses up to date again and again. It acts as the administrator; a real
kubelet has an identity of its own.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import ApiError
from support.e2e.process_pods.container import Environment, shared_folders
from support.e2e.process_pods.network import GATEWAY
from support.e2e.process_pods.pod import PodProcesses
from support.e2e.process_pods.services import Services
from support.e2e.processes import BedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from support.e2e.api_client import Api, Raw
    from support.e2e.process_pods.container import Image
    from support.e2e.process_pods.network import Network

__all__ = ["ProcessKubelet", "machine_node"]

PAUSE: Final = 0.1  # seconds between two rounds
CLUSTER: Final = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
}


class ProcessKubelet:
    """Runs pods of one namespace on any node; the folder has what they print."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a node
        self,
        api: Api,
        network: Network,
        folder: Path,
        namespace: str,
        images: Mapping[str, Image],
        shared: Iterable[Path] = (),
    ) -> None:
        self._api, self._network, self.folder, self._namespace = api.another(), network, folder, namespace
        self._images = images
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.services = Services(self._api, network, folder / "hosts")
        folders = shared_folders(*shared, *(path for image in images.values() for path in image.path))
        self._about = Environment(self._api, self.services.hosts, folders, CLUSTER, self.services.links)
        self.pods: dict[str, PodProcesses] = {}
        """by UID"""
        self.errors: list[BaseException] = []
        """what failed in the thread; a test that ends with errors has not seen what it thinks"""
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def running(self, component: str) -> list[PodProcesses]:
        """The pods of a component, oldest first."""
        with self._lock:
            found = [
                pod
                for pod in self.pods.values()
                if pod.pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") == component
            ]
        return sorted(found, key=lambda pod: (pod.pod["metadata"]["creationTimestamp"], pod.name))

    def waiting(self) -> dict[str, str]:
        """By pod, what it waits for."""
        with self._lock:
            return {pod.name: pod.waits_for for pod in self.pods.values() if pod.waits_for}

    def close(self) -> None:
        """End all pods at once; BedError if the thread had failed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)
        for pod in self.pods.values():
            pod.close()
        self._api.close()
        if self.errors:
            raise BedError(f"the kubelet of the test failed: {self.errors!r}")

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._round()
            except (BedError, ApiError) as error:
                if not self._away(error):
                    self.errors.append(error)
                    return
            except Exception as error:
                self.errors.append(error)
                raise
            time.sleep(PAUSE)

    @staticmethod
    def _away(error: Exception) -> bool:
        """Whether the API server does not answer, which a kubelet survives."""
        return (
            (isinstance(error, ApiError) and error.status >= 429) or "refused" in str(error) or "closed" in str(error)
        )

    def _round(self) -> None:
        self.services.follow()
        found = {
            pod["metadata"]["uid"]: pod
            for pod in self._api.list(f"/api/v1/namespaces/{self._namespace}/pods")
            if pod["spec"].get("nodeName")
        }
        for uid, pod in found.items():
            if uid not in self.pods:
                with self._lock:
                    self.pods[uid] = self._pod(pod)
        for uid in list(self.pods):
            if uid not in found or not self.pods[uid].step(found[uid]):
                with self._lock:
                    self.pods.pop(uid).close()

    def _pod(self, pod: Raw) -> PodProcesses:
        about = pod["metadata"]
        folder = self.folder / f"{about['name']}-{about['uid'][:8]}"
        host = self.folder / "nodes" / pod["spec"]["nodeName"]
        return PodProcesses(self._api, pod, folder, host, self._network, self._images, self._about)


def machine_node(name: str, **labels: str) -> Raw:
    """A Node object for a machine on which pods run as processes."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "addresses": [{"type": "InternalIP", "address": GATEWAY}],
        },
    }
