"""A world in which anything may happen to a broker, step by step, and what must be true after every step.

A step is a move and three numbers that choose what it moves; so whoever drives it (hypothesis, or chance for hours) can
say again exactly what happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Wake
from linkwise.model.views import PodView
from linkwise.testing.boxes import Box, binds
from linkwise.testing.broker_checks import Checks, claims, must
from linkwise.testing.cluster_moves import CLUSTER_MOVES, box_of, one_of
from linkwise.testing.model_api import Flight, ModelApi

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.broker.sights import Sight
    from linkwise.testing.boxes import Family
    from linkwise.testing.cluster_moves import Move

__all__ = ["MOVES", "World"]

FAMILIES: Final[tuple[tuple[Family, ...], ...]] = (
    ("linked",),
    ("share",),
    ("percent",),
    ("ring",),
    ("linked", "share"),
    ("percent", "amd"),
    ("share", "share", "linked"),
    ("linked", "ring"),
)


class World:
    """A broker, the truth it is told of, and all that is under way between them."""

    def __init__(self, families: int, nodes: int) -> None:
        self.api = ModelApi()
        self.broker = Broker()
        self.now = 1000.0
        self.flights: list[Flight] = []
        self.offered: dict[str, list[str]] = {}
        self.checks = Checks(self)
        self.families: Final = FAMILIES[families % len(FAMILIES)]
        self._made = 0
        for number in range(1 + nodes % 4):
            family = self.families[number % len(self.families)]
            count = 8 if family == "ring" else 2 + number % 3
            self.api.add(Box(f"n{number}", family, count, inventory=number != 2 or family == "percent"))
        self.see(self.api.deliver_all())

    def step(self, move: str, a: int, b: int, c: int) -> None:
        """Make one move, and check everything."""
        MOVES[move](self, a, b, c)
        self.take(self.broker.step(self.now))
        self.checks.all()

    def next_number(self) -> int:
        """For the next pod."""
        self._made += 1
        return self._made

    def see(self, sights: Iterable[Sight]) -> None:
        """The watch tells something."""
        self.take(self.broker.observe(sights, self.now))

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out."""
        effects = tuple(effects)
        self.flights += [Flight(bound) for bound in binds(effects) if bound.grant]
        self.checks.woken |= {effect.uid for effect in effects if isinstance(effect, Wake)}

    def filter(self, a: int, b: int, c: int) -> None:
        """The scheduler asks for nodes, for any pod that it has not seen bound."""
        pod = one_of(self._askable(), a)
        if pod:
            names = [name for number, name in enumerate(self.api.boxes) if b % 7 or (b >> number) % 2]
            self._filter(pod, names + ["never-seen"] * (c % 5 == 0) + names[:1] * (c % 6 == 0))

    def _filter(self, pod: PodView, names: list[str]) -> None:
        pending = self.broker.state.pending
        quiet = not pending.entries() and not pending.all_attempts()
        answer = self.broker.filter(pod, names, self.now)
        self.take(answer.effects)
        self.offered[pod.uid] = answer.nodes
        self.checks.filtered(pod, names, answer, quiet=quiet)

    def bind(self, a: int, b: int, c: int) -> None:
        """The scheduler binds a pod, mostly to a node that it was offered."""
        uid = one_of(list(self.offered), a)
        node = one_of(self.offered[uid] if c % 4 else list(self.api.boxes), b) if uid else None
        if uid and node:
            self._bind(uid, node)

    def _bind(self, uid: str, node: str) -> None:
        answer = self.broker.bind(uid, node, self.now)
        self.checks.bound(answer)
        self.take(answer.effects)

    def schedule(self, a: int, b: int, c: int) -> None:
        """A pod is placed as it should be, and all of it is seen but perhaps the end."""
        pod = one_of([pod for pod in self.api.unbound() if not pod.deleting], a)
        if pod is None:
            return
        self.see(self.api.deliver_all())
        self._filter(pod, list(self.api.boxes))
        if node := one_of(self.offered[pod.uid], b):
            self._bind(pod.uid, node)
            self.land(len(self.flights) - 1, 1, c)
            if c % 3:
                self.see(self.api.deliver_all())

    def ask(self, a: int, b: int, c: int) -> None:
        """Questions that change nothing are asked."""
        pod = one_of(list(self.api.pods.values()), a)
        if pod is None:
            return
        self.now += 3.0 * (c % 2)  # what was pending may be over, and only a question hears of it
        before, names = claims(self.broker), [*self.api.boxes, "never-seen"]
        self.broker.prioritize(pod, names, self.now)
        self.broker.dry_run(pod, self.now)
        self.broker.admit(pod)
        self.take(self.broker.filter(pod, names, self.now, keep=False).effects)
        box = box_of(self, b)
        self.broker.preempt(pod, {box.name: [found.uid for found in self.api.holding(box.name)][: c % 4]}, self.now)
        self.broker.preferred(box.name, box.devices(*range(box.count)), (), 1 + c % 3, self.now)
        must(claims(self.broker) == before, "a question changed something")

    def land(self, a: int, b: int, c: int) -> None:
        """A bind reaches the API server, or is lost; whoever sent it learns that, or not."""
        flight = one_of([flight for flight in self.flights if flight.landed is None], a)
        if flight is None:
            return
        flight.landed = b % 5 > 0 and self.api.bind(flight.bound)
        if c % 3 == 0:
            flight.unknown = True
            self.take(self.broker.outcome(flight.bound, "unknown", self.now))
        else:
            self._learn(flight)

    def time_out(self, a: int, _b: int, _c: int) -> None:
        """The sender gives up waiting while a bind is still under way."""
        flight = one_of([flight for flight in self.flights if flight.landed is None and not flight.unknown], a)
        if flight:
            flight.unknown = True
            self.take(self.broker.outcome(flight.bound, "unknown", self.now))

    def read(self, a: int, _b: int, _c: int) -> None:
        """A read with quorum tells what became of a bind, once that is decided."""
        if flight := one_of([flight for flight in self.flights if flight.landed is not None], a):
            self._learn(flight)

    def _learn(self, flight: Flight) -> None:
        self.flights.remove(flight)
        pod = self.api.pods.get(flight.bound.uid)
        there = flight.landed or (flight.unknown and pod is not None and pod.node == flight.bound.node)
        self.take(self.broker.outcome(flight.bound, "written" if there else "refused", self.now))

    def restart(self, a: int, b: int, _c: int) -> None:
        """The broker dies; a new one is told what is true, when no bind of the old one can land any more."""
        for number, flight in enumerate(self.flights):
            if flight.landed is None and (b >> number) % 2:
                self.api.bind(flight.bound)
        self.flights.clear()
        self.offered.clear()
        self.see(self.api.deliver_all())
        before, self.broker = self.broker, Broker()
        sights = self.api.everything()
        self.see(sights[a % len(sights) :] + sights[: a % len(sights)])
        self.checks.restarted(before)

    def sleep(self, _a: int, _b: int, _c: int) -> None:
        """The broker is put away as a value and made of it again."""
        before = claims(self.broker)
        self.broker = Broker.restore(self.broker.snapshot(self.now))
        must(claims(self.broker) == before, "a snapshot does not hold everything")

    def _askable(self) -> list[PodView]:
        """Pods as a scheduler knows them: it may not know yet that one is bound or gone."""
        late = [sight for told in self.api.told.values() for sight in told[-1:] if isinstance(sight, PodView)]
        return self.api.unbound() + [pod for pod in late if not pod.node]


MOVES: Final[dict[str, Move]] = {
    "create": CLUSTER_MOVES["create"],
    "schedule": World.schedule,
    "filter": World.filter,
    "bind": World.bind,
    "land": World.land,
    "read": World.read,
    "time out": World.time_out,
    "ask": World.ask,
    **CLUSTER_MOVES,
    "sleep": World.sleep,
    "restart": World.restart,
}
"""the first are the simplest, so that a failure is shown with them"""
