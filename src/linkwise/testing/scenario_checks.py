"""What a step of a scenario may expect, and how that is looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from linkwise.broker.effects import Wake
from linkwise.engine.explain import refusal
from linkwise.errors import InputError
from linkwise.testing.scenario_words import only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.broker.effects import Effect
    from linkwise.broker.replay import Decision, Runner
    from linkwise.model.node import Node
    from linkwise.model.views import PodView

__all__ = ["EXPECTED", "Checks"]


class Checks:
    """One step, and the cluster after it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.effects: Sequence[Effect] = ()
        self.decision: Decision | None = None
        self.preferred: list[int] | None = None
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
            return ""
        return f"; {decision.pod} waits: {dict(decision.reasons)}" if not decision.node else f"; {decision}"

    def _node(self, name: str) -> Node:
        nodes = self.runner.broker.state.cluster.index.nodes
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
        """Indices: all of the pod's in one list, or by container; or those that a node's agent would hand out."""
        if self.preferred is not None:
            return self.preferred
        if isinstance(wanted, dict):
            return {held.container: list(held.indices) for held in self.decided.devices}
        return sorted({index for held in self.decided.devices for index in held.indices})

    def waits(self, wanted: object) -> object:
        """All reasons with the number of nodes that give them; or one that is expected, if any node gives it."""
        reasons = dict(self.decided.reasons)
        return wanted if isinstance(wanted, str) and wanted in reasons else reasons

    def told(self, wanted: dict[str, str]) -> dict[str, str]:
        """Why nodes refuse the pod, in full, for those that are asked about."""
        return {node: self.why.get(node, "it does not refuse the pod") for node in wanted}

    def annotations(self, wanted: dict[str, str]) -> dict[str, str | None]:
        """What was written on the pod under these keys."""
        pod = self.runner.pod(self.decided.uid)
        return {key: pod.annotations.get(key) if pod else None for key in wanted}

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
        return [drift.kind for found in self.runner.broker.state.cluster.drift.values() for drift in found]


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
}
