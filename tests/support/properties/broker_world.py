"""State machine of a broker: random moves, with all invariants checked after every step.

A step is a move and three numbers that choose its object and change, so that its driver (hypothesis or the soak test) can
reproduce exactly what happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Wake
from linkwise.model.views import PodView
from linkwise.testing.cluster import FakeNode, binds
from support.properties.broker_invariants import Checks, claims, must
from support.properties.cluster_moves import CLUSTER_MOVES, box_of, one_of
from support.properties.model_api import Flight, ModelApi

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.settings import PlacingSettings
    from linkwise.testing.cluster import Family
    from support.properties.cluster_moves import Move

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
    """A broker, the state of the cluster that it observes, and all that is under way between them."""

    judge: ClassVar[type[Checks]] = Checks
    moves: ClassVar[Mapping[str, Move]] = {}

    def __init__(self, families: int, nodes: int, settings: PlacingSettings | None = None) -> None:
        self.api = self.new_api()
        self.settings: Final = settings
        self.broker = Broker(settings)
        self.now = 1e9
        self.flights: list[Flight] = []
        self.offered: dict[str, list[str]] = {}
        self.checks = self.judge(self)
        self.families: Final = FAMILIES[families % len(FAMILIES)]
        self._made = 0
        for number in range(1 + nodes % 4):
            family = self.families[number % len(self.families)]
            count = 8 if family == "ring" else 2 + number % 3
            self.api.add(FakeNode(f"n{number}", family, count, inventory=number != 2 or family == "percent"))
        self.see(self.api.deliver_all())

    def new_api(self) -> ModelApi:
        """The API server of this world."""
        return ModelApi()

    def step(self, move: str, a: int, b: int, c: int) -> None:
        """Make one move, and check everything."""
        self.moves[move](self, a, b, c)
        self.take(self.broker.step(self.now))
        self.checks.all()

    def next_number(self) -> int:
        """For the next pod."""
        self._made += 1
        return self._made

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """The watch tells something."""
        self.take(self.broker.observe(sights, self.now))

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out."""
        effects = tuple(effects)
        self.flights += [Flight(bound) for bound in binds(effects)]
        woken = {effect.uid for effect in effects if isinstance(effect, Wake)}
        self.checks.woken |= woken
        self.checks.early -= woken

    def filter(self, a: int, b: int, c: int) -> None:
        """The scheduler asks for nodes, for any pod that it has not seen bound."""
        pod = one_of(self._askable(), a)
        if pod:
            names = [name for number, name in enumerate(self.api.boxes) if b % 7 or (b >> number) % 2]
            self.filter_pod(pod, names + ["never-seen"] * (c % 5 == 0) + names[:1] * (c % 6 == 0))

    def filter_pod(self, pod: PodView, names: list[str]) -> None:
        """The scheduler asks for nodes for one pod, and remembers who is woken in the middle of that."""
        answer = self.broker.filter(pod, names, self.now)
        self.offered[pod.uid] = answer.nodes
        self.checks.filtered(pod, names, answer)
        self.take(answer.effects)

    def bind(self, a: int, b: int, c: int) -> None:
        """The scheduler binds a pod, mostly to a node that it was offered."""
        uid = one_of(list(self.offered), a)
        node = one_of(self.offered[uid] if c % 4 else list(self.api.boxes), b) if uid else None
        if uid and node:
            self.bind_pod(uid, node)

    def bind_pod(self, uid: str, node: str) -> None:
        """The scheduler binds one pod."""
        answer = self.broker.bind(uid, node, self.now)
        self.checks.bound(answer)
        self.take(answer.effects)

    def schedule(self, a: int, b: int, c: int) -> None:
        """A pod is placed as it should be, and all of it is seen but perhaps the end."""
        pod = one_of([pod for pod in self.api.unbound() if not pod.deleting], a)
        if pod is None:
            return
        self.see(self.api.deliver_all())
        self.filter_pod(pod, list(self.api.boxes))
        if node := one_of(self.offered[pod.uid], b):
            self.bind_pod(pod.uid, node)
            self.land(len(self.flights) - 1, 1, c)
            if c % 3:
                self.see(self.api.deliver_all())

    def ask(self, a: int, b: int, c: int) -> None:
        """Questions that change nothing are asked."""
        pod = one_of(list(self.api.pods.values()), a)
        if pod is None:
            return
        self.now += 3.0 * (c % 2)  # what was pending may be over, and only a question hears of it
        self.broker.prioritize(pod, [], self.now)
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
        """A bind reaches the API server, or is lost; its sender learns that, or not."""
        flight = one_of([flight for flight in self.flights if flight.landed is None], a)
        if flight is None:
            return
        flight.landed = b % 5 > 0 and self.api.bind(flight.bound)
        if c % 3 == 0:
            flight.unknown = True
            self.take(self.broker.outcome(flight.bound, "unknown", self.now))
        else:
            self.learn(flight)

    def time_out(self, a: int, _b: int, _c: int) -> None:
        """The sender gives up waiting while a bind is still under way."""
        flight = one_of([flight for flight in self.flights if flight.landed is None and not flight.unknown], a)
        if flight:
            flight.unknown = True
            self.take(self.broker.outcome(flight.bound, "unknown", self.now))

    def read(self, a: int, _b: int, _c: int) -> None:
        """A read with quorum tells what became of a bind, once that is decided."""
        if flight := one_of([flight for flight in self.flights if flight.landed is not None], a):
            self.learn(flight)

    def learn(self, flight: Flight) -> None:
        """The sender of a bind learns what became of it."""
        self.flights.remove(flight)
        pod = self.api.pods.get(flight.bound.uid)
        there = flight.landed or (flight.unknown and pod is not None and pod.node == flight.bound.node)
        self.take(self.broker.outcome(flight.bound, "written" if there else "refused", self.now))

    def restart(self, a: int, b: int, _c: int) -> None:
        """The broker dies; a new one observes the current state, when no bind of the old one can land any more."""
        for number, flight in enumerate(self.flights):
            if flight.landed is None and (b >> number) % 2:
                self.api.bind(flight.bound)
        self.flights.clear()
        self.offered.clear()
        self.see(self.api.deliver_all())
        before, self.broker = self.broker, Broker(self.settings)
        sights = self.api.everything()
        self.broker.see(sights[a % len(sights) :] + sights[: a % len(sights)])
        while self.broker.recover(self.now):
            pass
        self.take(self.broker.step(self.now))
        self.checks.restarted(before)

    def sleep(self, _a: int, _b: int, _c: int) -> None:
        """The broker is put away as a value and made of it again."""
        before = claims(self.broker)
        self.broker = Broker.restore(self.broker.snapshot(self.now))
        must(claims(self.broker) == before, "a snapshot does not hold everything")

    def _askable(self) -> list[PodView]:
        """Pods as a scheduler knows them: it may not know yet that one is bound or gone."""
        late = [sight for events in self.api.delivered.values() for sight in events[-1:] if isinstance(sight, PodView)]
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
World.moves = MOVES
