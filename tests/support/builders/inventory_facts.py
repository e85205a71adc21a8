"""Builders of a node, the objects beside it and the inventory that results from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.cluster.inventory import merge_inventory
from linkwise.model.views import NodeView
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.inventory import NodeInventory

__all__ = [
    "AMD",
    "ASCEND",
    "COUNT",
    "GFD",
    "MEMORY",
    "NVIDIA",
    "TOPOLOGY",
    "card",
    "cards",
    "ids",
    "inventory",
    "keys",
    "listed",
    "matrix",
    "node",
    "stock",
    "words_of",
]

NVIDIA: Final = "nvidia.com/gpu"
AMD: Final = "amd.com/gpu"
ASCEND: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"
COUNT: Final = "aliyun.com/gpu-count"
TOPOLOGY: Final = "linkwise.dev/gpu-topology"
GFD: Final = {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.memory": "40960"}


def node(
    amounts: Mapping[str, str],
    allocatable: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> NodeView:
    """Node n1 with so much of everything, all of it allocatable unless said otherwise."""
    left = amounts if allocatable is None else allocatable
    return NodeView("n1", labels or {}, annotations or {}, capacity=amounts, allocatable=left)


def inventory(*devices: dict[str, object], allocations: Iterable[object] = (), **spec: object) -> dict[str, Any]:
    """A DeviceInventory of devices as `listed` makes them."""
    return {
        "metadata": {"name": "n1"},
        "spec": {"devices": list(devices), **spec},
        "status": {"allocations": list(allocations)},
    }


def listed(index: int, **fields: object) -> dict[str, object]:
    """A device as an inventory lists it."""
    return {"uuid": f"GPU-{index}", "index": index, "healthy": True, **fields}


def cards(*devices: dict[str, object], matrix: str = "", **fields: object) -> dict[str, Any]:
    """A Device object of devices as `card` makes them."""
    topologies = {"topologies": {"gpu": [{"name": "bandwidth", "topology": matrix}]}} if matrix else {}
    return {"spec": {"devices": list(devices), **topologies}, **fields}


def card(minor: int, **fields: object) -> dict[str, object]:
    """A device as Koordinator's Device lists it."""
    resources = {"koordinator.sh/gpu-memory": "16Gi", "koordinator.sh/gpu-memory-ratio": 100}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": True, "resources": resources, **fields}


def matrix(count: int, link: str = "NV2") -> str:
    """Links as an annotation tells them: the same between any two."""
    return json.dumps([["X" if i == j else link for j in range(count)] for i in range(count)])


def stock(view: NodeView, **objects: Mapping[str, object]) -> NodeInventory:
    """What comes of it; problems name the node, and devices stand in order, whatever it is."""
    found = merge_inventory(view, objects)
    must(all(problem.where == "node n1" for problem in found.problems), f"a problem is elsewhere: {found.problems}")
    places = [device.index for device in found.devices]
    must(places == sorted(places), f"out of order: {places}")
    return found


def keys(found: NodeInventory) -> list[str]:
    """What its problems are about."""
    return [problem.key for problem in found.problems]


def words_of(found: NodeInventory) -> set[str]:
    """The dialects alone."""
    return {word for word in found.words if "/" not in word}


def ids(found: NodeInventory) -> list[str]:
    """Its devices."""
    return [device.id for device in found.devices]
