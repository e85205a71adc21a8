"""External cluster for tests; it is left as it was found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from support.e2e.api_client import Api
from support.e2e.cluster import Cluster
from support.e2e.config_files import USERS, kubeconfig
from support.e2e.processes import Process, free_ports

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GivenCluster"]

READY: Final = 60.0  # seconds a way into the cluster has to open


class GivenCluster(Cluster):
    """An external cluster, reached as the user of its kubeconfig, who may impersonate our users.

    Only what the tests have made is ever removed. The scheduler that tests configure runs here, beside theirs.
    """

    def __init__(self, programs: Path, folder: Path, theirs: Path) -> None:
        ports = dict(zip(USERS, free_ports(len(USERS)), strict=True))
        self._ports = ports
        self._proxies = {user: _proxy(programs, folder, theirs, user, port) for user, port in ports.items()}
        self._installed: list[Path] = []
        super().__init__(programs, folder)

    def start(self) -> None:
        """Open a way into the cluster for every user."""
        for user, proxy in self._proxies.items():
            proxy.start()
            proxy.wait_until(partial(self.connect(user).answers, "/version"), READY)

    def opened(self, user: str) -> Api:
        """A connection through the user's proxy."""
        return Api(f"http://127.0.0.1:{self._ports[user]}")

    def kubeconfig(self, user: str) -> Path:
        """It names the user's proxy."""
        return kubeconfig(self.folder / f"{user}.kubeconfig", f"http://127.0.0.1:{self._ports[user]}")

    def install(self, path: Path) -> None:
        """Only if nothing of it is there; it is removed in the end."""
        if not self.kubectl("get", "--ignore-not-found", "--output=name", "--filename", str(path)):
            super().install(path)
            self._installed.append(path)

    def close(self) -> None:
        """Take back what was installed, and end our programs."""
        for path in self._installed:
            self.kubectl("delete", "--filename", str(path))
        super().close()
        for proxy in self._proxies.values():
            proxy.stop()


def _proxy(programs: Path, folder: Path, theirs: Path, user: str, port: int) -> Process:
    """A way into a cluster that knows all ways to log in; all but the administrator speak as our users."""
    speaking = [] if user == "admin" else [f"--as={USERS[user].name}"]
    command = [str(programs / "kubectl"), f"--kubeconfig={theirs}", *speaking, "proxy", f"--port={port}"]
    return Process(f"proxy-{user}", command, folder)
