"""A whole fleet at once: of each machine one node is made as the API makes it, and the others are its copies."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

import msgspec

from linkwise.embedded.nodes.machines import addresses_of, machine_objects, node_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.embedded.nodes.kubelet import SimulatedNodes
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.store import Store

__all__ = ["make_fleet"]


def make_fleet(store: Store, nodes: SimulatedNodes, fleet: Mapping[str, int]) -> Iterator[str]:
    """Make so many nodes of each machine profile, with what tells of their devices; their names, one by one."""
    for machine, count in fleet.items():
        names = node_names(machine, count)
        for first in names[:1]:
            objects = machine_objects(machine, first)
            yield nodes.add_node(objects)
            kinds = [store.shelves.kinds.of(document["apiVersion"], document["kind"]) for document in objects]
            made = [(kind, store.get(kind, first).data) for kind in kinds if kind]
            for name in names[1:]:
                for kind, data in made:
                    store.shelves.write(kind, _copy(data, first, name))
                yield name


def _copy(data: bytes, first: str, name: str) -> Raw:
    """The same under another name: what was checked of one holds for all."""
    document = cast("Raw", msgspec.json.decode(data.replace(first.encode("ascii"), name.encode("ascii"))))
    document["metadata"]["uid"] = str(uuid.uuid4())
    if document["kind"] == "Node":
        document["status"]["addresses"] = addresses_of(name)
    return document
