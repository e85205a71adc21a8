"""Short forms of a scenario: its nodes, pods and groups as watch events, and the steps that change nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.broker.cluster.objects import READ
from linkwise.broker.grant_writer import GrantWriter
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject
from linkwise.dialects.dialect import Writing
from linkwise.dialects.groups.koordinator_gang import MINIMUM, NAME as GANG
from linkwise.dialects.groups.membership import NAME, RANKS, REPLICA
from linkwise.dialects.nvidia import TOPOLOGY, matrix_annotation
from linkwise.errors import InputError
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import NodeView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import linked, profile
from linkwise.wire.kubernetes.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.broker import BrokerView
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.device import Device
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Runner

__all__ = [
    "GROUP",
    "Nodes",
    "Words",
    "bound_pod",
    "group_name",
    "members_of",
    "named",
    "node_events",
    "object_event",
    "only",
    "pod_of",
    "taken_pods",
]

Words = dict[str, Any]

NODE: Final = frozenset(
    {
        "name",
        "machine",
        "has",
        "manifest",
        "mode",
        "taken",
        "unhealthy",
        "labels",
        "taints",
        "cpu",
        "links",
        "inventory",
    }
)
POD: Final = frozenset(
    {"name", "namespace", "asks", "containers", "cpu", "priority", "labels", "annotations", "selector", "manifest"}
    | {"owner", "scheduler", "gates"}
)
HOLDING: Final = frozenset({"node", "holds"})
MEMORY: Final = "aliyun.com/gpu-mem"
PERCENT: Final = "koordinator.sh/gpu"
WHOLE: Final = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "alpha.kubernetes.io/nvidia-gpu")
GROUP: Final = frozenset({"group", "members", "replica", "gang", "ranks"})
"""keys of the group itself; all others are keys of its members"""
MEMBER: Final = POD | HOLDING | {"count"}


def only(words: object, known: Iterable[str], what: str) -> Words:
    """The mapping, if it has known keys alone."""
    if not isinstance(words, dict):
        raise InputError(f"{what}: expected a mapping, found {words!r}")
    for key in words:
        if key not in known:
            raise InputError(f"{what}: unknown key {key!r}; use {', '.join(sorted(known))}")
    return words


def named(words: Words, key: str, what: str) -> Any:  # noqa: ANN401 - raw YAML
    """The value of a required key."""
    if key not in words:
        raise InputError(f"{what}: {key!r} is missing")
    return words[key]


def node_events(raw: object, unhealthy: Iterable[int] | None = None) -> tuple[WatchEvent, ...]:
    """The watch events of a node given as a machine, a manifest or amounts; the argument `unhealthy` overrides its own list."""
    words = only(raw, NODE, "node")
    broken = list(words.get("unhealthy", ()) if unhealthy is None else unhealthy)
    if "machine" in words:
        name = named(words, "name", "node")
        view, *rest = fleet_node(
            profile(words["machine"]),
            name,
            mode=words.get("mode", "any"),
            unhealthy=broken,
            inventory=words.get("inventory", True),
        )
    else:
        view, rest = node_view(_manifest(words)), []
        if broken:
            raise InputError(f"node {words.get('name')}: only nodes of a machine report the health of their devices")
    if not isinstance(view, NodeView):
        raise TypeError(f"expected the view of a node first, found {view!r}")
    return (_changed(view, words), *rest)


def object_event(raw: object) -> NodeObject | ClusterObject:
    """The watch event of an object that is named after its node, or describes groups or the network."""
    document = _document(raw, "object")
    meta, kind = named(document, "metadata", "object"), named(document, "kind", "object")
    name = named(meta, "name", "object")
    full = f"{kind}.{str(document.get('apiVersion', '')).partition('/')[0]}"
    if full in READ:
        return ClusterObject(full, f"{meta['namespace']}/{name}" if "namespace" in meta else name, document)
    return NodeObject(name, kind, document)


def pod_of(raw: object, created: float, version: int) -> PodView:
    """A pod from a manifest or its short form; namespace and name make its UID."""
    words = only(raw, POD | HOLDING, "pod")
    document = _document(words["manifest"], "pod") if "manifest" in words else _pod(words)
    view = pod_view(document)
    return replace(view, uid=f"{view.namespace}/{view.name}", created=created, version=version, node="")


def bound_pod(broker: BrokerView, pod: PodView, node: str, indices: Iterable[int], now: float) -> PodView:
    """The pod bound to these devices of a node, with the annotations that Linkwise would write."""
    request = broker.request(pod)
    if request.ask is None:
        raise InputError(f"pod {pod.name}: it requests no devices and can't hold any")
    devices = {device.index: device for device in _devices(broker, node)}
    left, parts = [devices[index].id for index in indices], list[Part]()
    for container in request.ask.containers:
        count = container.devices or 1
        parts.append(Part(container.container, tuple(left[:count]), container.share, container.core))
        left = left[count:] if container.devices else left
    grant = Grant(pod.uid, request.policy, Offer(node, tuple(parts)), mode=request.ask.mode)
    known = {device.id: device for device in devices.values()}
    keys = GrantWriter().annotations(Writing(pod, grant, known, 0), request.dialect, now)
    return replace(pod, node=node, annotations={**pod.annotations, **keys}, phase="Running")


def taken_pods(view: NodeView, taken: object) -> list[Words]:
    """Pods that hold the devices of a node listed as `taken`: whole devices, or an amount of each."""
    if isinstance(taken, dict):
        resource = MEMORY if MEMORY in view.capacity else PERCENT
        return [
            {"name": f"on-{view.name}-{index}", "asks": {resource: amount}, "node": view.name, "holds": [index]}
            for index, amount in taken.items()
        ]
    whole = next((name for name in WHOLE if name in view.capacity), "")
    if not whole or not isinstance(taken, list):
        raise InputError(f"node {view.name}: taken: write [0, 1] for whole devices, {{0: 4, 1: 8}} for parts of them")
    asks = {whole: len(taken)}
    if whole.startswith("huawei.com/"):  # a request for these must be for 1, 2, 4 or 8
        return [{"name": f"on-{view.name}-{i}", "asks": {whole: 1}, "node": view.name, "holds": [i]} for i in taken]
    return [{"name": f"on-{view.name}", "asks": asks, "node": view.name, "holds": taken}] if taken else []


class Nodes:
    """The nodes of a scenario by name, and the runner that observes them."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.nodes: dict[str, Words] = {}
        self.unhealthy: dict[str, set[int]] = {}
        self.allocated: dict[str, dict[str, list[int]]] = {}
        """indices of the devices that the agent reports as allocated, by node and pod UID"""

    def join(self, raw: object) -> None:
        """A node joins the cluster."""
        events = node_events(raw)
        view = next(event for event in events if isinstance(event, NodeView))
        words = dict(raw) if isinstance(raw, dict) else {}
        self.nodes[view.name] = words
        self.unhealthy[view.name] = set(words.get("unhealthy", ()))
        self.runner.show(*events)

    def leave(self, name: str) -> None:
        """A node leaves the cluster."""
        self.runner.show(NodeGone(self.node(name).name))

    def change(self, raw: object) -> None:
        """A node changes: labels, taints, CPU, or any other of its keys."""
        words = dict(raw) if isinstance(raw, dict) else {}
        name = self.node(named(words, "name", "change")).name
        self.nodes[name] |= words
        self.runner.show(*node_events(self.nodes[name], self.unhealthy[name]))

    def cordon(self, name: str) -> None:
        """A node is cordoned."""
        self.runner.show(replace(self.node(name), unschedulable=True))

    def uncordon(self, name: str) -> None:
        """A node is uncordoned."""
        self.runner.show(replace(self.node(name), unschedulable=False))

    def fail(self, name: str) -> None:
        """A node becomes not ready; pods that run there stay bound."""
        self.runner.show(replace(self.node(name), ready=False))

    def recover(self, name: str) -> None:
        """A node becomes ready again."""
        self.runner.show(replace(self.node(name), ready=True))

    def break_device(self, words: object) -> None:
        """A device becomes unhealthy."""
        node, device = _device(words)
        self.unhealthy.setdefault(node, set()).add(device)
        self.report_inventory(node)

    def repair_device(self, words: object) -> None:
        """A device becomes healthy again."""
        node, device = _device(words)
        self.unhealthy.setdefault(node, set()).discard(device)
        self.report_inventory(node)

    def report_inventory(self, node: str) -> None:
        """The node's inventory is written again."""
        events = node_events(self.nodes[self.node(node).name], self.unhealthy[node])
        inventory = [self._with_allocations(event) for event in events if isinstance(event, NodeObject)]
        if not inventory:
            raise InputError(f"node {node} has no inventory to report the health of its devices in")
        self.runner.show(*inventory)

    def node(self, name: str) -> NodeView:
        """The node as the cluster has it."""
        node = self.runner.broker.nodes.get(name)
        if node is None:
            raise InputError(f"unknown node {name!r}; the scenario has {', '.join(self.nodes) or 'none'}")
        return node

    def _with_allocations(self, event: NodeObject) -> NodeObject:
        ids = {device.index: device.id for device in self.runner.broker.usage[event.node].devices}
        allocations = [
            {"podUID": uid, "devices": [ids[index] for index in indices]}
            for uid, indices in self.allocated.get(event.node, {}).items()
        ]
        document = event.document if isinstance(event.document, dict) else {}
        return replace(event, document={**document, "status": {"allocations": allocations}}) if allocations else event


