"""Node objects, with the fields that Linkwise reads, and their view."""

from __future__ import annotations

import msgspec

from linkwise.model.views import NodeView, Taint
from linkwise.wire.kubernetes.metadata import Amounts, Meta, Struct, annotations_of, one, texts, version

__all__ = ["NodeObject", "node_view_of"]


class NodeTaint(Struct):
    """A taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeSpec(Struct):
    """Spec of a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class Condition(Struct):
    """A node condition; its status is True, False or Unknown."""

    type: str = ""
    status: str = ""


class Address(Struct):
    """An address of a node; its type is InternalIP, ExternalIP or Hostname."""

    type: str = ""
    address: str = ""


class NodeInfo(Struct):
    """Software of a node."""

    container_runtime_version: str = msgspec.field(default="", name="containerRuntimeVersion")


class NodeStatus(Struct):
    """Status of a node."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None
    node_info: NodeInfo = msgspec.field(default_factory=NodeInfo, name="nodeInfo")


class NodeObject(Struct):
    """A node."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def node_view_of(node: NodeObject) -> NodeView:
    """The view of a node."""
    ready = [condition.status for condition in node.status.conditions or () if condition.type == "Ready"]
    return NodeView(
        name=node.metadata.name,
        labels={one(key): one(value) for key, value in (node.metadata.labels or {}).items()},
        annotations=annotations_of(node.metadata),
        capacity=texts(node.status.capacity),
        allocatable=texts(node.status.allocatable),
        taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
        ready=ready not in (["False"], ["Unknown"]),
        version=version(node.metadata),
        runtime=one(node.status.node_info.container_runtime_version),
        address=next((each.address for each in node.status.addresses or () if each.type == "InternalIP"), ""),
    )
