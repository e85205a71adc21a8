"""State machine with groups: gangs, bundles, late and lost members, plans that are written, break and expire."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Evict
from linkwise.broker.groups.stale_gangs import has_begun
from linkwise.model.settings import GroupSettings, PlacingSettings, PreemptionSettings
from support.properties.broker_invariants import must
from support.properties.broker_world import MOVES, World
from support.properties.cluster_moves import OURS, one_of
from support.properties.group_invariants import GroupChecks
from support.properties.group_moves import GROUP_MOVES, begin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView
    from support.properties.cluster_moves import Move

__all__ = ["GROUP_WORLD_MOVES", "GroupWorld"]

SETTINGS: Final = (
    GroupSettings(),
    GroupSettings(write_plans=False),
    GroupSettings(steps=3),
    GroupSettings(models="any", steps=1, order="seed"),
    GroupSettings(evict_half_bound=True, by_owner=True, hold=10.0, longest_hold=10.0),
    GroupSettings(owners={"*": "gang"}, steps=3),
    GroupSettings(evict_half_bound=True, steps=3, hold=10.0, longest_hold=20.0),
)
LONG: Final = 700.0  # seconds; longer than any plan holds and any group rests
SOON: Final = 30.0  # seconds; longer than a gang waits where evictions are allowed
STRICT: Final = ((1, 1, 0), (3, 1, 0), (4, 1, 0))
"""what makes gangs that must start as a whole"""
ROUNDS: Final = 5


class GroupWorld(World):
    """The same world with groups."""

    judge = GroupChecks
    checks: GroupChecks
    moves: ClassVar[Mapping[str, Move]] = {}

    def __init__(self, families: int, nodes: int, settings: int) -> None:
        self.evicts: list[Evict] = []
        """evictions that are not carried out yet"""
        super().__init__(families, nodes, self._settings(settings))

    def _settings(self, number: int) -> PlacingSettings:
        # Preemption by evictions has a test of its own, which compares it with brute force.
        return PlacingSettings(group=SETTINGS[number % len(SETTINGS)], preemption=PreemptionSettings(evict=False))

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out."""
        effects = tuple(effects)
        super().take(effects)
        evicts = [effect for effect in effects if isinstance(effect, Evict)]
        for effect in evicts:
            self.checks.evicts(effect)
        self.evicts += evicts

    def restart(self, a: int, b: int, c: int) -> None:
        """The same; evictions that were asked for may be carried out before."""
        while self.evicts:
            self.evict(a, b, c)
        self.checks.evicted.clear()
        super().restart(a, b, c)

    def evict(self, a: int, b: int, c: int) -> None:
        """An eviction is asked for, unless it is not wanted any more; it may be lost or given up, and the pod may come back."""
        effect = one_of(self.evicts, a)
        if effect is None:
            return
        self.evicts.remove(effect)
        version, pod = self.broker.evictable(effect.uid), self.api.pods.get(effect.uid)
        if version is None:
            self.checks.evicted.discard(effect.uid)
        if b % 5 and version is not None and pod and pod.version == version:
            must(not has_begun(pod), f"{pod.uid} is evicted and has begun to run")
            self.api.put(replace(pod, deleting=True))
            if c % 2:
                again = replace(pod, uid=f"u{self.next_number()}", node="", annotations=_own(pod))
                self.api.put(replace(again, name=f"again-{again.uid}"))
        elif c % 2:
            self.checks.evicted.discard(effect.uid)
            self.take(self.broker.not_evicted(effect.uid, self.now))

    def place(self, a: int, b: int, c: int) -> None:
        """All members of a group are tried as they should be, and perhaps not all of them bound."""
        self.see(self.api.deliver_all())
        keys = list(dict.fromkeys(filter(None, map(self._group, self.api.unbound()))))
        key = one_of(keys, a)
        members = [pod for pod in self.api.unbound() if key and self._group(pod) == key]
        for number, pod in enumerate(reversed(members) if b % 2 else members):
            if not pod.deleting and not pod.gates and (c >> number) % 8:
                self._try(pod)
        if c % 3:
            self.see(self.api.deliver_all())

    def halve(self, a: int, b: int, c: int) -> None:
        """A gang is made, one member of a group is placed, and the time of the others passes."""
        GROUP_MOVES["group"](self, *STRICT[c % len(STRICT)])
        self.see(self.api.deliver_all())
        pod = one_of([pod for pod in self.api.unbound() if self._group(pod) and not pod.deleting and not pod.gates], a)
        if pod:
            self._try(pod)
            if b % 4 == 0:
                begin(self, a, b, c)
            self.see(self.api.deliver_all())
            self.now += SOON

    def _group(self, pod: PodView) -> str:
        return self.broker.group_of(pod.uid)

    def _try(self, pod: PodView) -> None:
        names = [name for name in self.api.boxes if name not in self.api.gone]
        if not names:
            return  # then no scheduler asks
        self.filter_pod(pod, names)
        flights = len(self.flights)
        if node := one_of(self.offered[pod.uid], 0):
            self.bind_pod(pod.uid, node)
        if len(self.flights) > flights:
            self.land(len([flight for flight in self.flights if flight.landed is None]) - 1, 1, 1)

    def compare(self, a: int, b: int, _c: int) -> None:
        """Two new brokers observe the same objects in different orders, and plan the same."""
        sights = list(self.api.truth().values())
        turned = list(reversed(sights[a % len(sights) :] + sights[: a % len(sights)]))
        one, other = (Broker(self.settings) for _ in range(2))
        one.observe(sights, self.now)
        for sight in turned:
            other.observe([sight], self.now)
        for broker in (one, other) if b % 2 else ():
            while broker.recover(self.now):
                pass
        keys = sorted(one.group_keys())
        turn = b % len(keys) if keys else 0
        for key in keys[turn:] + keys[:turn]:
            self.checks.planned_alike(one, other, key)

    def settle(self, _a: int, _b: int, _c: int) -> None:
        """Everything that is under way ends, and all that wait are tried for as long as it takes."""
        for _ in range(ROUNDS):
            while self.evicts:
                self.evict(0, 1, 0)
            self._land_all()
            self.see(self.api.deliver_all())
            self.now += LONG
            self.take(self.broker.step(self.now, 1000))
            due = self.broker.next_deadline() or math.inf  # 0 if there is work left
            must(due > self.now, f"what was due at {due} was not done at {self.now}")
            for pod in 2 * self.api.unbound():
                if not pod.deleting and not pod.gates and not self.api.pods[pod.uid].node:
                    self._try(pod)
                    self.take(self.broker.step(self.now, 1000))
        self._land_all()
        self.see(self.api.deliver_all())
        self.checks.settled()

    def _land_all(self) -> None:
        """All that is under way to the API server arrives."""
        for flight in list(self.flights):
            if flight.landed is None:
                flight.landed = self.api.bind(flight.bound)
            self.learn(flight)


def _own(pod: PodView) -> dict[str, str]:
    """The annotations of a pod that its maker wrote."""
    return {key: text for key, text in pod.annotations.items() if key not in OURS}


GROUP_WORLD_MOVES: Final[dict[str, Move]] = {
    "group": GROUP_MOVES["group"],
    "place": GroupWorld.place,  # type: ignore[dict-item]  # of worlds with groups alone
    **MOVES,
    **GROUP_MOVES,
    "compare": GroupWorld.compare,  # type: ignore[dict-item]  # of worlds with groups alone
    "restart": GroupWorld.restart,  # type: ignore[dict-item]  # of worlds with groups alone
    "halve": GroupWorld.halve,  # type: ignore[dict-item]  # of worlds with groups alone
    "evict": GroupWorld.evict,  # type: ignore[dict-item]  # of worlds with groups alone
    "settle": GroupWorld.settle,  # type: ignore[dict-item]  # of worlds with groups alone
}
GroupWorld.moves = GROUP_WORLD_MOVES
