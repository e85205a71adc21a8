"""Services of a cluster: a TCP forwarder that follows EndpointSlices for kube-proxy, and a hosts file for cluster DNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.e2e.processes import BedError

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from support.e2e.api_client import Api, Raw
    from support.e2e.process_pods.network import Address, Network

__all__ = ["Services"]


class Services:
    """Listens on the address and ports of every Service; `follow` brings them up to date."""

    def __init__(self, api: Api, network: Network, hosts: Path) -> None:
        self._api, self._network, self.hosts = api, network, hosts
        self._servers: dict[Address, asyncio.Server] = {}
        self._targets: dict[Address, list[Address]] = {}
        self._refused: set[Address] = set()
        self._links: dict[str, dict[str, str]] = {}
        hosts.write_text("127.0.0.1 localhost\n")
        hosts.chmod(0o644)

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """By namespace, the variables that kubelet sets for its Services; the same object all the time."""
        return self._links

    def targets(self, address: str, port: int) -> list[Address]:
        """Where connections to a Service go now."""
        return list(self._targets.get((address, port), ()))

    def follow(self) -> None:
        """Read Services and EndpointSlices; open and close ports."""
        services = [found for found in self._api.list("/api/v1/services") if _address(found)]
        slices = self._api.list("/apis/discovery.k8s.io/v1/endpointslices")
        wanted: dict[Address, list[Address]] = {}
        for service in services:
            about = service["metadata"]
            own = [
                found
                for found in slices
                if found["metadata"]["namespace"] == about["namespace"]
                and found["metadata"].get("labels", {}).get("kubernetes.io/service-name") == about["name"]
            ]
            for port in service["spec"].get("ports", []):
                wanted[_address(service), port["port"]] = _targets(port.get("name", ""), own)
        self._targets.update(wanted)
        for gone in self._servers.keys() - wanted.keys():
            self._network.unlisten(self._servers.pop(gone))
            self._targets.pop(gone)
        for new in wanted.keys() - self._servers.keys():
            self._servers[new] = self._listen(new)
        self._name(services)

    def _listen(self, at: Address) -> asyncio.Server:
        try:
            return self._network.listen(at, lambda: self._targets.get(at, []))
        except OSError as error:
            raise BedError(f"Service {at} can't be listened on: {error}") from error

    def _name(self, services: list[Raw]) -> None:
        """Write the hosts file in place, since it is mounted as a file."""
        lines = ["127.0.0.1 localhost"]
        links: dict[str, dict[str, str]] = {}
        for service in services:
            name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
            names = [f"{name}.{namespace}{suffix}" for suffix in ("", ".svc", ".svc.cluster.local")]
            lines.append(" ".join([_address(service), *names]))
            links.setdefault(namespace, {}).update(_link(service))
        text = "\n".join([*lines, ""])
        if text != self.hosts.read_text():
            self.hosts.write_text(text)
        self._links.clear()
        self._links.update(links)


def _address(service: Raw) -> str:
    address = service["spec"].get("clusterIP", "None")
    return "" if address == "None" else str(address)


def _targets(name: str, slices: list[Raw]) -> list[Address]:
    """Addresses of ready endpoints behind a port of a Service, by the name of the port."""
    return [
        (address, int(port["port"]))
        for found in slices
        for port in found.get("ports") or []
        if (port.get("name") or "") == name
        for endpoint in found.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready") is not False
        for address in endpoint["addresses"]
    ]


def _link(service: Raw) -> dict[str, str]:
    """The variables that kubelet sets for a Service."""
    prefix, address = service["metadata"]["name"].upper().replace("-", "_"), _address(service)
    ports = service["spec"].get("ports", [])
    found = {f"{prefix}_SERVICE_HOST": address}
    for position, port in enumerate(ports):
        number, url = str(port["port"]), f"tcp://{address}:{port['port']}"
        if position == 0:
            found |= {f"{prefix}_SERVICE_PORT": number, f"{prefix}_PORT": url}
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
        found |= {
            f"{prefix}_PORT_{number}_TCP": url,
            f"{prefix}_PORT_{number}_TCP_PROTO": "tcp",
            f"{prefix}_PORT_{number}_TCP_PORT": number,
            f"{prefix}_PORT_{number}_TCP_ADDR": address,
        }
    return found
