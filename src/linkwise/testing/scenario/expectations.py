"""Expectations of a step: the table of keys, and how each is looked up in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import Wake
from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.testing.scenario.group_expectations import (
    Cast,
    admission_warnings,
    events,
    group_waits,
    reserved_by_plans,
)
from linkwise.testing.scenario.vocabulary import only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.model.node import Node
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision, Runner

__all__ = ["EXPECTED", "Checks"]


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
