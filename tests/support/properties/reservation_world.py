"""State machine in which nodes are drained: pods are reported as unschedulable, and reservations come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.model.settings import ReservationSettings
from linkwise.model.verdict import ReservedKey
from support.properties.broker_invariants import must
from support.properties.cluster_moves import CLUSTER_MOVES, one_of
from support.properties.group_invariants import GroupChecks
from support.properties.group_world import GROUP_WORLD_MOVES, GroupWorld

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.engine.queue.reservation import Reservation
    from linkwise.model.settings import PlacingSettings
    from support.properties.cluster_moves import Move

__all__ = ["ReservationWorld"]

SETTINGS: Final = (
    ReservationSettings(after=1.0, hold=30.0),
    ReservationSettings(after=1.0, hold=30.0, count=2),
    ReservationSettings(after=20.0, hold=5.0, count=3, nodes=1),
)
WAITS: Final = (1.0, 3.0, 6.0, 21.0, 40.0)


class ReservationChecks(GroupChecks):
    """The same checks, and those of reservations."""

    def all(self) -> None:
        """Everything that must be true between two steps."""
        super().all()
        made, settings = list(self.state.reservations), self.state.settings.reservation
        must(len(made) <= settings.count, "too many reservations")
        nodes = [node for each in made for node in each.nodes]
        must(len(set(nodes)) == len(nodes), f"{nodes} are drained twice")
        for each in made:
            self._is_in_order(each)
        kept = {ReservedKey(uid, "reservation"): each for each in made for uid, _ in each.seats}
        for entry in self.state.cluster.ledger.entries():
            if entry.state == "RESERVED":
                must(entry.key in kept, f"{entry.key} is kept and belongs to no reservation")
                must(
                    entry.expires == kept[ReservedKey(entry.pod, "reservation")].until,
                    f"{entry.key} is kept for another time",
                )
                own = self.state.cluster.ledger.get(entry.pod)
                must(own is None, f"{entry.key} is kept beside {own}")

    def _is_in_order(self, each: Reservation) -> None:
        now, settings = self._world.now, self.state.settings.reservation
        must(now < each.until <= now + settings.hold, f"the reservation of {each.owner} lasts too long")
        must(len(each.nodes) <= settings.nodes, f"{each.nodes} are drained for {each.owner}")
        for uid, node in each.seats:
            pod, view = self.state.cluster.pods.get(uid), self.state.cluster.nodes.get(node)
            must(pod and not pod.node and not pod.deleting, f"a node is drained for {uid}, which does not wait")
            must(view and view.ready, f"{node} is drained, and takes no pods")
        must(not self.state.groups.plan_of(each.owner), f"a node is drained for {each.owner}, which has a plan")

    def settled(self) -> None:
        """Who waits for a reservation of others to end is not placed, and need not be."""
        if not self.state.reservations:
            super().settled()


class ReservationWorld(GroupWorld):
    """The same world, with reservations."""

    judge = ReservationChecks
    checks: ReservationChecks
    moves: ClassVar[Mapping[str, Move]] = {}

    def _settings(self, number: int) -> PlacingSettings:
        return replace(super()._settings(number), reservation=SETTINGS[number // 7 % len(SETTINGS)])

    def crowd(self, a: int, b: int, c: int) -> None:
        """Small pods fill the nodes, and a large one comes."""
        for _ in range(2 + b % 7):
            CLUSTER_MOVES["create"](self, a, 0, c | 1)
        self.see(self.api.deliver_all())
        for pod in [pod for pod in self.api.unbound() if not pod.deleting and not pod.gates]:
            self._try(pod)
        CLUSTER_MOVES["create"](self, a, 1 + b % 4, c)
        self.report(1, 255, c)

    def report(self, a: int, b: int, c: int) -> None:
        """The scheduler tries pods and reports those that fit nowhere as unschedulable."""
        self.see(self.api.deliver_all())
        waiting = [pod for pod in self.api.unbound() if not pod.deleting and not pod.gates]
        for number, pod in enumerate(waiting):
            if (b >> number % 8) % 2 and self.api.pods[pod.uid].unschedulable_since == 0.0:
                self.filter_pod(pod, [name for name in self.api.boxes if name not in self.api.gone])
                if not self.offered[pod.uid]:
                    self.api.put(replace(pod, unschedulable_since=self.now))
        if a % 4:
            self.see(self.api.deliver_all())
        self.now += WAITS[c % len(WAITS)]

    def wait(self, a: int, b: int, c: int) -> None:
        """Time passes, a pod ends, and one that waits is tried."""
        self.now += WAITS[a % len(WAITS)]
        self.take(self.broker.step(self.now, 100))
        if pod := one_of([pod for pod in self.api.pods.values() if pod.node], b):
            self.api.remove(pod.uid)
        self.see(self.api.deliver_all())
        if pod := one_of([pod for pod in self.api.unbound() if not pod.deleting and not pod.gates], c):
            self._try(pod)


RESERVATION_WORLD_MOVES: Final[dict[str, Move]] = {
    "crowd": ReservationWorld.crowd,  # type: ignore[dict-item]  # of worlds with reservations alone
    "report": ReservationWorld.report,  # type: ignore[dict-item]  # of worlds with reservations alone
    "wait": ReservationWorld.wait,  # type: ignore[dict-item]  # of worlds with reservations alone
    **GROUP_WORLD_MOVES,
}
ReservationWorld.moves = RESERVATION_WORLD_MOVES
