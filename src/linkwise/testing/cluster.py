"""Small nodes and pods in a line each, as a watch would show them, for tests of the broker.

A box has devices `<name>-d0`, `<name>-d1`, ... under its inventory, and `#0`, `#1`, ... where only counts are told.

Pods of one group, for tests that read as sentences.
"""
# Joined from boxes, group_pods: one docstring for all.

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Wake
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, NAME as GANG, TOTAL
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.linkwise.inventory import KIND, SOURCE, inventory_object
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link import SELF, Link
from linkwise.model.topology import Topology
from linkwise.model.views import ContainerView, NodeView, PodView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.node import Mode
    from linkwise.model.settings import PlacingSettings

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
    "in_gang",
    "in_group",
    "place",
    "seen_bound",
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
    """One node: what it has, and how much of that is told."""

    name: str
    family: Family = "linked"
    count: int = 2
    memory: int = 16  # GiB of one device
    sick: frozenset[int] = frozenset()
    ready: bool = True
    registered: bool = True
    """whether its device plugin has told kubelet of the devices"""
    inventory: bool = True
    allocations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mode: Mode | None = None
    """of the inventory, where it is not the family's own"""
    ids: tuple[str, ...] = ()
    """of the devices, where they are not those of the box's name"""
    version: int = 0
    cpu: str = "64"
    closed: bool = False
    """whether it is told to take no more pods"""

    def device(self, index: int) -> str:
        """The id of a device in the inventory."""
        return self.ids[index] if self.ids else f"{self.name}-d{index}"

    def devices(self, *indices: int) -> tuple[str, ...]:
        """The ids of several."""
        return tuple(map(self.device, indices))

    def sights(self) -> tuple[WatchEvent, ...]:
        """The node, and its inventory or that there is none."""
        return (self.view(), self.told())

    def view(self) -> NodeView:
        """The node object."""
        amounts = {"cpu": self.cpu, "memory": "256Gi", "pods": "110", **self._resources(self.count)}
        usable = {**amounts, **self._resources(self.count - len(self.sick))}
        view = NodeView(self.name, capacity=amounts, allocatable=usable, ready=self.ready, version=self.version)
        return replace(view, unschedulable=self.closed)

    def told(self) -> NodeObject:
        """The inventory."""
        if not self.inventory:
            return NodeObject(self.name, KIND, None)
        size = 100 if self.family == "percent" else self.memory
        devices = tuple(
            Device(self.device(i), i, memory=size, healthy=i not in self.sick, bytes=self.memory * GIB)
            for i in range(self.count)
        )
        facts = NodeFacts(
            SOURCE,
            devices,
            self._topology(),
            "ascend-910" if self.family == "ring" else "",
            self.mode or MODES.get(self.family, "whole"),
            "%" if self.family == "percent" else "GiB",
            allocations=self.allocations,
        )
        return NodeObject(self.name, KIND, inventory_object(self.name, facts, enforced=True))

    def _resources(self, count: int) -> dict[str, str]:
        if not self.registered:
            return {}
        if self.family == "share":  # a sick device stays in the sum: its index says that it is sick
            return {MEMORY: str(self.count * self.memory), "aliyun.com/gpu-count": str(self.count)}
        if self.family == "percent":
            return {KOORDINATOR: str(100 * self.count)}
        return {WHOLE[self.family]: str(count)}

    def _topology(self) -> Topology:
        """Devices are joined in pairs; percents are told with measured bandwidth."""
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
    """A pod of one container that nobody has placed yet."""
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
    """The names of pods that are woken."""
    return [effect.name for effect in effects if isinstance(effect, Wake)]


def seen_bound(pod: PodView, bound: Bind) -> PodView:
    """The pod as the watch shows it after the bind was written."""
    keys = {**pod.annotations, **bound.annotations}
    return replace(pod, node=bound.node, annotations=keys, version=pod.version + 1)


def broker_of(*boxes: FakeNode, settings: PlacingSettings | None = None) -> Broker:
    """A broker that has seen these nodes."""
    broker = Broker(settings)
    broker.observe([sight for box in boxes for sight in box.sights()], 0.0)
    return broker


def place(broker: Broker, pod: PodView, node: str, now: float = 0.0) -> PodView:
    """Bind a pod to a node, write that and let the watch show it; the pod as it is then."""
    broker.observe([pod], now)
    answer = broker.bind(pod.uid, node, now)
    if answer.error:
        raise AssertionError(answer.error)
    (bound,) = binds(answer.effects)
    broker.outcome(bound, "written", now)
    seen = seen_bound(pod, bound)
    broker.observe([seen], now)
    return seen


def in_group(*pods: PodView, name: str = "g", total: int | None = None) -> list[PodView]:
    """The pods as members of a group that is no gang: of all of them, unless it is said to have more."""
    words = {NAME: name, REPLICA: str(total or len(pods))}
    return [replace(pod, labels=words, created=float(place)) for place, pod in enumerate(pods)]


def in_gang(*pods: PodView, least: int, name: str = "g", total: int | None = None, bundle: str = "") -> list[PodView]:
    """The pods as members of a gang; a bundle names the gangs that start together, with a space between."""
    words = {GANG: name, MINIMUM: str(least), TOTAL: str(total or len(pods))}
    words |= {GROUPS: json.dumps([f"default/{each}" for each in bundle.split()])} if bundle else {}
    return [replace(pod, annotations=words, created=float(place)) for place, pod in enumerate(pods)]


def woken_set(effects: Iterable[Effect]) -> set[str]:
    """Names of pods that are woken."""
    return {effect.name for effect in effects if isinstance(effect, Wake)}
