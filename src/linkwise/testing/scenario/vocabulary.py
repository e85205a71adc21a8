"""The short forms of scenarios, turned into what a watch would show: nodes, pods, and devices that pods hold already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from linkwise.broker.cluster.cluster_objects import READ
from linkwise.broker.grant_writer import GrantWriter
from linkwise.broker.sample_nodes import fleet_node
from linkwise.broker.watch_events import ClusterObject, NodeObject
from linkwise.dialects.dialect import Writing
from linkwise.dialects.nvidia.dialect import TOPOLOGY, matrix_annotation
from linkwise.errors import InputError
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import NodeView
from linkwise.vendors.machines import linked, profile
from linkwise.wire.kubernetes.objects import node_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.view import BrokerView
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.device import Device
    from linkwise.model.views import PodView

__all__ = ["Words", "held", "named", "node_sights", "object_sight", "only", "pod_of", "taken_pods"]

Words = dict[str, Any]

NODE: Final = frozenset(
    {"name", "machine", "has", "manifest", "mode", "taken", "sick", "labels", "taints", "cpu", "links", "inventory"}
)
POD: Final = frozenset(
    {"name", "namespace", "asks", "containers", "cpu", "priority", "labels", "annotations", "selector", "manifest"}
    | {"owner", "scheduler", "gates"}
)
HOLDING: Final = frozenset({"node", "holds"})
MEMORY: Final = "aliyun.com/gpu-mem"
PERCENT: Final = "koordinator.sh/gpu"
WHOLE: Final = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "alpha.kubernetes.io/nvidia-gpu")


def only(words: object, known: Iterable[str], what: str) -> Words:
    """A mapping with no keys but the known ones."""
    if not isinstance(words, dict):
        raise InputError(f"{what}: a mapping is expected, found {words!r}")
    for key in words:
        if key not in known:
            raise InputError(f"{what}: {key!r} is not known; {', '.join(sorted(known))} are")
    return words


def named(words: Words, key: str, what: str) -> Any:  # noqa: ANN401 - raw YAML
    """What stands under a key that must be there."""
    if key not in words:
        raise InputError(f"{what}: {key!r} is missing")
    return words[key]


def node_sights(raw: object, sick: Iterable[int] | None = None) -> tuple[WatchEvent, ...]:
    """A node of a known machine, of a manifest, or of what it `has`; `sick` stands in the place of what it says."""
    words = only(raw, NODE, "node")
    broken = list(words.get("sick", ()) if sick is None else sick)
    if "machine" in words:
        name = named(words, "name", "node")
        view, *rest = fleet_node(
            profile(words["machine"]),
            name,
            mode=words.get("mode", "any"),
            sick=broken,
            inventory=words.get("inventory", True),
        )
    else:
        view, rest = node_view(_manifest(words)), []
        if broken:
            raise InputError(f"node {words.get('name')}: only a machine tells which of its devices are sick")
    if not isinstance(view, NodeView):
        raise TypeError(f"a node begins with its view, found {view!r}")
    return (_changed(view, words), *rest)


def _manifest(words: Words) -> Words:
    if "manifest" in words:
        return _document(words["manifest"], "Node")
    amounts = {"pods": "110", **_texts(named(words, "has", f"node {words.get('name')}"))}
    return {
        "metadata": {"name": named(words, "name", "node")},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _changed(view: NodeView, words: Words) -> NodeView:
    """The node with what its words add."""
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


def object_sight(raw: object) -> NodeObject | ClusterObject:
    """An object that is named after its node, or one that tells of groups or of the network."""
    document = _document(raw, "object")
    meta, kind = named(document, "metadata", "object"), named(document, "kind", "object")
    name = named(meta, "name", "object")
    full = f"{kind}.{str(document.get('apiVersion', '')).partition('/')[0]}"
    if full in READ:
        return ClusterObject(full, f"{meta['namespace']}/{name}" if "namespace" in meta else name, document)
    return NodeObject(name, kind, document)


def pod_of(raw: object, created: float, version: int) -> PodView:
    """A pod of a manifest or of the short form; its namespace and name stand for a UID."""
    words = only(raw, POD | HOLDING, "pod")
    document = _document(words["manifest"], "pod") if "manifest" in words else _pod(words)
    view = pod_view(document)
    return replace(view, uid=f"{view.namespace}/{view.name}", created=created, version=version, node="")


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


def held(broker: BrokerView, pod: PodView, node: str, indices: Iterable[int], now: float) -> PodView:
    """The pod as it is after these devices of the node were given to it, with all that would be written on it."""
    wish = broker.request(pod)
    if wish.ask is None:
        raise InputError(f"pod {pod.name}: it asks for no devices and can't hold any")
    devices = {device.index: device for device in _devices(broker, node)}
    left, parts = [devices[index].id for index in indices], list[Part]()
    for found in wish.ask.containers:
        count = found.devices or 1
        parts.append(Part(found.container, tuple(left[:count]), found.share, found.core))
        left = left[count:] if found.devices else left
    grant = Grant(pod.uid, wish.policy, Offer(node, tuple(parts)), mode=wish.ask.mode)
    known = {device.id: device for device in devices.values()}
    keys = GrantWriter().annotations(Writing(pod, grant, known, 0), wish.dialect, now)
    return replace(pod, node=node, annotations={**pod.annotations, **keys}, phase="Running")


def taken_pods(view: NodeView, taken: object) -> list[Words]:
    """Pods that hold what is taken of a node: whole devices, or so much of each."""
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
    if whole.startswith("huawei.com/"):  # not every number of these can be asked for at once
        return [{"name": f"on-{view.name}-{i}", "asks": {whole: 1}, "node": view.name, "holds": [i]} for i in taken]
    return [{"name": f"on-{view.name}", "asks": asks, "node": view.name, "holds": taken}] if taken else []


def _devices(broker: BrokerView, node: str) -> tuple[Device, ...]:
    if node not in broker.usage:
        raise InputError(f"node {node} is not there")
    return broker.usage[node].devices


def _document(raw: object, what: str) -> Words:
    found = yaml.safe_load(raw) if isinstance(raw, str) else raw
    if not isinstance(found, dict):
        raise InputError(f"{what}: a manifest is expected, found {raw!r}")
    return found


def _texts(amounts: object) -> dict[str, str]:
    if not isinstance(amounts, dict):
        raise InputError(f"amounts are written as {{resource: number}}, found {amounts!r}")
    return {str(name): str(amount) for name, amount in amounts.items()}
