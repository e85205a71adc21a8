"""Nodes of machines that people know by name, as objects for the API server: the Node, and its inventory.

A whole fleet at once: of each machine one node is made as the API makes it, and the others are its copies.
"""
# Joined from simulated_machines, simulated_fleet: one docstring for all.

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Final, cast

import msgspec

from linkwise import __version__
from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.watch_events import NodeObject
from linkwise.errors import InputError
from linkwise.model.views import NodeView
from linkwise.vendors.machines import profile
from linkwise.wire.kubernetes.to_objects import node_object

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from linkwise.embedded.nodes.kubelet import SimulatedNodes
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store
    from linkwise.model.node import Mode

__all__ = ["addresses_of", "fleet_objects", "machine_objects", "make_fleet", "node_names"]

_MODES: Final[dict[str, Mode]] = {"": "any", "whole": "whole", "share": "share", "percent": "percent"}
_NAME: Final = "name-of-a-node"
_READY: Final = ("KubeletReady", "kubelet is posting ready status")


def fleet_objects(fleet: Mapping[str, int]) -> Iterator[list[Raw]]:
    """The objects of all nodes of a fleet, node by node: so many of each machine profile.

    A word behind the profile says how its devices are handed out: `dgx1-v100/percent`, `dgx1-v100/share`.
    """
    for machine, count in fleet.items():
        # Nodes of one machine differ by their name alone: a fleet of thousands is written once and renamed.
        whole = msgspec.json.encode(machine_objects(machine, _NAME))
        for name in node_names(machine, count):
            made: list[Raw] = msgspec.json.decode(whole.replace(_NAME.encode("ascii"), name.encode("ascii")))
            made[0]["status"]["addresses"] = addresses_of(name)
            yield made


def node_names(machine: str, count: int) -> list[str]:
    """What the nodes of a machine profile are called."""
    if count < 0:
        raise InputError(f"machine profile {machine!r}: {count} nodes are asked for; ask for 0 or more")
    width = len(str(max(count - 1, 0)))
    return [f"{machine.replace('/', '-')}-{number:0{width}}" for number in range(count)]


def machine_objects(
    machine: str,
    name: str,
    *,
    sick: Collection[int] = (),
    inventory: bool = True,
    labels: Mapping[str, str] | None = None,
) -> list[Raw]:
    """One node of a machine profile; without an inventory it is what a vendor's device plugin alone tells."""
    kind, _, word = machine.partition("/")
    if word not in _MODES:
        raise InputError(
            f"machine {machine!r}: {word!r} is no way to hand out devices: {', '.join(filter(None, _MODES))}"
        )
    made: list[Raw] = []
    for sight in fleet_node(profile(kind), name, mode=_MODES[word], sick=sick, inventory=inventory, labels=labels):
        if isinstance(sight, NodeView):
            made.append(_told(node_object(sight)))
        elif isinstance(sight, NodeObject) and isinstance(sight.document, dict):
            made.append(sight.document)
    return made


def _told(node: Raw) -> Raw:
    """The node with what kubelet tells of itself."""
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


def addresses_of(name: str) -> list[Raw]:
    """Where a node is reached, which is nowhere."""
    number = zlib.crc32(name.encode())
    return [
        {"type": "InternalIP", "address": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"},
        {"type": "Hostname", "address": name},
    ]


def make_fleet(store: Store, nodes: SimulatedNodes, fleet: Mapping[str, int]) -> Iterator[str]:
    """Make so many nodes of each machine profile, with what tells of their devices; their names, one by one."""
    for machine, count in fleet.items():
        names = node_names(machine, count)
        for first in names[:1]:
            objects = machine_objects(machine, first)
            yield nodes.add_node(objects)
            kinds = [store.database.kinds.for_object(document["apiVersion"], document["kind"]) for document in objects]
            made = [(kind, store.get(kind, first).data) for kind in kinds if kind]
            for name in names[1:]:
                for kind, data in made:
                    store.database.write(kind, _copy(data, first, name))
                yield name


def _copy(data: bytes, first: str, name: str) -> Raw:
    """The same under another name: what was checked of one holds for all."""
    document = cast("Raw", msgspec.json.decode(data.replace(first.encode("ascii"), name.encode("ascii"))))
    document["metadata"]["uid"] = str(uuid.uuid4())
    if document["kind"] == "Node":
        document["status"]["addresses"] = addresses_of(name)
    return document
