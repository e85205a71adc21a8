"""Over generated histories with evictions: only lower priorities give way, gangs whole, and nothing stays held."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Evict
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import PodDeleted, PodListComplete
from linkwise.engine.preemption import EXACT, harm_of
from linkwise.model.settings import PlacingSettings, PreemptionSettings
from linkwise.testing.cluster import ASCEND, MEMORY, NVIDIA, FakeNode, broker_of, device_pod, in_gang, place
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot

if TYPE_CHECKING:
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

ON = PlacingSettings(preemption=PreemptionSettings(evict=True, hold=60.0))
KINDS = {ASCEND: ("ring", 8, [1, 2, 4]), NVIDIA: ("linked", 4, [1, 2, 4]), MEMORY: ("share", 2, [4, 8, 12, 16])}
MOVES = ["gone", "leaving", "refused", "ask", "thief", "wait", "long", "restart", "relist", "back"]


class World:
    """A few nodes full of pods of low priority, a gang and a pod of high priority, and whatever happens then."""

    def __init__(self, resource: str, sizes: list[tuple[int, int]], gang: tuple[int, int], single: int) -> None:
        family, count, _ = KINDS[resource]
        self.resource, self.now = resource, 1.0
        self.names = ["n0", "n1"]
        self.broker = broker_of(*(FakeNode(name, family, count) for name in self.names), settings=ON)  # type: ignore[arg-type]
        for number, (size, priority) in enumerate(sizes):
            pod = device_pod(f"low{number}", size, resource, priority=priority)
            for node in self.broker.filter(pod, self.names, 0.0, keep=False).nodes[:1]:
                place(self.broker, pod, node)
        members = [device_pod(f"g{number}", gang[1], resource, priority=5) for number in range(gang[0])]
        self.asking = [*in_gang(*members, least=gang[0]), device_pod("single", single, resource, priority=7)]
        self.asked_for: list[str] = []
        self.broker.observe(self.asking, 0.5)

    def take(self, effects: tuple[Effect, ...]) -> None:
        """Note evictions; each must be of a pod of lower priority that is there."""
        for effect in effects:
            if isinstance(effect, Evict):
                assert self.broker.pods[effect.uid].priority < 7
                assert self.broker.pods[effect.uid].node
                self.asked_for.append(effect.uid)

    def move(self, word: str, number: int) -> None:
        broker, victims = self.broker, [uid for uid in self.asked_for if uid in self.broker.pods]
        victim = victims[number % len(victims)] if victims else ""
        match word:
            case "gone" if victim:
                self.take(broker.observe([PodDeleted(victim)], self.now))
            case "leaving" if victim:
                pod = broker.pods[victim]
                self.take(broker.observe([replace(pod, deleting=True, version=pod.version + 1)], self.now))
            case "refused" if victim:
                self.take(broker.not_evicted(victim, self.now))
            case "ask":
                self.ask(self.asking[number % len(self.asking)])
            case "thief":
                pod = device_pod(f"thief{number}", 1, self.resource)
                self.take(broker.observe([pod], self.now))
                self.ask(pod)
            case "wait" | "long" | "back":
                self.now = max(1.0, self.now + {"wait": 2.1, "long": 70.0, "back": -500.0}[word])
                self.take(broker.step(self.now, 50))
            case "restart":
                taken = broker.snapshot(self.now)
                self.broker = Broker.restore(decode_snapshot(encode_snapshot(taken), BrokerState))
                assert self.broker.snapshot(self.now) == taken
            case "relist":
                self.take(broker.observe([PodListComplete(frozenset(broker.pods))], self.now))

    def ask(self, pod: PodView) -> None:
        """As kube-scheduler: filter, and bind where that names a node."""
        if pod.uid not in self.broker.pods or self.broker.pods[pod.uid].node:
            return
        answer = self.broker.filter(pod, self.names, self.now)
        self.take(answer.effects)
        if answer.nodes:
            place(self.broker, self.broker.pods[pod.uid], answer.nodes[0], self.now)

    def check(self) -> None:
        """Nothing is oversold or used twice, and what is held belongs to a preemption."""
        state = self.broker.state_at(self.now)
        assert not self.broker.drift
        held = {entry.pod for entry in self.broker.entries() if entry.purpose == "preemption"}
        planned = {uid for record in state.preemptions.records.values() for uid in record.plan.placements}
        assert held <= planned
        for node in self.broker.usage.values():
            assert all(use.share <= 16 for use in node.used.values())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    resource = draw(st.sampled_from(sorted(KINDS)))
    size = st.sampled_from(KINDS[resource][2])
    sizes = draw(st.lists(st.tuples(size, st.integers(0, 6)), min_size=2, max_size=12))
    return World(resource, sizes, (draw(st.integers(1, 3)), draw(size)), draw(size))


@st.composite
def few(draw: st.DrawFn) -> tuple[Broker, list[PodView]]:
    """Two nodes with up to eight pods of low priority, and a gang of high priority that does not fit."""
    resource = draw(st.sampled_from(sorted(KINDS)))
    family, count, sizes = KINDS[resource]
    broker = broker_of(*(FakeNode(name, family, count) for name in ("n0", "n1")), settings=ON)  # type: ignore[arg-type]
    low = draw(st.lists(st.tuples(st.sampled_from(sizes), st.integers(0, 6)), min_size=2, max_size=EXACT))
    for number, (size, priority) in enumerate(low):
        pod = device_pod(f"low{number}", size, resource, priority=priority)
        for node in broker.filter(pod, ["n0", "n1"], 0.0, keep=False).nodes[:1]:
            place(broker, pod, node)
    members = draw(st.integers(1, 3))
    size = draw(st.sampled_from(sizes))
    return broker, in_gang(*(device_pod(f"g{n}", size, resource, priority=5) for n in range(members)), least=members)


@given(few())
def test_a_gang_evicts_the_pods_whose_eviction_does_the_least_harm(story: tuple[Broker, list[PodView]]) -> None:
    broker, gang = story
    lower = [pod for pod in broker.pods.values() if pod.priority < 5]
    sets = chain.from_iterable(combinations(lower, size) for size in range(1, len(lower) + 1))

    def starts_without(pods: tuple[PodView, ...]) -> bool:
        copy = Broker.restore(broker.snapshot(0.5))
        copy.observe([PodDeleted(pod.uid) for pod in pods], 0.5)
        return copy.dry_plan(gang, 0.5) is not None

    best = min((harm_of(pods, ()) for pods in sets if starts_without(pods)), default=None)
    fits = starts_without(())
    broker.observe(gang, 1.0)
    for pod in gang:
        broker.filter(pod, ["n0", "n1"], 1.0)
    effects = [effect for now in (1.1, 3.2) for effect in broker.step(now, 100)]
    evicted = [broker.pods[effect.uid] for effect in effects if isinstance(effect, Evict)]
    assert (harm_of(evicted, ()) if evicted else None) == (None if fits else best)


@given(worlds(), st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 20)), max_size=30))
def test_whatever_happens_nothing_is_used_twice_and_nothing_stays_held(
    world: World, moves: list[tuple[str, int]]
) -> None:
    for pod in world.asking:
        world.ask(pod)
    for word, number in moves:
        world.move(word, number)
        world.check()
    world.take(world.broker.observe([PodDeleted(pod.uid) for pod in world.asking], world.now))
    assert not [entry for entry in world.broker.entries() if entry.purpose == "preemption"]
    assert not world.broker.state_at(world.now).preemptions.records
