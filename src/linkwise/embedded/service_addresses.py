"""Addresses of Services: the port of a Service and the address in its Endpoints.

No controller writes Endpoints. What runs behind a Service creates both objects; here, unlike on a real cluster,
the address may be on loopback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.embedded.kinds.object_types import ApiType
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from linkwise.embedded.storage.database import Database

__all__ = ["NoAddressError", "service_address"]


class NoAddressError(LinkwiseError):
    """A Service does not exist, or has no endpoints on the port."""


class _ServicePort(ApiType, frozen=True):
    port: int = 0
    name: str = ""


class _ServiceSpec(ApiType, frozen=True):
    ports: tuple[_ServicePort, ...] = ()


class _Service(ApiType, frozen=True):
    spec: _ServiceSpec = _ServiceSpec()


class _Address(ApiType, frozen=True):
    ip: str = ""


class _Subset(ApiType, frozen=True):
    addresses: tuple[_Address, ...] = ()
    ports: tuple[_ServicePort, ...] = ()


class _Endpoints(ApiType, frozen=True):
    subsets: tuple[_Subset, ...] = ()


def service_address(database: Database, namespace: str, name: str, port: str) -> tuple[str, int]:
    """Host and port behind a port of a Service, which is given by name or number; NoAddressError if there is none."""
    kinds = database.kinds
    service = database.find(kinds.by_name("services"), (namespace, name))
    if service is None:
        raise NoAddressError(f'service "{name}" not found')
    ports = msgspec.json.decode(service.data, type=_Service).spec.ports
    wanted = next((each for each in ports if port in {str(each.port), each.name}), None)
    if wanted is None and not port and len(ports) == 1:
        wanted = ports[0]
    if wanted is None:
        raise NoAddressError(f'no service port "{port}" found for service "{name}"')
    endpoints = database.find(kinds.by_name("endpoints"), (namespace, name))
    subsets = msgspec.json.decode(endpoints.data, type=_Endpoints).subsets if endpoints else ()
    for subset in subsets:
        for target in subset.ports:
            if target.name == wanted.name and subset.addresses:
                return subset.addresses[0].ip, target.port
    raise NoAddressError(f'no endpoints available for service "{name}"')
