"""EndpointSlice of the leader: the only way from a Service without a selector to the replica that decides.

Beside it an Endpoints object with the same address: the API server's service proxy, by which users ask the service, reads nothing
else. The leader writes them after it has taken over. If another client changes or deletes them, the leader repairs them at its
next look. The Service owns them, so that they are removed with it.

A replica that starts at the address of the last leader, as a container that its kubelet restarts, takes that address out: until
another replica leads, a refused connection costs schedulers less than calls to a standby.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from linkwise.errors import ClusterError, InputError
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.watch_stream import status_of
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["Endpoint", "LeaderEndpoints", "LeaderSlice"]

log: Final = logging.getLogger(__name__)

WAIT: Final = 5.0  # seconds for a response
MANAGER: Final = "linkwise.dev"
"""value of the label endpointslice.kubernetes.io/managed-by, so that controllers of Kubernetes leave it alone"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the leader is reached."""

    address: str
    ports: Mapping[str, int]
    """by their names, which are those of the Service"""
    pod: str = ""
    """name of its pod, without which the API server does not proxy to it"""


class LeaderSlice:
    """The EndpointSlice SERVICE-leader; the connection is fenced."""

    kind: ClassVar = "EndpointSlice"
    collection: ClassVar = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
    suffix: ClassVar = "-leader"
    _nowhere: ClassVar[Mapping[str, Any]] = {"endpoints": []}
    """what the object has while no replica leads"""

    def __init__(self, connection: Connection, namespace: str, service: str, endpoint: Endpoint) -> None:
        self._connection = connection
        self._namespace, self._service = namespace, service
        self.name: Final = f"{service}{self.suffix}"
        self._endpoint = endpoint
        self._collection = self.collection.format(quote(namespace, safe=""))
        self._path = f"{self._collection}/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return f"{self.kind} {self._namespace}/{self.name}"

    async def keep(self) -> bool:
        """Write the object if it is not as it should be; returns whether it had to be written.

        Raises:
            ClusterError: it could not be read or written, or the Service does not exist.
        """
        current = await self._read()
        wanted = self._wanted()
        if current and self._equal(current, wanted):
            return False
        meta = {**current.get("metadata", {}), **wanted["metadata"], "ownerReferences": [await self._owner()]}
        meta["labels"] = {**(current.get("metadata", {}).get("labels") or {}), **wanted["metadata"]["labels"]}
        if current and current.get("addressType") != wanted.get("addressType"):
            # The type can't be changed: the slice is deleted with its Service, or by an administrator.
            raise ClusterError(f"{self} has another address type than {self._endpoint.address}; delete it")
        body = encode({**wanted, "metadata": meta})
        method, place = ("PUT", self._path) if current else ("POST", self._collection)
        answer = await self._connection.call(method, place, body, wait=WAIT)
        if answer.status not in {200, 201}:
            raise self._error("update" if current else "create", answer)
        log.info("endpoint written object=%s address=%s", self, self._endpoint.address)
        return True

    async def withdraw(self) -> bool:
        """Take the endpoint out if it is in the object; returns whether it was.

        What a leader writes meanwhile stays: a PUT changes only the version that was read.

        Raises:
            ClusterError: it could not be read or written.
        """
        while self._leads_here(current := await self._read()):
            answer = await self._connection.call("PUT", self._path, encode({**current, **self._nowhere}), wait=WAIT)
            if answer.status in {200, 404}:
                log.info("endpoint withdrawn object=%s address=%s", self, self._endpoint.address)
                return True
            if answer.status != 409:
                raise self._error("update", answer)
        return False

    async def _read(self) -> dict[str, Any]:
        """The object; empty if there is none."""
        answer = await self._connection.call("GET", self._path, wait=WAIT)
        if answer.status not in {200, 404}:
            raise self._error("get", answer)
        return _document(answer.body) if answer.status == 200 else {}

    async def _owner(self) -> dict[str, str]:
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/services/{quote(self._service, safe='')}"
        answer = await self._connection.call("GET", path, wait=WAIT)
        if answer.status == 404:
            raise ClusterError(
                f"Service {self._namespace}/{self._service} does not exist, so schedulers do not find the leader; create it"
                " without a selector, or clear leader.service"
            )
        if answer.status != 200:
            raise self._error("get the Service of", answer)
        uid = str(_document(answer.body).get("metadata", {}).get("uid", ""))
        return {"apiVersion": "v1", "kind": "Service", "name": self._service, "uid": uid}

    def _wanted(self) -> dict[str, Any]:
        endpoint = self._endpoint
        target = {"kind": "Pod", "namespace": self._namespace, "name": endpoint.pod}
        labels = {"kubernetes.io/service-name": self._service, "endpointslice.kubernetes.io/managed-by": MANAGER}
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": self.name, "namespace": self._namespace, "labels": labels},
            "addressType": f"IPv{ip_address(endpoint.address).version}",
            "endpoints": [
                {
                    "addresses": [endpoint.address],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    **({"targetRef": target} if endpoint.pod else {}),
                }
            ],
            "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in sorted(endpoint.ports.items())],
        }

    @staticmethod
    def _equal(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Whether a slice is as it should be; other labels, and fields that the API server adds, do not count."""
        return (
            _marked(current, wanted)
            and current.get("endpoints") == wanted["endpoints"]
            and sorted(current.get("ports") or (), key=lambda port: str(port.get("name"))) == wanted["ports"]
        )

    def _leads_here(self, current: Mapping[str, Any]) -> bool:
        """Whether connections to the Service arrive at this replica; its pod may have had another name."""
        addresses = {address for one in current.get("endpoints") or () for address in one.get("addresses") or ()}
        return self._endpoint.address in addresses and self._has_ports(current.get("ports"))

    def _has_ports(self, ports: Any) -> bool:  # noqa: ANN401 - as the object has them
        return {port.get("port") for port in ports or ()} == set(self._endpoint.ports.values())

    def _error(self, verb: str, answer: Answer) -> ClusterError:
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        remedy = "; `linkwise manifests rbac` prints the role" if answer.status == 403 else ""
        return ClusterError(f"can't {verb} {self}: {message}{remedy}")


class LeaderEndpoints(LeaderSlice):
    """The Endpoints SERVICE, with a label that keeps Kubernetes from making a second slice of it."""

    kind: ClassVar = "Endpoints"
    collection: ClassVar = "/api/v1/namespaces/{}/endpoints"
    suffix: ClassVar = ""
    _nowhere: ClassVar[Mapping[str, Any]] = {"subsets": []}

    def _wanted(self) -> dict[str, Any]:
        given = super()._wanted()
        (endpoint,) = given["endpoints"]
        target = {"targetRef": endpoint["targetRef"]} if "targetRef" in endpoint else {}
        address = {"ip": self._endpoint.address, **target}
        labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        return {
            "apiVersion": "v1",
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": self._namespace, "labels": labels},
            "subsets": [{"addresses": [address], "ports": given["ports"]}],
        }

    @staticmethod
    def _equal(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        return _marked(current, wanted) and current.get("subsets") == wanted["subsets"]

    def _leads_here(self, current: Mapping[str, Any]) -> bool:
        return any(
            self._endpoint.address in {one.get("ip") for one in subset.get("addresses") or ()}
            and self._has_ports(subset.get("ports"))
            for subset in current.get("subsets") or ()
        )


def _document(body: bytes) -> dict[str, Any]:
    try:
        return decode_as(body, dict[str, Any])
    except InputError as error:
        raise ClusterError(f"the response of the API server can't be read: {error}") from error


def _marked(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an object has its labels and its owner."""
    labels = current.get("metadata", {}).get("labels") or {}
    own = all(labels.get(key) == value for key, value in wanted["metadata"]["labels"].items())
    return own and bool(current.get("metadata", {}).get("ownerReferences"))
