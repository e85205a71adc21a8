"""What a step of a scenario may expect, and how that is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import Wake
from linkwise.engine.reasons.catalog import refusal
from linkwise.errors import InputError
from linkwise.testing.scenario.group_expectations import Cast, events, group_waits, held_by_plans, told_to_admission
from linkwise.testing.scenario.vocabulary import only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.model.node import Node
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision, Runner

__all__ = ["EXPECTED", "Checks"]


class Checks:
    """One step, and the cluster after it."""

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
        """What would be gone once the pod is placed, as far as anybody wants to know."""
        if {"order", "why"} & set(expect):
            found = self.runner.broker.dry_run(pod, self.runner.now)
            self.order = [name for name, _ in found.ranking]
            self.why = {name: refusal(reason) for name, reason in found.refused.items()}
        self.refusal = self.runner.broker.admit(pod).refusal

    def check(self, expect: object) -> None:
        """Raise AssertionError for the first thing that is not as expected."""
        for key, wanted in only(expect, EXPECTED, "expect").items():
            found = EXPECTED[key](self, wanted)
            if found != wanted:
                raise AssertionError(f"{key}: expected {wanted!r}, found {found!r}{self._hint()}")

    def _hint(self) -> str:
        decision = self.decision
        if decision is None:
            return "".join(
                f"; {name} {f'is on {found.node}' if found.node else f'waits: {dict(found.reasons)}'}"
                for name, found in self.decisions.items()
            )
        return f"; {decision.pod} waits: {dict(decision.reasons)}" if not decision.node else f"; {decision}"

    def _node(self, name: str) -> Node:
        nodes = self.runner.broker.usage
        if name not in nodes:
            raise InputError(f"there is no node {name!r}; {', '.join(nodes)} are")
        return nodes[name]

    @property
    def decided(self) -> Decision:
        """What became of the pod that the step schedules."""
        if self.decision is None:
            raise InputError("only `schedule` and `assign` have such an answer")
        return self.decision

    def devices(self, wanted: object) -> object:
        """Indices: all of the pod's in one list, or by container, or by pod; or what a node's agent would hand out."""
        if self.preferred is not None:
            return self.preferred
        if isinstance(wanted, dict) and self.decision is None:
            return self.cast.devices(wanted)
        if isinstance(wanted, dict):
            return {held.container: list(held.indices) for held in self.decided.devices}
        return sorted({index for held in self.decided.devices for index in held.indices})

    def waits(self, wanted: object) -> object:
        """All reasons with the number of nodes that give them; or one that is expected, if any node gives it."""
        if self.decisions:
            return group_waits(self.decisions, wanted)
        reasons = dict(self.decided.reasons)
        return wanted if isinstance(wanted, str) and wanted in reasons else reasons

    def told(self, wanted: dict[str, str]) -> dict[str, str]:
        """Why nodes refuse the pod, in full, for those that are asked about; or why a group is not planned."""
        if self.decision is None:
            return {name: self.cast.told(name) for name in wanted}
        return {node: self.why.get(node, "it does not refuse the pod") for node in wanted}

    def annotations(self, wanted: dict[str, Any]) -> object:
        """What was written under these keys on the pod, or on those that are asked about."""
        if self.decision is None:
            return {name: self._written(self.cast.pods[name].uid, wanted[name]) for name in wanted}
        return self._written(self.decided.uid, wanted)

    def _written(self, uid: str, keys: Iterable[str]) -> dict[str, str | None]:
        pod = self.runner.pod(uid)
        return {key: pod.annotations.get(key) if pod else None for key in keys}

    def bottleneck(self, wanted: object) -> object:
        """The slowest link of what was given to the step's pod or group, or to those that are asked about."""
        if isinstance(wanted, dict):
            return {name: self.cast.bottleneck(name) for name in wanted}
        return self.cast.bottleneck(self.group or self.decided.pod)

    def plan(self, wanted: dict[str, Any]) -> object:
        """What the plan of the step's group is worth, or that of the groups that are asked about."""
        if self.group:
            return self.cast.plan(self.group, wanted)
        return {name: self.cast.plan(name, wanted[name]) for name in wanted}

    def wakes(self, _: object) -> list[str]:
        """Pods that are worth another try, by name."""
        return [effect.name for effect in self.effects if isinstance(effect, Wake)]

    def free(self, wanted: dict[str, int]) -> dict[str, int]:
        """Whole devices that a node has left."""
        nodes = map(self._node, wanted)
        return {node.name: max(0, len(node.free()) - node.unattributed) for node in nodes}

    def room(self, wanted: dict[str, list[int]]) -> dict[str, list[int]]:
        """What is left of each device of a node, in its unit."""
        return {node.name: list(node.room().values()) for node in map(self._node, wanted)}

    def drift(self, _: object) -> list[str]:
        """Which kinds of disagreement there are."""
        return [drift.kind for found in self.runner.broker.drift.values() for drift in found]


EXPECTED: Final[dict[str, Callable[[Checks, Any], object]]] = {
    "node": lambda checks, _: checks.decided.node,
    "devices": Checks.devices,
    "policy": lambda checks, _: checks.decided.policy,
    "score": lambda checks, wanted: {term: checks.decided.score.get(term) for term in wanted},
    "waits": Checks.waits,
    "why": Checks.told,
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
    "holds": lambda checks, _: held_by_plans(checks.runner),
    "events": lambda checks, wanted: events(checks.effects, wanted),
    "warned": lambda checks, wanted: told_to_admission(checks.cast, wanted),
}
