"""State machine of gated gangs: most pods come with the gate of gangs, and plans are written on them, late, in part or never.

The scheduler tries a pod only when it has no gate, and its nominated node first. A restart loses what is not written yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Steer
from linkwise.dialects.linkwise.group_plan import GATE, GROUP_PLAN, recorded_plans
from linkwise.model.settings import PlacingSettings, ReservationSettings
from linkwise.testing.cluster import seen_steered
from support.properties.broker_invariants import must
from support.properties.gang_world import GANG_WORLD_MOVES, GangChecks, GangWorld
from support.properties.model_api import ModelApi

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Bind, Effect
    from linkwise.model.views import PodView
    from support.properties.cluster_moves import Move

__all__ = ["GATED_WORLD_MOVES", "GatedWorld"]

LATER: Final = (0.0, 20.0, 40.0)  # seconds after which a new broker has planned whatever it can


class GatedApi(ModelApi):
    """The same, with a webhook that adds the gate to most new pods, and to some that are in no gang."""

    def put(self, pod: PodView) -> None:
        """A pod is made, or is different."""
        new = pod.uid not in self.pods and not pod.node
        super().put(replace(pod, gates=(*pod.gates, GATE)) if new and int(pod.uid[1:]) % 4 else pod)

    def bind(self, bound: Bind) -> bool:
        """Write a binding; a pod that has a gate is not bound."""
        pod = self.pods.get(bound.uid)
        if pod is None or pod.gates or pod.node or pod.deleting:
            return False
        self.pods[bound.uid] = replace(pod, nominated="")
        return super().bind(bound)


class GatedChecks(GangChecks):
    """The same checks, and those of gates."""

    _world: GatedWorld

    def all(self) -> None:
        """Everything that must be true between two steps."""
        super().all()
        for record in self.state.groups.records.values():
            lost = record.steered.keys() - record.members.pods.keys()
            must(not lost, f"what is written on {lost} is remembered, which are in no group")

    def steers(self, effect: Steer) -> None:
        """Only pods are steered that have the gate, or had it."""
        pod = self._world.api.pods.get(effect.uid)
        number = int(effect.uid[1:]) % 4
        must(number, f"{effect.uid} never had the gate and is steered")
        if pod and effect.gate:
            must(effect.gate == GATE, f"the gate {effect.gate} of somebody else is removed")

    def _carried(self, key: str, generation: int) -> set[str]:
        """Members of a plan, as the bound ones carry it, and those that carry their own placement."""
        carried = super()._carried(key, generation)
        for pod in self._world.api.unbound():
            record = recorded_plans(pod)[0] if GROUP_PLAN in pod.annotations and GATE not in pod.gates else None
            plan = record.groups.get(key) if record else None
            if plan and plan.generation == generation and self.state.groups.key_of(pod.uid) == key:
                carried |= plan.members.keys() & {pod.uid}
        return carried

    def settled(self) -> None:
        """No pod waits that a new broker could place, and no pod is gated that it would admit."""
        super().settled()
        stuck = {pod.uid for pod in self._world.api.unbound() if GATE in pod.gates and not pod.deleting}
        if not stuck or self._world.left_out or self.missing_inventories() or not self._world.names():
            return  # without nodes nothing is waited for
        fresh = Broker(self._world.settings)
        effects = list(fresh.observe(self._world.api.truth().values(), self._world.now))
        for time in LATER:
            effects += fresh.step(self._world.now + time, 1000)
        for effect in effects:
            if isinstance(effect, Steer) and effect.gate and effect.uid in stuck and not self._reserved_by_others():
                must(False, f"{effect.uid} is gated, and could be let in if everything was forgotten")  # noqa: FBT003

    def _reserved_by_others(self) -> bool:
        """Whether a plan holds devices that a new broker would not know of."""
        return bool(self.state.groups.plans)


class GatedWorld(GangWorld):
    """The same world with gates."""

    judge = GatedChecks
    checks: GatedChecks
    moves: ClassVar[Mapping[str, Move]] = {}

    def __init__(self, families: int, nodes: int, settings: int) -> None:
        self.steers: dict[str, Steer] = {}
        """by UID: what is to be written next on each pod"""
        super().__init__(families, nodes, settings)

    def _settings(self, number: int) -> PlacingSettings:
        """Without reservations: pods of this world are old enough for one from the beginning, and keep others waiting."""
        return replace(super()._settings(number), reservation=ReservationSettings(after=0.0))

    def new_api(self) -> ModelApi:
        """With a webhook."""
        return GatedApi()

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out; what is written on a pod wakes it too."""
        effects = tuple(effects)
        super().take(effects)
        for effect in effects:
            if isinstance(effect, Steer):
                self.checks.steers(effect)
                self.steers[effect.uid] = effect
                self.checks.woken.add(effect.uid)

    def filter_pod(self, pod: PodView, names: list[str]) -> None:
        """The scheduler asks for nodes for one pod, first about the nominated one."""
        if pod.nominated in names and len(names) > 1 and pod.nominated not in self.left_out.get(pod.uid, ()):
            super().filter_pod(pod, [pod.nominated])
            if self.offered[pod.uid]:
                return
        super().filter_pod(pod, names)

    def schedule(self, a: int, b: int, c: int) -> None:
        """A pod is placed, unless it has a gate."""
        pods = [pod for pod in self.api.unbound() if not pod.deleting]
        if pods and not pods[a % len(pods)].gates:
            super().schedule(a, b, c)

    def steer(self, a: int, _b: int, c: int) -> None:
        """Some of what is to be written is written, and perhaps observed."""
        self._write(1 + a % 3)
        if c % 3:
            self.see(self.api.deliver_all())

    def restart(self, a: int, b: int, c: int) -> None:
        """The same; what is not written is lost."""
        self._write(b % 4)
        self.steers.clear()
        super().restart(a, b, c)

    def is_quiet(self) -> bool:
        """Whether all plans are written."""
        return not self.steers

    def _land_all(self) -> None:
        super()._land_all()
        self._write_all()

    def _write_all(self) -> None:
        while self.steers:
            self._write(len(self.steers))
            self.see(self.api.deliver_all())

    def _write(self, count: int) -> None:
        for uid in list(self.steers)[:count]:
            effect, pod = self.steers.pop(uid), self.api.pods.get(uid)
            if pod and not pod.node and not pod.deleting and (new := seen_steered(pod, effect)) != pod:
                self.api.put(new)

    def _askable(self) -> list[PodView]:
        return [pod for pod in super()._askable() if not pod.gates]


GATED_WORLD_MOVES: Final[dict[str, Move]] = {
    **GANG_WORLD_MOVES,
    "steer": GatedWorld.steer,  # type: ignore[dict-item]  # of worlds with gates alone
    "schedule": GatedWorld.schedule,  # type: ignore[dict-item]  # of worlds with gates alone
    "restart": GatedWorld.restart,  # type: ignore[dict-item]  # of worlds with gates alone
}
GatedWorld.moves = GATED_WORLD_MOVES
