"""Real Kubernetes on the loopback: empty, with role-based access and one user per component."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import Api
from support.e2e.cleanup import clear
from support.e2e.cluster import Cluster
from support.e2e.config_files import OWN_USERS, kubeconfig, service_account_key, token_file
from support.e2e.processes import BedError, Process, free_ports, wait_for

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OwnCluster"]

READY: Final = 60.0  # seconds a program has to get ready
COMPONENTS: Final = frozenset({"controllers", "node", "proxy", "scheduler"})
"""users that run where the API server does"""
API_FLAGS: Final = (
    "--authorization-mode=RBAC,Node",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--service-cluster-ip-range=10.96.0.0/24",
    "--delete-collection-workers=8",
    "--shutdown-delay-duration=0s",
)
LOOPBACK_FLAGS: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    "--bind-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
)
"""pods need no service account, and a node without kubelet is schedulable as soon as it is there"""
CONTROLLER_FLAGS: Final = (
    "--controllers=*,-node-lifecycle-controller,-ttl-controller",
    "--use-service-account-credentials",
    "--leader-elect=false",
    "--bind-address=127.0.0.1",
    "--authentication-tolerate-lookup-failure",
    "--kube-api-qps=500",
    "--kube-api-burst=1000",
)
"""without its life-cycle controller a node that no kubelet speaks for stays ready; the other one only writes to nodes"""


class OwnCluster(Cluster):
    """etcd, kube-apiserver and kube-controller-manager of our own; the scheduler runs when a test says how."""

    own = True
    api_flags: tuple[str, ...] = LOOPBACK_FLAGS
    enter: tuple[str, ...] = ()
    """words before the command of a component, which make it run elsewhere"""

    def __init__(self, programs: Path, folder: Path, *api_flags: str, scheduler_flags: tuple[str, ...] = ()) -> None:
        client, peer, port, controllers = free_ports(4)
        self.server = f"https://{self.outside(port)}"
        self.inner_server = f"https://{self.inside(port)}"
        self.certificate = folder / "certificates/apiserver.crt"
        super().__init__(programs, folder, *scheduler_flags)
        key, tokens = (
            service_account_key(folder / "service-account.key"),
            token_file(folder / "tokens", OWN_USERS.values()),
        )
        self.etcd = Process("etcd", [*self.enter, *_etcd(folder, client, peer)], folder)
        self.api_server = Process(
            "kube-apiserver",
            [
                *self.enter,
                programs / "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{client}",
                f"--secure-port={port}",
                f"--cert-dir={self.certificate.parent}",
                f"--token-auth-file={tokens}",
                f"--service-account-signing-key-file={key}",
                f"--service-account-key-file={key}",
                *API_FLAGS,
                *self.api_flags,
                *api_flags,
            ],
            folder,
        )
        own = self.kubeconfig("controllers")
        self.controllers = Process(
            "kube-controller-manager",
            [
                *self.enter,
                programs / "kube-controller-manager",
                f"--kubeconfig={own}",
                f"--authentication-kubeconfig={own}",
                f"--authorization-kubeconfig={own}",
                f"--service-account-private-key-file={key}",
                f"--secure-port={controllers}",
                *CONTROLLER_FLAGS,
                *self.controller_flags(),
            ],
            folder,
        )
        self._controllers_health = Api(f"https://{self.outside(controllers)}")

    def controller_flags(self) -> tuple[str, ...]:
        """Further flags of kube-controller-manager."""
        return ()

    def outside(self, port: int) -> str:
        """Where tests reach a port of a component."""
        return self.inside(port)

    def inside(self, port: int) -> str:
        """Where components reach a port of each other."""
        return f"127.0.0.1:{port}"

    def start(self) -> None:
        """Start all but the scheduler, and wait until they serve."""
        self.etcd.start()
        self.start_api_server()
        self.controllers.start()
        wait_for(lambda: self._has("/api/v1/namespaces/default"), READY, "the namespace default")
        self.controllers.wait_until(lambda: self._controllers_health.answers("/healthz"), READY)

    def start_api_server(self) -> None:
        """Start the API server, on the port and the etcd it always has, and wait until it is ready."""
        self.api_server.start()
        self.api_server.wait_until(self.certificate.exists, READY)
        self.api_server.wait_until(self.api.answers, READY)

    def restart_api_server(self) -> None:
        """Kill the API server and start it again."""
        self.api_server.kill()
        self.start_api_server()

    def processes(self) -> dict[str, Process]:
        """All that run here, by what people call them."""
        return {
            "etcd": self.etcd,
            "kube-apiserver": self.api_server,
            "kube-controller-manager": self.controllers,
            "kube-scheduler": self.scheduler.process,
        }

    def opened(self, user: str) -> Api:
        """A connection with the user's token."""
        return Api(self.server, OWN_USERS[user].token, self.certificate)

    def kubeconfig(self, user: str) -> Path:
        """Written when it is first asked for."""
        path = self.folder / f"{user}.kubeconfig"
        if path.exists():
            return path
        server = self.inner_server if user in COMPONENTS else self.server
        return kubeconfig(path, server, OWN_USERS[user].token, self.certificate)

    def clear(self) -> None:
        """Remove whatever tests have made, marked or not, from an API server that a failed test may have left dead."""
        if not self.api_server.alive:
            self.start_api_server()
        clear(self.api)

    def close(self) -> None:
        """End everything; logs stay, data does not."""
        super().close()
        for process in (self.controllers, self.api_server, self.etcd):
            process.stop()
        self._controllers_health.close()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _has(self, path: str) -> bool:
        return self.api.answers(path)


def _etcd(folder: Path, client: int, peer: int) -> list[str]:
    program = shutil.which("etcd")
    if program is None:
        raise BedError("there is no etcd on the PATH: `python scripts/kubernetes.py build` gets one")
    here, there = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    words = {
        "data-dir": folder / "etcd",
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": there,
        "initial-advertise-peer-urls": there,
        "initial-cluster": f"default={there}",
        "log-level": "warn",
    }
    return [program, "--unsafe-no-fsync", *(f"--{name}={value}" for name, value in words.items())]
