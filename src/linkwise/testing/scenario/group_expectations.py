"""What a step of a scenario may expect of a group: where its members are, what they have, how fast that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING

from linkwise.broker.effects import Event
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.usage import resolved
from linkwise.errors import InputError
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.model.ledger_entry import Entry
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision, Runner

__all__ = ["Cast", "events", "group_waits", "held_by_plans", "told_to_admission"]

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Cast:
    """The pods and groups of a story by name, and the cluster that they are in."""

    runner: Runner
    pods: Mapping[str, PodView] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def names(self, name: str) -> Sequence[str]:
        """The members of a group, or the pod itself."""
        if name not in self.groups and name not in self.pods:
            raise InputError(f"there is no pod and no group {name!r}")
        return self.groups.get(name, [name])

    def key(self, name: str) -> str:
        """What the book of groups calls it."""
        broker = self.runner.broker
        keys = dict.fromkeys(filter(None, (broker.group_of(self.pods[member].uid) for member in self.names(name))))
        return next(iter(keys), "")

    def nodes(self, wanted: Mapping[str, object]) -> dict[str, object]:
        """Where pods are; of a group all its nodes, or the one."""
        return {name: self._nodes(name, wanted[name]) for name in wanted}

    def _nodes(self, name: str, wanted: object) -> object:
        found = sorted({pod.node for pod in self._there(name) if pod.node})
        return found if isinstance(wanted, list) else ", ".join(found)

    def devices(self, wanted: Mapping[str, object]) -> dict[str, object]:
        """Indices of what pods hold; by container, if that is how it is expected."""
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
        stock = self.runner.broker.inventories[entry.node]
        return sorted(known[device] for device in resolved(stock, devices))

    def bottleneck(self, name: str) -> float | str:
        """The slowest link among the devices given, by each node's own samples; `none` where no two are on one node."""
        nodes: dict[str, set[str]] = {}
        for entry in self._entries(name):
            stock = self.runner.broker.inventories[entry.node]
            nodes.setdefault(entry.node, set()).update(resolved(stock, entry.grant.offer.devices))
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
        """What the last plan of the group is worth, level by level."""
        plan = self.runner.plans.get(self.key(name))
        levels = {level.name: [round(value, 2) for value in level.value] for level in plan.levels} if plan else {}
        return {
            level: levels[level][0] if level in levels and not isinstance(wanted[level], list) else levels.get(level)
            for level in wanted
        }

    def told(self, name: str) -> str:
        """Why the group is not planned, in full."""
        shortage = self.runner.broker.shortage(self.key(name))
        return refusal(shortage) if shortage else NOTHING

    def _there(self, name: str) -> list[PodView]:
        found = (self.runner.pod(self.pods[member].uid) for member in self.names(name))
        return [pod for pod in found if pod]

    def _entries(self, name: str) -> list[Entry]:
        broker = self.runner.broker
        found = (broker.entry(self.pods[member].uid) for member in self.names(name))
        return [entry for entry in found if entry and entry.state != "PLANNED"]


def group_waits(decisions: Mapping[str, Decision], wanted: object) -> object:
    """Why members wait: one text that all of them give, or one for each that is asked about."""
    waiting = {name: dict(decision.reasons) for name, decision in decisions.items() if not decision.node}
    if isinstance(wanted, dict):
        return {
            name: text if text in waiting.get(name, {}) else waiting.get(name, "it does not wait")
            for name, text in wanted.items()
        }
    return wanted if len(waiting) == len(decisions) and all(wanted in found for found in waiting.values()) else waiting


def held_by_plans(runner: Runner) -> dict[str, list[int]] | str:
    """Indices of the devices that plans hold, by node."""
    found: dict[str, list[int]] = {}
    for entry in runner.broker.entries():
        if entry.state == "PLANNED":
            known = {device.id: device.index for device in runner.broker.usage[entry.node].devices}
            found.setdefault(entry.node, []).extend(known[device] for device in entry.grant.offer.devices)
    return {node: sorted(indices) for node, indices in sorted(found.items())} or NOTHING


def events(effects: Sequence[Effect], wanted: object) -> object:
    """What people are told: all reasons, each once; or the reasons of those pods, or nodes, that are asked about."""
    found: dict[str, list[str]] = {}
    for effect in effects:
        if isinstance(effect, Event):
            found.setdefault(effect.name or effect.node, []).append(effect.reason)
    if isinstance(wanted, dict):
        return {name: found.get(name, []) for name in wanted}
    return list(dict.fromkeys(reason for reasons in found.values() for reason in reasons))


def told_to_admission(cast: Cast, wanted: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """What admission warns about."""
    broker = cast.runner.broker
    return {name: [str(problem) for problem in broker.admit(cast.pods[name]).warnings] for name in wanted}
