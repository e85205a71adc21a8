"""Whatever happens, limits of access policies hold, devices are shared within one domain, and no pod waits for free devices."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Wake
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.testing.cluster import MEMORY, NVIDIA, FakeNode, binds, seen_bound
from support.builders.access_objects import EVERYBODY, access_policy, deleted_policy, labelled, team_pod
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

NODES = (FakeNode("n0", count=4), FakeNode("n1", count=2), FakeNode("s0", "share", 3, 16))
NAMES = [node.name for node in NODES]
LIMIT = "node(s): an AcceleratorPolicy's limit of devices at one time is reached"
SPACES, USERS = ("a", "b"), ("", "ann", "bob")
LIMITS: tuple[int | None, ...] = (None, 0, 1, 2, 3, 5)
SHARING = (None, "never", "namespace", "user", "namespace-and-user", "any")


class AccessWorld:
    """A broker with pods of two namespaces, one policy for each of them and one for all, and what is true of them."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.now = 1000.0
        self.pods: dict[str, PodView] = {}
        self.policies: dict[str, ClusterObject] = {}
        self.limits: dict[str, int] = {}
        self.sharing: dict[str, str] = {}
        self.waiting: set[str] = set()
        """pods that were refused and not woken since"""
        self.made = 0
        self.broker.observe([event for node in NODES for event in node.events()], self.now)
        self.broker.observe([labelled(space) for space in SPACES], self.now)

    # moves

    def create(self, a: int, b: int) -> None:
        """A pod is created, and tried."""
        self.made += 1
        resource, amount = (MEMORY, 1 + b % 9) if a % 2 else (NVIDIA, 1 + b % 3)
        namespace, user = SPACES[(a // 2) % 2], USERS[(a // 4) % 3]
        pod = team_pod(f"p{self.made}", amount, resource, namespace=namespace, user=user, created=float(self.made))
        self.pods[pod.uid] = pod
        self.take(self.broker.observe([pod], self.now))
        self.schedule(pod.uid)

    def delete(self, a: int, _b: int) -> None:
        """A pod is deleted, whether it runs or waits."""
        if self.pods:
            uid = sorted(self.pods)[a % len(self.pods)]
            del self.pods[uid]
            self.waiting.discard(uid)
            self.take(self.broker.observe([PodDeleted(uid)], self.now))

    def limit(self, a: int, b: int) -> None:
        """A limit is set, changed or lifted."""
        self.change((*SPACES, "all")[a % 3], maxDevices=LIMITS[b % len(LIMITS)])

    def share(self, a: int, b: int) -> None:
        """A sharing rule is set, changed or lifted."""
        self.change(f"share-{(*SPACES, 'all')[a % 3]}", sharing=SHARING[b % len(SHARING)])

    def change(self, name: str, **spec: Any) -> None:  # noqa: ANN401 - JSON
        """A policy is created, changed or deleted."""
        scope = name.removeprefix("share-")
        subjects = EVERYBODY if scope == "all" else {"namespaces": [scope]}
        ((field, value),) = spec.items()
        self.limits.pop(name, None)
        self.sharing.pop(name, None)
        if value is None:
            event = deleted_policy(name)
            self.policies.pop(name, None)
        elif field == "maxDevices":
            self.limits[name] = value
            event = self.policies[name] = access_policy(name, subjects, maxDevices=value)
        else:
            self.sharing[name] = value
            event = self.policies[name] = access_policy(name, subjects, sharing={"with": value})
        self.take(self.broker.observe([event], self.now))

    def sleep(self, _a: int, _b: int) -> None:
        """The broker is put away as a value and made of it again."""
        stored = self.broker.snapshot(self.now)
        self.broker = Broker.restore(stored)
        assert self.broker.snapshot(self.now) == stored

    def restart(self, a: int, _b: int) -> None:
        """A new broker observes the current state, in some order; all pending pods are tried again."""
        events = [*(event for node in NODES for event in node.events()), *self.pods.values()]
        events += [*self.policies.values(), *(labelled(space) for space in SPACES)]
        self.broker = Broker()
        turn = a % len(events)
        self.broker.see(events[turn:] + events[:turn])
        self.waiting.clear()
        self.take(self.broker.step(self.now))
        self.take(self.broker.unanswered())

    def later(self, a: int, _b: int) -> None:
        """Time passes."""
        self.now += 1.0 + a % 3

    # scheduling

    def take(self, effects: Iterable[Effect]) -> None:
        """Woken pods are tried again, until none is woken."""
        pending = [effect.uid for effect in effects if isinstance(effect, Wake)]
        for uid in pending:
            if uid in self.pods and not self.pods[uid].node:
                self.schedule(uid)

    def schedule(self, uid: str) -> None:
        """The scheduler tries a pod, and binds it if there is a node."""
        pod = self.pods[uid]
        answer = self.broker.filter(pod, NAMES, self.now)
        if not answer.nodes:
            self.waiting.add(uid)
            self.take(answer.effects)
            return
        before, neighbours = self.in_use(pod.namespace), self.domains()
        bound = self.broker.bind(uid, answer.nodes[0], self.now)
        assert not bound.error
        (effect,) = binds(bound.effects)
        self.within_limits(pod, before)
        self.among_its_own(pod, effect.grant.offer.devices if effect.grant else (), neighbours)
        self.waiting.discard(uid)
        self.broker.outcome(effect, "written", self.now)
        self.pods[uid] = seen_bound(pod, effect)
        self.take([*answer.effects, *bound.effects, *self.broker.observe([self.pods[uid]], self.now)])

    # what is true

    def in_use(self, namespace: str, without: str = "") -> int:
        """Devices of the pods of a namespace, a share as one."""
        running = [pod for pod in self.pods.values() if pod.node and pod.namespace == namespace and pod.uid != without]
        return sum(map(size, running))

    def most(self, namespace: str) -> int:
        """The strictest limit of a namespace."""
        return min((self.limits[name] for name in (namespace, "all") if name in self.limits), default=1000)

    def domain(self, pod: PodView) -> tuple[str, ...]:
        """The sharing domain, by the words of the rules that apply."""
        said = {self.sharing[name] for name in (f"share-{pod.namespace}", "share-all") if name in self.sharing}
        said = said or {"namespace"}
        user = pod.annotations.get("linkwise.dev/user", "")
        by_user = bool(said & {"user", "namespace-and-user"})
        if "never" in said or (by_user and not user):
            return ("alone", pod.uid)
        return (pod.namespace if said & {"namespace", "namespace-and-user"} else "", user if by_user else "")

    def domains(self) -> dict[str, set[tuple[str, ...]]]:
        """The domains of the pods on each shared device."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for entry in self.broker.entries():
            pod = None if entry.purpose else self.pods.get(entry.pod)
            for device in entry.grant.offer.devices if pod and pod.node else ():
                found.setdefault(device, set()).add(self.domain(pod))  # type: ignore[arg-type]  # it is there
        return found

    def within_limits(self, pod: PodView, before: int) -> None:
        assert before + size(pod) <= self.most(pod.namespace)

    def among_its_own(self, pod: PodView, devices: Iterable[str], neighbours: dict[str, set[tuple[str, ...]]]) -> None:
        for device in devices:
            assert neighbours.get(device, set()) <= {self.domain(pod)}

    def check(self) -> None:
        """Counts are true, and pods that wait for a limit are really beyond it."""
        for _ in range(50):
            if self.broker.next_deadline() != 0.0:
                break
            self.take(self.broker.step(self.now))
        counted = Counter[str]()
        for report in self.broker.policy_reports():
            scopes = SPACES if report.policy.name.endswith("all") else (report.policy.name.removeprefix("share-"),)
            assert report.devices == sum(map(self.in_use, scopes))
            counted[report.policy.name] += 1
        assert set(counted) == set(self.policies)
        for uid in sorted(self.waiting & self.pods.keys()):
            pod = self.pods[uid]
            answer = self.broker.filter(pod, NAMES, self.now, keep=False)
            beyond = self.in_use(pod.namespace) + size(pod) > self.most(pod.namespace)
            assert not answer.nodes  # had there been room for it, it would have been woken and placed
            assert beyond == (LIMIT in answer.unresolvable.values()) or self.most(pod.namespace) < size(pod)


def size(pod: PodView) -> int:
    limits = pod.containers[0].limits
    return int(limits[NVIDIA]) if NVIDIA in limits else 1


MOVES = ("create", "create", "create", "delete", "delete", "limit", "share", "sleep", "restart", "later")


@pytest.mark.rule("002.access", "002.segregate")
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 50), st.integers(0, 50)), max_size=40))
def test_limits_hold_domains_are_kept_and_no_pod_waits_for_free_devices(
    moves: list[tuple[str, int, int]],
) -> None:
    world = AccessWorld()
    for move, a, b in moves:
        getattr(world, move)(a, b)
        world.check()


@pytest.mark.rule("002.access", "002.segregate")
@pytest.mark.parametrize("seed", range(examples(6)))
def test_the_same_over_many_moves(seed: int) -> None:
    world, chance = AccessWorld(), Random(seed)
    for _ in range(150):
        getattr(world, chance.choice(MOVES))(chance.randrange(60), chance.randrange(60))
        world.check()


def test_the_world_is_one_in_which_things_happen() -> None:
    world = AccessWorld()
    world.limit(2, 3)
    for number in range(6):
        world.create(number * 2, 0)
    assert world.waiting
    world.delete(0, 0)
    world.check()
    assert any(pod.node for pod in world.pods.values())
