"""Expectations about groups: nodes, devices and bottleneck of their members, and what plans reserve."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.engine.reasons import catalog
from linkwise.engine.usage import resolved
from linkwise.errors import InputError
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.model.verdict import Entry
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision, Runner

__all__ = ["Cast", "admission_warnings", "events", "group_waits", "reserved_by_plans"]

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Cast:
    """The pods and groups of a scenario by name, and their cluster."""

    runner: Runner
    pods: Mapping[str, PodView] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def names(self, name: str) -> Sequence[str]:
        """The members of a group, or the pod itself."""
        if name not in self.groups and name not in self.pods:
            raise InputError(f"unknown pod or group {name!r}")
        return self.groups.get(name, [name])

    def key(self, name: str) -> str:
        """The key of the group in the broker."""
        broker = self.runner.broker
        keys = dict.fromkeys(filter(None, (broker.group_of(self.pods[member].uid) for member in self.names(name))))
        return next(iter(keys), "")

    def nodes(self, wanted: Mapping[str, object]) -> dict[str, object]:
        """The node of pods; for a group its nodes as a list, or joined by commas."""
        return {name: self._nodes(name, wanted[name]) for name in wanted}

    def _nodes(self, name: str, wanted: object) -> object:
        nodes = sorted({pod.node for pod in self._existing(name) if pod.node})
        return nodes if isinstance(wanted, list) else ", ".join(nodes)

    def devices(self, wanted: Mapping[str, object]) -> dict[str, object]:
        """Indices of the devices of pods; by container, if they are expected so."""
        return {name: self._devices(name, wanted[name]) for name in wanted}

    def _devices(self, name: str, wanted: object) -> object:
        entries = self._entries(name)
        if isinstance(wanted, dict):
            return {
                part.container: self._indices(entry, part.devices)
                for entry in entries
                for part in entry.grant.offer.parts
            }
        return sorted({index for entry in entries for index in self._indices(entry, entry.grant.offer.devices)})

    def _indices(self, entry: Entry, devices: Iterable[str]) -> list[int]:
        known = {device.id: device.index for device in self.runner.broker.usage[entry.node].devices}
        inventory = self.runner.broker.inventories[entry.node]
        return sorted(known[device] for device in resolved(inventory, devices))

    def bottleneck(self, name: str) -> float | str:
        """The slowest link among the devices of each node, in GB/s; `none` if no node has two of them."""
        nodes: dict[str, set[str]] = {}
        for entry in self._entries(name):
            inventory = self.runner.broker.inventories[entry.node]
            nodes.setdefault(entry.node, set()).update(resolved(inventory, entry.grant.offer.devices))
        slowest = min((self._slowest(node, devices) for node, devices in nodes.items()), default=float("inf"))
        return "none" if isinf(slowest) else round(slowest, 2)

    def _slowest(self, name: str, devices: set[str]) -> float:
        node = self.runner.broker.usage[name]
        places, topology = node.positions(), node.topology
        if topology is None:
            return 0.0 if len(devices) > 1 else float("inf")
        fabric = fabric_of(topology.bandwidth, topology.links)
        return fabric.bottleneck(mask_of(places[device] for device in devices))

    def plan(self, name: str, wanted: Mapping[str, object]) -> dict[str, object]:
        """The value of the group's latest plan, by level."""
        plan = self.runner.plans.get(self.key(name))
        levels = {level.name: [round(value, 2) for value in level.value] for level in plan.levels} if plan else {}
        return {
            level: levels[level][0] if level in levels and not isinstance(wanted[level], list) else levels.get(level)
            for level in wanted
        }

    def refusal(self, name: str) -> str:
        """Why the group has no plan, in full."""
        shortage = self.runner.broker.shortage(self.key(name))
        return catalog.refusal(shortage) if shortage else NOTHING

    def _existing(self, name: str) -> list[PodView]:
        pods = (self.runner.pod(self.pods[member].uid) for member in self.names(name))
        return [pod for pod in pods if pod]

    def _entries(self, name: str) -> list[Entry]:
        broker = self.runner.broker
        entries = (broker.entry(self.pods[member].uid) for member in self.names(name))
        return [entry for entry in entries if entry and entry.state != "PLANNED"]


def group_waits(decisions: Mapping[str, Decision], wanted: object) -> object:
    """Why members are pending: one text that all of them have, or one for each named member."""
    waiting = {name: dict(decision.reasons) for name, decision in decisions.items() if not decision.node}
    if isinstance(wanted, dict):
        return {
            name: text if text in waiting.get(name, {}) else waiting.get(name, "it is not pending")
            for name, text in wanted.items()
        }
    return (
        wanted if len(waiting) == len(decisions) and all(wanted in reasons for reasons in waiting.values()) else waiting
    )


def reserved_by_plans(runner: Runner) -> dict[str, list[int]] | str:
    """Indices of the devices that plans reserve, by node."""
    reserved: dict[str, list[int]] = {}
    for entry in runner.broker.entries():
        if entry.state == "PLANNED":
            known = {device.id: device.index for device in runner.broker.usage[entry.node].devices}
            reserved.setdefault(entry.node, []).extend(known[device] for device in entry.grant.offer.devices)
    return {node: sorted(indices) for node, indices in sorted(reserved.items())} or NOTHING


def events(effects: Sequence[Effect], wanted: object) -> object:
    """Reasons of the events: all, each once; or those of the named pods or nodes."""
    reasons: dict[str, list[str]] = {}
    for effect in effects:
        if isinstance(effect, Event):
            reasons.setdefault(effect.name or effect.node, []).append(effect.reason)
    if isinstance(wanted, dict):
        return {name: reasons.get(name, []) for name in wanted}
    return list(dict.fromkeys(reason for each in reasons.values() for reason in each))


def admission_warnings(cast: Cast, wanted: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The warnings of admission."""
    broker = cast.runner.broker
    return {name: [str(problem) for problem in broker.admit(cast.pods[name]).warnings] for name in wanted}
