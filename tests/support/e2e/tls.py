"""Service with TLS for schedulers, called by a kube-scheduler with the client certificate of the Secret."""

from __future__ import annotations

import base64
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from linkwise.net.certificates import Certificate
from support.e2e.api_client import ApiError
from support.e2e.processes import wait_for
from support.e2e.scheduler import Serve
from support.e2e.service import printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.e2e.api_client import Api
    from support.e2e.cluster import Cluster

__all__ = ["MountedSecret", "TlsService", "running_tls"]

NAMESPACE: Final = "kube-system"
"""of the Secrets: clearing the cluster leaves it"""
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
FILES: Final = ("ca.crt", "tls.crt", "tls.key")
MOUNT_SECONDS: Final = 0.2
"""between looks of the mount; a kubelet takes up to a minute or two"""


class MountedSecret:
    """Files of a Secret in a folder, kept up to date: what a kubelet does for a volume of a pod."""

    def __init__(self, api: Api, name: str, folder: Path) -> None:
        self.folder: Final = folder
        self._api, self._path = api.another(), f"{SECRETS}/{name}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Write the files once the Secret is there, and whenever it changes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        wait_for(self._write, 30, "the Secret for kube-scheduler is there")
        self._thread.start()

    def stop(self) -> None:
        """Leave the files as they are."""
        self._ended.set()
        self._thread.join()
        self._api.close()

    @property
    def files(self) -> list[str]:
        """The flags of `linkwise config scheduler`."""
        flags = ("--ca-file", "--cert-file", "--key-file")
        return [word for flag, name in zip(flags, FILES, strict=True) for word in (flag, str(self.folder / name))]

    @property
    def client(self) -> Certificate:
        """The client certificate."""
        return Certificate(*((self.folder / name).read_text() for name in FILES[1:]))

    @property
    def authorities(self) -> str:
        """What a client of the service trusts."""
        return (self.folder / "ca.crt").read_text()

    def _run(self) -> None:
        while not self._ended.wait(MOUNT_SECONDS):
            self._write()

    def _write(self) -> bool:
        try:
            data = self._api.get(self._path)["data"]
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        for name in FILES:
            file = self.folder / f".{name}"
            file.write_bytes(base64.b64decode(data[name]))
            file.replace(self.folder / name)
        return True


@dataclass(frozen=True, slots=True)
class TlsService:
    """A service that only schedulers with a certificate may ask."""

    serve: Serve
    mount: MountedSecret

    @property
    def refused(self) -> dict[str, float]:
        """How many callers were refused, by reason."""
        status, text = self.serve.http.raw("GET", "/metrics")
        if status != 200:
            raise AssertionError(text.decode())
        lines = [line for line in text.decode().splitlines() if line.startswith("linkwise_tls_refused_total{")]
        return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}


@contextmanager
def running_tls(
    cluster: Cluster, name: str, *, tls: Mapping[str, Any] | None = None, flags: tuple[str, ...] = ()
) -> Iterator[TlsService]:
    """A service of the user linkwise under the shipped role with --tls; kube-scheduler asks it by HTTPS.

    Args:
        cluster: where it runs
        name: of the service, in logs
        tls: further settings of the section
        flags: further ones of `linkwise manifests rbac`
    """
    configuration = {"tls": {"enabled": True, "namespace": NAMESPACE, **(tls or {})}}
    words = ("--user", "linkwise", "--name", f"e2e-{name}", "--namespace", NAMESPACE, "--tls", *flags)
    role = printed("manifests", "rbac", *words)
    serve = Serve(cluster.kubeconfig("linkwise"), cluster.folder, name=f"serve-{name}", configuration=configuration)
    mount = MountedSecret(cluster.api, "linkwise-scheduler-tls", cluster.folder / f"mount-{name}")
    try:
        cluster.apply(role, NAMESPACE)
        serve.start()
        mount.start()
        way = ["--kubeconfig", str(cluster.kubeconfig("scheduler")), "--no-leader-elect", "--default-scheduler"]
        cluster.scheduler.run(printed("config", "scheduler", "--url", serve.url, *mount.files, *way))
        yield TlsService(serve, mount)
    finally:
        cluster.scheduler.stop()
        mount.stop()
        serve.stop()
        cluster.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=role)
        for secret in ("linkwise-tls", "linkwise-scheduler-tls"):
            cluster.api.delete(f"{SECRETS}/{secret}")
