"""Expectations of a step: the table of keys, and how each is looked up in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import Event, Wake
from linkwise.engine.reasons import catalog
from linkwise.engine.reasons.catalog import refusal
from linkwise.engine.usage import resolved
from linkwise.errors import InputError
from linkwise.testing.scenario.vocabulary import only
from linkwise.topology.device_sets import mask_of
from linkwise.topology.fabric import fabric_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.model.node import Node
    from linkwise.model.verdict import Entry
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision, Runner

__all__ = ["EXPECTED", "Cast", "Checks", "admission_warnings", "events", "group_waits", "reserved_by_plans"]

NOTHING = "nothing"


class Checks:
    """The answers of one step, and the cluster after it."""

    def __init__(
        self,
        runner: Runner,
        pods: Mapping[str, PodView],
        groups: Mapping[str, Sequence[str]],
    ) -> None:
        self.runner = runner
        self.cast = Cast(runner, pods, groups)
        self.group = ""
        self.decisions: dict[str, Decision] = {}
        self.effects: Sequence[Effect] = ()
        self.decision: Decision | None = None
        self.preferred: list[int] | None = None
        self.helped: dict[str, list[str]] = {}
        self.order: list[str] = []
        self.why: dict[str, str] = {}
        self.refusal = ""

    def look_ahead(self, pod: PodView, expect: dict[str, Any]) -> None:
        """Record ranking and refusals before the pod is placed, if the step checks them."""
        if {"order", "why"} & set(expect):
            outlook = self.runner.broker.dry_run(pod, self.runner.now)
            self.order = [name for name, _ in outlook.ranking]
            self.why = {name: refusal(reason) for name, reason in outlook.refused.items()}
        self.refusal = self.runner.broker.admit(pod).refusal

    def check(self, expect: object) -> None:
        """Raise AssertionError for the first expectation that fails."""
        for key, wanted in only(expect, EXPECTED, "expect").items():
            actual = EXPECTED[key](self, wanted)
            if actual != wanted:
                raise AssertionError(f"{key}: expected {wanted!r}, found {actual!r}{self._hint()}")

    def _hint(self) -> str:
        decision = self.decision
        if decision is None:
            return "".join(
                f"; {name} {f'is on {each.node}' if each.node else f'is unschedulable: {dict(each.reasons)}'}"
                for name, each in self.decisions.items()
            )
        return f"; {decision.pod} is unschedulable: {dict(decision.reasons)}" if not decision.node else f"; {decision}"

    def _node(self, name: str) -> Node:
        nodes = self.runner.broker.usage
        if name not in nodes:
            raise InputError(f"unknown node {name!r}; the scenario has {', '.join(nodes) or 'none'}")
        return nodes[name]

    @property
    def decided(self) -> Decision:
        """The decision on the pod that the step schedules."""
        if self.decision is None:
            raise InputError("only the verbs schedule and assign have this answer")
        return self.decision

    def devices(self, wanted: object) -> object:
        """Indices of the pod's devices as a list, by container or by pod; or those that a node's agent would allocate."""
        if self.preferred is not None:
            return self.preferred
        if isinstance(wanted, dict) and self.decision is None:
            return self.cast.devices(wanted)
        if isinstance(wanted, dict):
            return {part.container: list(part.indices) for part in self.decided.devices}
        return sorted({index for part in self.decided.devices for index in part.indices})

    def waits(self, wanted: object) -> object:
        """All reasons with their numbers of nodes; or the expected one, if any node gives it."""
        if self.decisions:
            return group_waits(self.decisions, wanted)
        reasons = dict(self.decided.reasons)
        return wanted if isinstance(wanted, str) and wanted in reasons else reasons

    def refusals(self, wanted: dict[str, str]) -> dict[str, str]:
        """The refusals of the named nodes in full; or why the named groups have no plan."""
        if self.decision is None:
            return {name: self.cast.refusal(name) for name in wanted}
        return {node: self.why.get(node, "it does not refuse the pod") for node in wanted}

    def annotations(self, wanted: dict[str, Any]) -> object:
        """The values of these annotations, of the pod or of the named pods."""
        if self.decision is None:
            return {name: self._written(self.cast.pods[name].uid, wanted[name]) for name in wanted}
        return self._written(self.decided.uid, wanted)

    def _written(self, uid: str, keys: Iterable[str]) -> dict[str, str | None]:
        pod = self.runner.pod(uid)
        return {key: pod.annotations.get(key) if pod else None for key in keys}

    def bottleneck(self, wanted: object) -> object:
        """The bottleneck of the step's pod or group, or of the named ones."""
        if isinstance(wanted, dict):
            return {name: self.cast.bottleneck(name) for name in wanted}
        return self.cast.bottleneck(self.group or self.decided.pod)

    def plan(self, wanted: dict[str, Any]) -> object:
        """The value of the plan of the step's group, or of the named groups."""
        if self.group:
            return self.cast.plan(self.group, wanted)
        return {name: self.cast.plan(name, wanted[name]) for name in wanted}

    def wakes(self, _: object) -> list[str]:
        """Names of the pods that the step wakes."""
        return [effect.name for effect in self.effects if isinstance(effect, Wake)]

    def free(self, wanted: dict[str, int]) -> dict[str, int]:
        """The number of free whole devices of nodes."""
        nodes = map(self._node, wanted)
        return {node.name: max(0, len(node.free()) - node.unattributed) for node in nodes}

    def room(self, wanted: dict[str, list[int]]) -> dict[str, list[int]]:
        """The free amount of each device of nodes, in their unit."""
        return {node.name: list(node.room().values()) for node in map(self._node, wanted)}

    def drift(self, _: object) -> list[str]:
        """The kinds of drift between records."""
        return [drift.kind for node in self.runner.broker.drift.values() for drift in node]


EXPECTED: Final[dict[str, Callable[[Checks, Any], object]]] = {
    "node": lambda checks, _: checks.decided.node,
    "devices": Checks.devices,
    "policy": lambda checks, _: checks.decided.policy,
    "score": lambda checks, wanted: {term: checks.decided.score.get(term) for term in wanted},
    "waits": Checks.waits,
    "why": Checks.refusals,
    "order": lambda checks, _: checks.order,
    "refused": lambda checks, _: checks.refusal,
    "annotations": Checks.annotations,
    "wakes": Checks.wakes,
    "free": Checks.free,
    "room": Checks.room,
    "drift": Checks.drift,
    "helps": lambda checks, _: checks.helped,
    "nodes": lambda checks, wanted: checks.cast.nodes(wanted),
    "bottleneck": Checks.bottleneck,
    "plan": Checks.plan,
    "holds": lambda checks, _: reserved_by_plans(checks.runner),
    "events": lambda checks, wanted: events(checks.effects, wanted),
    "warned": lambda checks, wanted: admission_warnings(checks.cast, wanted),
}


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
