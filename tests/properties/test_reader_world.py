"""Over generated histories of several tenants: nothing that readers of one namespace get names anything of another one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hypothesis import given, settings, strategies as st

from linkwise.broker.effects import Bind, Event, Evict
from linkwise.broker.volcano.bookings import Task
from linkwise.broker.watch_events import PodDeleted
from linkwise.dialects.groups.koordinator_gang import GROUPS, MINIMUM, NAME, TOTAL
from linkwise.dialects.linkwise.accelerator_policy import USER
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.model.settings import PlacingSettings, PreemptionSettings, ReservationSettings
from linkwise.testing.cluster import MEMORY, NVIDIA, FakeNode, broker_of, device_pod
from support.builders.access_objects import EVERYBODY, access_policy
from support.profile import examples
from support.properties.readers import answers, node_answers, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

TENANTS: Final = ("oslo", "lima", "kyiv")
"""namespaces; the names of their pods, groups and users begin with them, and no other text has them"""
NODES: Final = ("n0", "n1", "s0")
SETTINGS: Final = PlacingSettings(
    preemption=PreemptionSettings(evict=True, hold=60.0), reservation=ReservationSettings(after=30.0, count=2)
)
BUNDLE: Final = "joint"
SHARING: Final = ("namespace", "user", "namespace-and-user")


class World:
    """Three tenants in one small cluster, and what is written to their namespaces."""

    def __init__(self, sharing: str) -> None:
        self.nodes: Final = {
            "n0": FakeNode("n0", count=4),
            "n1": FakeNode("n1", count=4),
            "s0": FakeNode("s0", "share", count=2),
        }
        self.broker: Final[Broker] = broker_of(*self.nodes.values(), settings=SETTINGS)
        self.broker.observe([access_policy("sharing", EVERYBODY, sharing={"with": sharing})], 0.0)
        self.now = 1.0
        self.made = 0
        self.binds: list[Bind] = []
        self.evicted: list[str] = []
        self.reasons: set[str] = set()
        """of the events so far"""

    def take(self, effects: Iterable[Effect]) -> None:
        """Check what is written, and carry out binds."""
        for effect in effects:
            namespace, text = written(effect)
            assert_own(namespace, text)
            if isinstance(effect, Bind):
                self.binds.append(effect)
            elif isinstance(effect, Evict):
                self.evicted.append(effect.uid)
            elif isinstance(effect, Event):
                self.reasons.add(effect.reason)

    def new_pod(self, a: int, b: int) -> PodView:
        """A pod that no scheduler has tried."""
        tenant, self.made = TENANTS[a % 3], self.made + 1
        amount, resource = ((1, 2, 4)[b % 3], NVIDIA) if (a + b) % 4 else ((4, 8, 16)[b % 3], MEMORY)
        pod = device_pod(f"{tenant}-p{self.made}", amount, resource, uid=f"u{self.made}", namespace=tenant)
        return replace(pod, priority=a % 5, created=float(self.made), annotations={USER: f"{tenant}-ann"})

    def show_pod(self, a: int, b: int) -> None:
        pod = self.new_pod(a, b)
        self.take(self.broker.observe([pod], self.now))
        self.try_pod(pod)

    def show_gang(self, a: int, b: int) -> None:
        """Two members of one tenant, or two gangs of two tenants that start together."""
        pods, joint = [self.new_pod(a, b), self.new_pod(a + b % 2, b)], b % 2
        names = [BUNDLE if joint else f"{pod.namespace}-g{self.made}" for pod in pods]
        bundle = json.dumps(sorted({f"{pod.namespace}/{BUNDLE}" for pod in pods}))
        least = "1" if joint else "2"
        for pod, name in zip(pods, names, strict=True):
            words = {**pod.annotations, NAME: name, MINIMUM: least, TOTAL: least, **({GROUPS: bundle} if joint else {})}
            self.take(self.broker.observe([replace(pod, annotations=words)], self.now))
        for pod in pods:
            self.try_pod(self.broker.pods[pod.uid])

    def try_pod(self, pod: PodView) -> None:
        answer = self.broker.filter(pod, NODES, self.now)
        assert_own(pod.namespace, f"{answer.failed} {answer.unresolvable}")
        self.take(answer.effects)

    def try_again(self, a: int, b: int) -> None:
        if pod := self.waiting(a):
            if b % 2:
                message = f"0/3 nodes are available: {pod.name} is unlucky"
                pod = replace(pod, unschedulable_since=self.now, unschedulable_message=message, version=pod.version + 1)
                self.take(self.broker.observe([pod], self.now))
            self.try_pod(pod)

    def bind(self, a: int, b: int) -> None:
        if pod := self.waiting(a):
            answer = self.broker.bind(pod.uid, NODES[b % 3], self.now)
            assert_own(pod.namespace, answer.error)
            self.take(answer.effects)
            self.land()

    def land(self) -> None:
        """Binds are written, and pods are observed on their nodes."""
        while self.binds:
            bind = self.binds.pop()
            self.take(self.broker.outcome(bind, "written", self.now))
            if pod := self.broker.pods.get(bind.uid):
                words = {**pod.annotations, **bind.annotations}
                bound = replace(pod, node=bind.node, annotations=words, phase="Running", version=pod.version + 1)
                self.take(self.broker.observe([bound], self.now))

    def place_all(self, a: int, b: int) -> None:
        """The scheduler tries all pods, and binds those that fit."""
        for pod in [pod for pod in self.broker.pods.values() if not pod.node][a % 2 :]:
            answer = self.broker.filter(pod, NODES, self.now)
            self.take(answer.effects)
            for node in answer.nodes[: 1 + b % 2][:1]:
                self.take(self.broker.bind(pod.uid, node, self.now).effects)
        self.land()

    def ask_volcano(self, a: int, b: int) -> None:
        """The scheduler asks node by node, and books."""
        if pod := self.waiting(a):
            fit = self.broker.predicate(pod, NODES[b % 3], self.now)
            assert_own(pod.namespace, fit.reason)
            self.take(fit.effects)
            answer = self.broker.book(Task(pod.uid, NODES[b % 3], pod), self.now)
            assert_own(pod.namespace, answer.error)
            self.take(answer.effects)

    def tamper(self, a: int, b: int) -> None:
        """A bound pod gets the record of another one."""
        bound = [pod for pod in self.broker.pods.values() if pod.node and GRANT in pod.annotations]
        if bound:
            pod, other = bound[a % len(bound)], bound[b % len(bound)]
            words = {
                **pod.annotations,
                **{k: v for k, v in other.annotations.items() if k.startswith("linkwise.dev/g")},
            }
            self.take(self.broker.observe([replace(pod, annotations=words, version=pod.version + 1)], self.now))

    def delete(self, a: int, b: int) -> None:
        if pods := list(self.broker.pods.values()):
            pod = pods[a % len(pods)]
            leaving = replace(pod, deleting=True, version=pod.version + 1)
            self.take(self.broker.observe([leaving if b % 2 else PodDeleted(pod.uid)], self.now))

    def refuse_eviction(self, a: int, b: int) -> None:
        if self.evicted:
            uid = self.evicted[a % len(self.evicted)]
            events = (
                self.broker.not_evicted(uid, self.now) if b % 2 else self.broker.observe([PodDeleted(uid)], self.now)
            )
            self.take(events)

    def cordon(self, a: int, b: int) -> None:
        node = self.nodes[NODES[a % 3]]
        self.take(self.broker.observe(replace(node, cordoned=bool(b % 2), version=self.made).events(), self.now))

    def wait(self, a: int, b: int) -> None:
        for _ in range(3):
            self.now += (1.0, 2.5, 35.0, 300.0)[a % 4] / (1 + b % 2)
            self.take(self.broker.step(self.now, 100))

    def waiting(self, a: int) -> PodView | None:
        pods = [pod for pod in self.broker.pods.values() if not pod.node and not pod.deleting]
        return pods[a % len(pods)] if pods else None

    def ask_everything(self) -> None:
        """Every tenant asks everything."""
        for tenant in TENANTS:
            document = answers(self.broker, self.now, tenant, frozenset({tenant}))
            assert_own(tenant, json.dumps([document, node_answers(self.broker, self.now, tenant)]))


MOVES: Final[Mapping[str, Callable[[World, int, int], None]]] = {
    "pod": World.show_pod,
    "gang": World.show_gang,
    "try": World.try_again,
    "bind": World.bind,
    "place": World.place_all,
    "volcano": World.ask_volcano,
    "tamper": World.tamper,
    "delete": World.delete,
    "evicted": World.refuse_eviction,
    "cordon": World.cordon,
    "wait": World.wait,
}
HISTORIES: Final = st.lists(
    st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 29), st.integers(0, 29)), max_size=40
)


def assert_own(namespace: str, text: str) -> None:
    """Nothing of other tenants is named, but gangs that the tenant's own pods list."""
    for tenant in TENANTS:
        if tenant != namespace:
            before, found, after = text.replace(f"{tenant}/{BUNDLE}", "").partition(tenant)
            assert not found, f"readers of {namespace} read: {before[-200:]}{found}{after[:100]}"


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(SHARING), HISTORIES)
def test_readers_of_a_namespace_get_no_names_of_others(sharing: str, history: list[tuple[str, int, int]]) -> None:
    world = World(sharing)
    for move, a, b in history:
        MOVES[move](world, a, b)
    world.ask_everything()
