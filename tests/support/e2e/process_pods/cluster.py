"""Cluster whose components and pods share a network: what a chart is installed on.

Other than on the loopback, service accounts are checked on admission, the API server reaches pods and Services by their
addresses, and the control plane has a kube-scheduler of its own that knows nothing of Linkwise.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from linkwise.net.certificates import new_chain
from support.e2e.own_cluster import OwnCluster
from support.e2e.process_pods.network import GATEWAY, Network
from support.e2e.processes import Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NetworkedCluster", "networked_cluster"]

DAY: Final = 86400.0  # seconds


class NetworkedCluster(OwnCluster):
    """As on the loopback, but in a network; tests reach it through doors."""

    api_flags = (
        "--disable-admission-plugins=TaintNodesByCondition",
        "--bind-address=0.0.0.0",
        f"--advertise-address={GATEWAY}",
        "--allow-privileged=true",
    )

    def __init__(self, programs: Path, folder: Path, network: Network, *api_flags: str) -> None:
        self.network, self.enter = network, tuple(network.enter)
        # No client has a certificate of this authority, but components look for it in a ConfigMap of the API server.
        authority = folder / "clients.crt"
        authority.write_text(new_chain(("clients",), datetime.now(UTC), DAY).authorities)
        super().__init__(programs, folder, f"--client-ca-file={authority}", *api_flags)
        (port,) = free_ports(1)
        way = self.kubeconfig("scheduler")
        self.default_scheduler = Process(
            "kube-scheduler-default",
            [
                *self.enter,
                programs / "kube-scheduler",
                f"--kubeconfig={way}",
                f"--authentication-kubeconfig={way}",
                f"--authorization-kubeconfig={way}",
                f"--secure-port={port}",
                "--leader-elect=false",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
            ],
            folder,
        )

    def controller_flags(self) -> tuple[str, ...]:
        """Pods find the certificate of the API server in their volumes."""
        return (f"--root-ca-file={self.certificate}",)

    def outside(self, port: int) -> str:
        """A door in the host's loopback; the certificate of the API server is for that name too."""
        return f"localhost:{self.network.door(('127.0.0.1', port))}"

    def inside(self, port: int) -> str:
        """The machine's own address."""
        return f"{GATEWAY}:{port}"

    def start(self) -> None:
        """Start all components, the control plane's scheduler too."""
        super().start()
        self.default_scheduler.start()

    def close(self) -> None:
        """End everything."""
        self.default_scheduler.stop()
        super().close()


@contextmanager
def networked_cluster(programs: Path, folder: Path, *api_flags: str) -> Iterator[NetworkedCluster]:
    """A running cluster until the end of the block."""
    network = Network(folder)
    cluster = None
    try:
        network.start()
        cluster = NetworkedCluster(programs, folder, network, *api_flags)
        cluster.start()
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()
        network.close()
