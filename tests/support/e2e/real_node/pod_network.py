"""Pod network of a real node: addresses on the bridge of a cluster's network, kube-proxy, and a small cluster DNS."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from support.e2e.process_pods.network import GATEWAY, SERVICES
from support.e2e.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.e2e.process_pods.cluster import NetworkedCluster
    from support.e2e.real_node.machine import Inside, Machine

__all__ = ["BRIDGE", "KUBELET", "Names", "prepare_services", "proxy", "wait_for_rules"]

PODS: Final = "10.244.0.0/16"
BRIDGE: Final[Mapping[str, object]] = {
    "type": "bridge",
    "bridge": "br0",
    "hairpinMode": True,
    "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": PODS, "rangeStart": "10.244.128.1", "rangeEnd": "10.244.191.254", "gateway": GATEWAY}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    },
}
"""CNI plugin of Debian's containernetworking-plugins"""
KUBELET: Final = (f"--node-ip={GATEWAY}", f"--cluster-dns={GATEWAY}", "--cluster-domain=cluster.local")
"""flags; without its address, the kubelet would look for its own name in the DNS of the host"""
DOMAIN: Final = ".svc.cluster.local"
ROUTES: Final = f"""
# kube-proxy translates addresses of Services; nothing listens on them.
ip route del local {SERVICES} dev lo
ip route add default dev br0
echo 1 > /proc/sys/net/ipv4/ip_forward
"""
READY: Final = 30.0  # seconds


def prepare_services(machine: Machine) -> None:
    """Let packets to Services leave, so that kube-proxy's rules see them."""
    machine.run("sh", "-ec", ROUTES)


def proxy(programs: Path, machine: Machine, name: str, kubeconfig: Path) -> Inside:
    """kube-proxy of a node of this name, to be started in a machine that runs."""
    flags = [f"--kubeconfig={kubeconfig}", f"--hostname-override={name}", f"--cluster-cidr={PODS}"]
    flags += ["--proxy-mode=nftables", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"]
    flags += ["--conntrack-tcp-timeout-close-wait=0s"]
    return machine.process("kube-proxy", [programs / "kube-proxy", *flags])


class Names:
    """Cluster DNS for names of Services: A records from the API server, and no others."""

    def __init__(self, cluster: NetworkedCluster) -> None:
        self._api, self._network, self._ending = cluster.api.another(), cluster.network, threading.Event()
        self._thread = threading.Thread(target=self._work, name="dns", daemon=True)

    def start(self) -> None:
        """Listen on the address of the node."""

        async def bound() -> socket.socket:
            made = socket.socket(type=socket.SOCK_DGRAM)
            made.bind((GATEWAY, 53))
            return made

        self._socket = self._network.call(bound())
        self._socket.settimeout(0.5)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
            self._socket.close()
        self._api.close()

    def _work(self) -> None:
        while not self._ending.is_set():
            with suppress(TimeoutError):
                question, sender = self._socket.recvfrom(512)
                self._socket.sendto(self._answer(question), sender)

    def _answer(self, question: bytes) -> bytes:
        labels, at = [], 12
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode("ascii").lower())
            at += 1 + length
        (kind,) = struct.unpack_from(">H", question, at + 1)
        body = question[12 : at + 5]
        address = self._address(".".join(labels))
        record = struct.pack(">HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(address) if address else b""
        found = [record] if address and kind == 1 else []
        flags = 0x8580 if address else 0x8583  # authoritative; no such name
        return struct.pack(">2sHHHHH", question[:2], flags, 1, len(found), 0, 0) + body + b"".join(found)

    def _address(self, name: str) -> str:
        if not name.endswith(DOMAIN) or name.count(".") != 1 + DOMAIN.count("."):
            return ""
        service, namespace = name.removesuffix(DOMAIN).split(".")
        path = f"/api/v1/namespaces/{namespace}/services/{service}"
        return str(self._api.get(path)["spec"].get("clusterIP", "")) if self._api.answers(path) else ""


def wait_for_rules(machine: Machine) -> None:
    """Wait until kube-proxy has written rules for the API server."""
    wait_for(lambda: "10.96.0.1" in machine.run("nft", "list", "ruleset"), READY, "kube-proxy has written rules")
