"""Random lives of pods on nodes whose devices ResourceClaims allocate: nothing is counted twice, and nothing is oversold."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings, strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.testing.cluster import FakeNode, binds, device_pod, in_gang, seen_bound
from support.builders.dra_objects import GPU, claim, device_class, resource_slice
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.broker.effects import Bind
    from linkwise.model.views import PodView

NODES = {"a": 4, "b": 2}


@dataclass
class Scheduler:
    """kube-scheduler with its DRA plugin, the API server, and a broker that observes late what they do."""

    chance: Random
    broker: Broker = field(default_factory=Broker)
    now: float = 0.0
    pods: dict[str, PodView] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    undelivered: list[Any] = field(default_factory=list)
    """watch events in the order of the API server, by kind: pods first, then claims, as two watches deliver them"""

    def start(self) -> None:
        nodes = [FakeNode(name, registered=False, inventory=False).view() for name in NODES]
        slices = [resource_slice(name, count) for name, count in NODES.items()]
        objects = [_event(each) for each in (device_class(), *slices, *self.claims.values())]
        self.broker, self.undelivered = Broker(), []
        self.broker.observe([*nodes, *objects, *self.pods.values()], self.now)

    def free(self, node: str) -> list[str]:
        """Devices that the DRA plugin would allocate, the first one first."""
        taken = {device for made in self.claims.values() for device in _devices(made, node)}
        return [f"gpu-{index}" for index in range(NODES[node]) if f"gpu-{index}" not in taken]

    def create(self) -> None:
        number = len(self.pods) + self.chance.randrange(1_000_000)
        pod = replace(device_pod(f"p{number}", self.chance.choice([1, 1, 2, 3])), created=self.now)
        if self.chance.random() < 0.3:
            (pod,) = in_gang(pod, least=1, name=f"g{number}")
        self.pods[pod.uid] = pod
        self.undelivered.append(pod)

    def schedule(self) -> None:
        """A scheduling cycle with its binding cycle; events arrive in between, or not."""
        pending = [pod for pod in self.pods.values() if not pod.node]
        if not pending:
            return
        pod = self.chance.choice(pending)
        count = int(pod.containers[0].limits[GPU])
        names = [name for name in NODES if len(self.free(name)) >= count]
        nodes = self.broker.filter(pod, names, self.now).nodes if names else []
        if not nodes:
            return
        node = nodes[0]
        made = claim(f"{pod.name}-x{self.chance.randrange(9999)}", node, self.free(node)[:count], pod=pod.uid)
        self.claims[made["metadata"]["name"]] = made
        self.undelivered.append(_event(made))
        pod = self.pods[pod.uid] = replace(pod, hosted_by_claims=(GPU,), version=pod.version + 1)
        self.undelivered.append(pod)
        if self.chance.random() < 0.6:
            self.tell()
        answer = self.broker.bind(pod.uid, node, self.now)
        for bound in binds(answer.effects):
            self._write(pod, bound)
        if answer.error:
            self._gone(made)

    def _write(self, pod: PodView, bound: Bind) -> None:
        assert GRANT not in bound.annotations
        if self.chance.random() < 0.15:
            self.broker.outcome(bound, "refused", self.now)
            self._gone(next(made for made in self.claims.values() if _owner(made) == pod.uid))
            return
        self.pods[pod.uid] = seen_bound(pod, bound)
        self.undelivered.append(self.pods[pod.uid])
        self.broker.outcome(bound, "written", self.now)

    def delete(self) -> None:
        if not self.pods:
            return
        uid = self.chance.choice(list(self.pods))
        del self.pods[uid]
        self.undelivered.append(PodDeleted(uid))

    def collect(self) -> None:
        """Garbage collection of claims whose pods are gone."""
        for made in list(self.claims.values()):
            if _owner(made) and _owner(made) not in self.pods:
                self._gone(made)

    def other(self) -> None:
        """A claim that a pod names itself comes or goes."""
        if "own" in self.claims:
            self._gone(self.claims["own"])
            return
        node = self.chance.choice(list(NODES))
        if self.free(node):
            self.claims["own"] = claim("own", node, self.free(node)[:1])
            self.undelivered.append(_event(self.claims["own"]))

    def tell(self) -> None:
        self.broker.observe(self.undelivered, self.now)
        self.undelivered = []

    def wait(self) -> None:
        self.now += self.chance.choice([0.5, 3.0])
        self.broker.step(self.now)

    def restart(self) -> None:
        if self.chance.random() < 0.5:
            self.broker = Broker.restore(self.broker.snapshot(self.now))
        else:
            self.start()

    def _gone(self, made: dict[str, Any]) -> None:
        del self.claims[made["metadata"]["name"]]
        self.undelivered.append(replace(_event(made), document=None))

    def check(self) -> None:
        """Once all events are delivered and offers have expired, the broker counts exactly what kube-scheduler does, or waiting plans more."""
        self.tell()
        self.collect()
        self.tell()
        self.now += 10_000.0
        self.broker.step(self.now)
        self.broker.step(self.now)
        assert not any(self.broker.drift.values())
        for name, inventory in self.broker.inventories.items():
            usage = self.broker.usage[name]
            assert len(inventory.devices) - len(usage.used) - usage.unattributed == len(self.free(name))


def _event(document: dict[str, Any]) -> ClusterObject:
    about = document["metadata"]
    name = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
    return ClusterObject(f"{document['kind']}.resource.k8s.io", name, json.dumps(document).encode())


def _devices(made: dict[str, Any], node: str) -> list[str]:
    results = made["status"]["allocation"]["devices"]["results"]
    return [result["device"] for result in results if result["pool"] == node]


def _owner(made: dict[str, Any]) -> str:
    return next((str(owner["uid"]) for owner in made["metadata"].get("ownerReferences", [])), "")


STEPS = (
    "create",
    "create",
    "schedule",
    "schedule",
    "schedule",
    "delete",
    "collect",
    "other",
    "tell",
    "wait",
    "restart",
)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_counts_follow_claims_whatever_happens_in_whatever_order(seed: int) -> None:
    world = Scheduler(Random(seed))
    world.start()
    for _ in range(60):
        getattr(world, world.chance.choice(STEPS))()
    world.check()
