"""Nodes of well-known machines as API objects: the Node, its DeviceInventory, and the usage of its devices.

In a fleet one node per machine profile is created through the API; the others are copies of it. Usage is always current, and
has no time.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Final, cast

import msgspec

from linkwise import __version__
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.usage import usage_fields, usage_in, with_usage
from linkwise.embedded.nodes.slices import with_slice
from linkwise.errors import InputError
from linkwise.model.device import Device
from linkwise.model.usage import DeviceUsage
from linkwise.model.views import NodeView
from linkwise.node.usage import holdings_of, simulated_usage
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.kubernetes.to_objects import node_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store
    from linkwise.model.node import Mode
    from linkwise.model.views import PodView
    from linkwise.node.allocation import Allocations

__all__ = [
    "addresses_of",
    "fleet_objects",
    "idle_usage",
    "machine_objects",
    "make_fleet",
    "node_names",
    "usage_by_pods",
]

_SHARING_MODES: Final[dict[str, Mode]] = {
    "": "any",
    "whole": "whole",
    "share": "share",
    "percent": "percent",
    "dra": "whole",
}
_NAME_PLACEHOLDER: Final = "name-of-a-node"
_READY: Final = ("KubeletReady", "kubelet is posting ready status")
_MIB: Final = 1 << 20
_UNIT: Final = "GiB"
"""of shares in simulated nodes"""


def fleet_objects(fleet: Mapping[str, int]) -> Iterator[list[Raw]]:
    """The objects of each node of a fleet, given as number of nodes per machine profile.

    A suffix sets the sharing mode of the devices: `dgx1-v100/percent`, `dgx1-v100/share`; `dgx1-v100/dra` has a DRA driver
    in place of a device plugin.
    """
    for machine, count in fleet.items():
        # Nodes of one profile differ only in their name, so that a fleet of thousands is encoded once.
        template = msgspec.json.encode(machine_objects(machine, _NAME_PLACEHOLDER))
        for name in node_names(machine, count):
            objects: list[Raw] = msgspec.json.decode(
                template.replace(_NAME_PLACEHOLDER.encode("ascii"), name.encode("ascii"))
            )
            objects[0]["status"]["addresses"] = addresses_of(name)
            yield objects


def node_names(machine: str, count: int) -> list[str]:
    """The node names of a machine profile."""
    if count < 0:
        raise InputError(f"machine profile {machine!r}: invalid number of nodes {count}; must be 0 or more")
    width = len(str(max(count - 1, 0)))
    return [f"{machine.replace('/', '-')}-{number:0{width}}" for number in range(count)]


def machine_objects(
    machine: str,
    name: str,
    *,
    unhealthy: Collection[int] = (),
    inventory: bool = True,
    labels: Mapping[str, str] | None = None,
) -> list[Raw]:
    """The objects of one node; without an inventory, only what a vendor's device plugin reports."""
    kind, _, mode = machine.partition("/")
    if mode not in _SHARING_MODES:
        raise InputError(
            f"machine {machine!r}: unknown sharing mode {mode!r}; use {', '.join(filter(None, _SHARING_MODES))}"
        )
    objects: list[Raw] = []
    for event in fleet_node(
        profile(kind), name, mode=_SHARING_MODES[mode], unhealthy=unhealthy, inventory=inventory, labels=labels
    ):
        if isinstance(event, NodeView):
            objects.append(_with_kubelet_status(node_object(event)))
        elif isinstance(event, NodeObject) and isinstance(event.document, dict):
            devices = [device["uuid"] for device in event.document["spec"]["devices"]]
            objects.append(dict(with_usage(event.document, idle_usage(devices, profile(kind).memory))))
    return with_slice(objects, profile(kind).vendor) if mode == "dra" else objects


def addresses_of(name: str) -> list[Raw]:
    """Made-up addresses of a node."""
    number = zlib.crc32(name.encode())
    return [
        {"type": "InternalIP", "address": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"},
        {"type": "Hostname", "address": name},
    ]


def make_fleet(store: Store, add_node: Callable[[Iterable[Raw]], str], fleet: Mapping[str, int]) -> Iterator[str]:
    """Create the nodes of a fleet with their inventories; yields their names."""
    for machine, count in fleet.items():
        names = node_names(machine, count)
        for first in names[:1]:
            objects = machine_objects(machine, first)
            yield add_node(objects)
            kinds = [store.database.kinds.for_object(document["apiVersion"], document["kind"]) for document in objects]
            named = zip(kinds, (document["metadata"]["name"] for document in objects), strict=True)
            templates = [(kind, store.get(kind, each).data) for kind, each in named if kind]
            uid = store.get("nodes", first).uid.encode()
            for name in names[1:]:
                own = str(uuid.uuid4()).encode()
                for kind, data in templates:
                    store.database.write(kind, _copy(data.replace(uid, own), first, name))
                yield name


def idle_usage(devices: Iterable[str], memory: int) -> dict[str, object]:
    """The usage of idle devices, of this many MiB each."""
    return usage_fields(simulated_usage([DeviceUsage(name, memory * _MIB) for name in devices], ()))


def usage_by_pods(
    node: str, inventory: Mapping[str, object], allocations: Sequence[Allocations], recorded: Iterable[PodView]
) -> dict[str, object] | None:
    """The usage of the devices of a node by the pods that have them; None if the inventory does not tell their memory.

    Args:
        node: its name.
        inventory: as it was published last.
        allocations: of the resources that kubelet serves.
        recorded: pods with devices that no kubelet counts.
    """
    known, _, _ = usage_in(inventory, node)
    if known is None:
        return None
    devices = [
        Device(device.id, index, memory=(device.total or 0) // _MIB) for index, device in enumerate(known.devices)
    ]
    served = [held for each in allocations for held in holdings_of((), each, devices, _UNIT)]
    return usage_fields(simulated_usage(known.devices, (*served, *holdings_of(recorded, None, devices, _UNIT))))


def _with_kubelet_status(node: Raw) -> Raw:
    """The node with the labels and the status that a kubelet sets."""
    name = node["metadata"]["name"]
    reason, message = _READY
    node["metadata"]["labels"] |= {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    node["status"] |= {
        "conditions": [{"type": "Ready", "status": "True", "reason": reason, "message": message}],
        "addresses": addresses_of(name),
        "nodeInfo": {
            "kubeletVersion": f"v0.0.0-linkwise-{__version__}",
            "osImage": "simulated",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "containerRuntimeVersion": "simulated://0",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }
    return node


def _copy(data: bytes, first: str, name: str) -> Raw:
    """The object under another name; it is already validated."""
    document = cast("Raw", msgspec.json.decode(data.replace(first.encode("ascii"), name.encode("ascii"))))
    if document["kind"] == "Node":
        document["status"]["addresses"] = addresses_of(name)
    else:
        document["metadata"]["uid"] = str(uuid.uuid4())
    return document
