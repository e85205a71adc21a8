"""Address that the API server's service proxy accepts: a network namespace of the test's own, with a relay into it.

The API server refuses endpoints on the loopback. The listening socket is opened inside the namespace; what it accepts is
passed on to a port of the loopback.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.e2e.pod_objects import pod
from support.e2e.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.e2e.cluster import Cluster

__all__ = ["proxied_service"]

PORTS: Final = {"http": 39999, "tenants": 39996}
CLONE_NEWNET: Final = 0x40000000


@contextmanager
def proxied_service(cluster: Cluster, namespace: str, target: int, tenants: int = 0) -> Iterator[None]:
    """A Service called linkwise with the ports of the chart, whose only endpoint leads to ports of the loopback.

    Args:
        cluster: where the Service is
        namespace: of the Service
        target: the port of the service
        tenants: its port for tenants, if it has one
    """
    number = os.getpid() % 250
    name, outer, inner = f"lwt{number}", f"198.18.{number}.1", f"198.18.{number}.2"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        _ip("addr", "add", f"{outer}/30", "dev", f"{name}a")
        _ip("link", "set", f"{name}a", "up")
        _ip("-n", name, "addr", "add", f"{inner}/30", "dev", f"{name}b")
        _ip("-n", name, "link", "set", f"{name}b", "up")
        with (
            closing(Relay(_listen_inside(name, inner, PORTS["http"]), lambda: target)),
            closing(Relay(_listen_inside(name, inner, PORTS["tenants"]), lambda: tenants or target)),
        ):
            _announce(cluster, namespace, inner)
            yield
    finally:
        # The namespace itself lives until its last connection is closed; the link must not.
        subprocess.run([shutil.which("ip") or "ip", "link", "delete", f"{name}a"], capture_output=True, check=False)
        _ip("netns", "delete", name)


def _announce(cluster: Cluster, namespace: str, address: str) -> None:
    about = {"name": "linkwise", "namespace": namespace}
    ports = [{"name": name, "port": port, "protocol": "TCP"} for name, port in PORTS.items()]
    cluster.api.create({"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": ports}})
    # The proxy accepts only the address of an existing pod.
    made = cluster.api.create(pod(namespace, "linkwise-0"))
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/linkwise-0/status", {"status": status})
    target = {"kind": "Pod", "namespace": namespace, "name": "linkwise-0", "uid": made["metadata"]["uid"]}
    subsets = [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}]
    legacy = {"apiVersion": "v1", "kind": "Endpoints", "metadata": about, "subsets": subsets}
    cluster.api.call("POST", f"/api/v1/namespaces/{namespace}/endpoints", legacy)


def _ip(*words: str) -> None:
    done = subprocess.run([shutil.which("ip") or "ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _listen_inside(name: str, address: str, port: int) -> socket.socket:
    """A listening socket of the namespace; a thread enters it, so that the process stays where it is."""
    made: list[socket.socket] = []

    def work() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{name}").open() as file:
            if libc.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        made.append(socket.create_server((address, port)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return made[0]
