"""A Kubernetes node as its JSON tells it, as far as Linkwise reads it, and its view."""

from __future__ import annotations

import msgspec

from linkwise.model.views import NodeView, Taint
from linkwise.wire.kubernetes.metadata import Amounts, Meta, Struct, annotations_of, one, texts, version

__all__ = ["NodeObject", "node_view_of"]


class NodeTaint(Struct):
    """What keeps pods off a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeSpec(Struct):
    """What was set for a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class Condition(Struct):
    """Something that is so with a node, or is not, or is not known."""

    type: str = ""
    status: str = ""


class NodeStatus(Struct):
    """What a node tells of itself."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


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
    )