def group_name(raw: object) -> str:
    """The name of the group; empty for the short form of a single pod."""
    words = raw if isinstance(raw, dict) else {}
    namespace, name = words.get("namespace", "default"), words.get("group", "")
    return name if namespace == "default" or not name else f"{namespace}/{name}"


def members_of(raw: object) -> list[Words]:
    """The pods of a group, each in the short form of a pod."""
    words = only(raw, GROUP | POD, "group")
    shared = {key: value for key, value in words.items() if key not in GROUP}
    members = list(_each(named(words, "members", "group")))
    total = words.get("replica", len(members))
    return [
        {
            **shared,
            "name": f"{words['group']}-{number}",
            **own,
            "labels": {NAME: words["group"], REPLICA: str(total), **_labels(shared), **_labels(own)},
            "annotations": {**_group_annotations(words, number), **_annotations(shared), **_annotations(own)},
        }
        for number, own in enumerate(members)
    ]


def _manifest(words: Words) -> Words:
    if "manifest" in words:
        return _document(words["manifest"], "Node")
    amounts = {"pods": "110", **_texts(named(words, "has", f"node {words.get('name')}"))}
    return {
        "metadata": {"name": named(words, "name", "node")},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _document(raw: object, what: str) -> Words:
    document = yaml.safe_load(raw) if isinstance(raw, str) else raw
    if not isinstance(document, dict):
        raise InputError(f"{what}: expected a manifest, found {raw!r}")
    return document


def _texts(amounts: object) -> dict[str, str]:
    if not isinstance(amounts, dict):
        raise InputError(f"expected amounts as {{resource: number}}, found {amounts!r}")
    return {str(name): str(amount) for name, amount in amounts.items()}


def _changed(view: NodeView, words: Words) -> NodeView:
    """The node with the labels, taints, CPU and links of its words."""
    cpu = {"cpu": str(words["cpu"])} if "cpu" in words else {}
    links = {TOPOLOGY: matrix_annotation(linked(words["links"]))} if "links" in words else {}
    tainted = node_view({"spec": {"taints": words.get("taints", [])}}).taints
    return replace(
        view,
        labels={**view.labels, **words.get("labels", {})},
        annotations={**view.annotations, **links},
        capacity={**view.capacity, **cpu},
        allocatable={**view.allocatable, **cpu},
        taints=(*view.taints, *tainted),
    )


def _pod(words: Words) -> Words:
    asks = words.get("containers") or {"main": words.get("asks", {})}
    cpu = {"cpu": str(words["cpu"])} if "cpu" in words else {}
    containers = [
        {"name": name, "resources": {"limits": _texts(amounts), "requests": {**_texts(amounts), **cpu}}}
        for name, amounts in asks.items()
    ]
    meta = {key: words[key] for key in ("namespace", "labels", "annotations") if key in words}
    owner = words.get("owner")
    made_by = [{"kind": "Job", "name": owner, "uid": f"uid-of-{owner}", "controller": True}] if owner else []
    return {
        "metadata": {"name": named(words, "name", "pod"), "ownerReferences": made_by, **meta},
        "spec": {
            "containers": containers,
            "priority": words.get("priority", 0),
            "nodeSelector": words.get("selector", {}),
            "schedulerName": words.get("scheduler", ""),
            "schedulingGates": [{"name": gate} for gate in words.get("gates", ())],
        },
    }


def _devices(broker: BrokerView, node: str) -> tuple[Device, ...]:
    if node not in broker.usage:
        raise InputError(f"node {node} does not exist")
    return broker.usage[node].devices


def _device(words: object) -> tuple[str, int]:
    place = only(words, {"node", "device"}, "device")
    return named(place, "node", "device"), named(place, "device", "device")


def _each(members: object) -> Iterator[Words]:
    """The keys of each member; none where `members` is a number."""
    if isinstance(members, int):
        yield from ({} for _ in range(members))
        return
    if not isinstance(members, list):
        raise InputError(f"members: expected a number or a list of members, found {members!r}")
    for raw in members:
        own = dict(only(raw, MEMBER, "member"))
        for _ in range(own.pop("count", 1)):
            yield dict(own)


def _labels(words: Words) -> dict[str, Any]:
    return words.get("labels") or {}


def _group_annotations(words: Words, number: int) -> dict[str, str]:
    gang = {GANG: words["group"], MINIMUM: str(words["gang"])} if "gang" in words else {}
    return {**gang, **({RANKS[0]: str(number)} if words.get("ranks") else {})}


def _annotations(words: Words) -> dict[str, Any]:
    return words.get("annotations") or {}
