"""Builders of nodes, pods and groups as watch events, for tests that drive a broker.

A node with an inventory has devices `<name>-d0`, `<name>-d1`, ...; without one its devices are counted and called `#0`,
`#1`, ....
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Steer, Wake
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, NAME as GANG, TOTAL
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.linkwise.group_plan import GATE
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_object
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link import SELF, Link
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from linkwise.model.topology import Topology
from linkwise.model.views import ContainerView, NodeTerm, NodeView, PodView, SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.node import Mode

__all__ = [
    "AMD",
    "ASCEND",
    "KOORDINATOR",
    "MEMORY",
    "NVIDIA",
    "FakeNode",
    "Family",
    "binds",
    "broker_of",
    "device_pod",
    "gated",
    "in_gang",
    "in_group",
    "place",
    "seen_bound",
    "seen_steered",
    "steers",
    "woken",
    "woken_set",
]

NVIDIA: Final = "nvidia.com/gpu"
AMD: Final = "amd.com/gpu"
ASCEND: Final = "huawei.com/Ascend910"
MEMORY: Final = "aliyun.com/gpu-mem"
KOORDINATOR: Final = "koordinator.sh/gpu"

Family = Literal["linked", "amd", "ring", "share", "percent"]
MODES: Final[Mapping[Family, Mode]] = {"share": "share", "percent": "percent"}
WHOLE: Final[Mapping[Family, str]] = {"linked": NVIDIA, "amd": AMD, "ring": ASCEND}
GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class FakeNode:
    """One node with devices; every field has a default, and `dataclasses.replace` makes variants."""

    name: str
    family: Family = "linked"
    count: int = 2
    memory: int = 16  # GiB per device
    unhealthy: frozenset[int] = frozenset()
    unreachable: frozenset[int] = frozenset()
    """chips of a node of family `ring` that other nodes can't reach, as Huawei's device plugin lists them"""
    ready: bool = True
    registered: bool = True
    """whether its device plugin has registered with kubelet"""
    inventory: bool = True
    """whether it has a DeviceInventory"""
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """device ids by pod UID, as the node's agent reports them"""
    mode: Mode | None = None
    """sharing mode of the inventory; that of the family by default"""
    ids: tuple[str, ...] = ()
    """device ids, instead of those made from the name"""
    version: int = 0
    cpu: str = "64"
    cordoned: bool = False
    model: str = ""
    """of its devices"""
    models: tuple[str, ...] = ()
    """of each device, instead of one for all"""
    facts: Mapping[str, str] = field(default_factory=dict)
    """of the node: driver, cuda"""
    enforced: bool = True
    """whether the agent's own device plugin allocates the devices"""

    def device(self, index: int) -> str:
        """The id of a device in the inventory."""
        return self.ids[index] if self.ids else f"{self.name}-d{index}"

    def devices(self, *indices: int) -> tuple[str, ...]:
        """The ids of several devices."""
        return tuple(map(self.device, indices))

    def indices(self) -> dict[str, str]:
        """The ids of all devices, with the names that they have without an inventory."""
        return {self.device(index): f"#{index}" for index in range(self.count)}

    def events(self) -> tuple[WatchEvent, ...]:
        """The watch events of the node and of its inventory, present or absent."""
        return (self.view(), self.inventory_object())

    def view(self) -> NodeView:
        """The node object."""
        amounts = {"cpu": self.cpu, "memory": "256Gi", "pods": "110", **self._resources(self.count)}
        usable = {**amounts, **self._resources(self.count - len(self.unhealthy))}
        view = NodeView(self.name, capacity=amounts, allocatable=usable, ready=self.ready, version=self.version)
        listed = ",".join(f"Ascend910-{index}" for index in sorted(self.unreachable))
        annotations = {f"{ASCEND}-NetworkUnhealthy": listed} if listed else {}
        return replace(view, unschedulable=self.cordoned, annotations=annotations)

    def inventory_object(self) -> NodeObject:
        """The watch event of the inventory, or of its absence."""
        if not self.inventory:
            return NodeObject(self.name, KIND, None)
        size = 100 if self.family == "percent" else self.memory
        devices = tuple(
            Device(
                self.device(i),
                i,
                model=self.models[i] if self.models else self.model,
                memory=size,
                healthy=i not in self.unhealthy,
                bytes=self.memory * GIB,
            )
            for i in range(self.count)
        )
        facts = NodeFacts(
            SOURCE,
            devices,
            self._topology(),
            "ascend-910" if self.family == "ring" else "",
            self.mode or MODES.get(self.family, "whole"),
            "%" if self.family == "percent" else "GiB",
            labels=self.facts,
            allocations=self.allocations,
        )
        return NodeObject(self.name, KIND, inventory_object(self.name, facts, enforced=self.enforced))

    def _resources(self, count: int) -> dict[str, str]:
        if not self.registered:
            return {}
        if self.family == "share":  # an unhealthy device stays in the sum: its health is reported by index
            return {MEMORY: str(self.count * self.memory), "aliyun.com/gpu-count": str(self.count)}
        if self.family == "percent":
            return {KOORDINATOR: str(100 * self.count)}
        return {WHOLE[self.family]: str(count)}

    def _topology(self) -> Topology:
        """Neighbouring pairs of devices are linked; nodes shared by percent have measured bandwidth."""
        places = range(self.count)
        if self.family == "percent":
            speeds = tuple(
                tuple(700.0 if i == j else 96.0 if i // 2 == j // 2 else 17.0 for j in places) for i in places
            )
            return Topology(self.devices(*places), bandwidth=speeds)
        near, far = Link("NV2+PHB"), Link("SYS")
        links = tuple(tuple(SELF if i == j else near if i // 2 == j // 2 else far for j in places) for i in places)
        return Topology(self.devices(*places), links=links)


def device_pod(  # noqa: PLR0913 - a builder: every field has a default
    name: str,
    amount: int | str = 1,
    resource: str = NVIDIA,
    *,
    uid: str = "",
    namespace: str = "default",
    created: float = 0.0,
    cpu: str = "",
    priority: int = 0,
) -> PodView:
    """An unscheduled pod of one container."""
    limits = {resource: str(amount), **({"cpu": cpu} if cpu else {})}
    main = ContainerView("main", limits=limits)
    return PodView(
        namespace,
        name,
        uid or f"uid-{name}",
        (main,),
        version=1,
        created=created,
        priority=priority,
        scheduler="linkwise",
    )


def binds(effects: Iterable[Effect]) -> list[Bind]:
    """The binds among effects."""
    return [effect for effect in effects if isinstance(effect, Bind)]


def woken(effects: Iterable[Effect]) -> list[str]:
    """Names of the pods that effects wake, in order."""
    return [effect.name for effect in effects if isinstance(effect, Wake)]


def seen_bound(pod: PodView, bound: Bind) -> PodView:
    """The pod as the watch delivers it once the bind is written."""
    keys = {**pod.annotations, **bound.annotations}
    return replace(pod, node=bound.node, annotations=keys, version=pod.version + 1)


def steers(effects: Iterable[Effect]) -> list[Steer]:
    """The plans that are written on pending members, and the gates that are removed, among effects."""
    return [effect for effect in effects if isinstance(effect, Steer)]


def seen_steered(pod: PodView, steer: Steer) -> PodView:
    """The pod as the watch delivers it once its plan is written and its gate removed."""
    keys = {key: text for key, text in {**pod.annotations, **steer.annotations}.items() if text}
    gates = tuple(gate for gate in pod.gates if gate != steer.gate)
    nominated = pod.nominated if steer.node is None else steer.node
    seen = replace(pod, annotations=keys, gates=gates, nominated=nominated, version=pod.version + 1)
    if not steer.pin:
        return seen
    name = SelectorRequirement("metadata.name", "In", (steer.pin,))
    terms = [replace(term, fields=(*term.fields, name)) for term in pod.affinity or ()]
    return replace(seen, affinity=tuple(terms) or (NodeTerm(fields=(name,)),))


def broker_of(*nodes: FakeNode, settings: PlacingSettings | None = None) -> Broker:
    """A broker that has observed these nodes; without settings it evicts no pods for others."""
    broker = Broker(settings or PlacingSettings(preemption=PreemptionSettings(evict=False)))
    broker.observe([event for node in nodes for event in node.events()], 0.0)
    return broker


def place(broker: Broker, pod: PodView, node: str, now: float = 0.0) -> PodView:
    """Bind a pod to a node, report the bind as written and observe it; returns the bound pod."""
    broker.observe([pod], now)
    answer = broker.bind(pod.uid, node, now)
    if answer.error:
        raise AssertionError(answer.error)
    (bound,) = binds(answer.effects)
    broker.outcome(bound, "written", now)
    bound_pod = seen_bound(pod, bound)
    broker.observe([bound_pod], now)
    return bound_pod


def in_group(*pods: PodView, name: str = "g", total: int | None = None) -> list[PodView]:
    """The pods as members of a group that is not a gang; `total` if the group has more members than these."""
    labels = {NAME: name, REPLICA: str(total or len(pods))}
    return [replace(pod, labels=labels, created=float(index)) for index, pod in enumerate(pods)]


def in_gang(*pods: PodView, least: int, name: str = "g", total: int | None = None, bundle: str = "") -> list[PodView]:
    """The pods as members of a gang; `bundle` names the gangs that start together, separated by spaces."""
    annotations = {GANG: name, MINIMUM: str(least), TOTAL: str(total or len(pods))}
    annotations |= {GROUPS: json.dumps([f"default/{each}" for each in bundle.split()])} if bundle else {}
    return [replace(pod, annotations=annotations, created=float(index)) for index, pod in enumerate(pods)]


def gated(pods: Iterable[PodView], *others: str) -> list[PodView]:
    """The pods with the gate that the webhook adds to members of gangs, and perhaps those of others."""
    return [replace(pod, gates=(GATE, *others)) for pod in pods]


def woken_set(effects: Iterable[Effect]) -> set[str]:
    """Names of the pods that effects wake, where the order does not matter."""
    return {effect.name for effect in effects if isinstance(effect, Wake)}
