"""State machine of claims: pods and gangs whose claims and gates are written late, in part or never, beside claims of others.

The scheduler allocates as kube-scheduler does, in any order, and only what is free. After every step no device is allocated
twice, as the objects show it. At the end nothing is stuck: when everything else is gone, every pod runs, and gangs are whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from linkwise.broker.broker import Broker
from linkwise.broker.snapshot import BrokerState
from linkwise.testing.cluster import in_gang
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot
from support.builders.dra_objects import claim
from support.claim_cluster import ClaimCluster, claim_node, claim_pod
from support.properties.broker_invariants import must

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.views import PodView

__all__ = ["ClaimWorld"]

MOST_PODS = 10
DEVICES = 4


class ClaimWorld:
    """A cluster of two or three nodes of four devices."""

    moves: ClassVar[Mapping[str, Callable[[ClaimWorld, int, int, int], None]]] = {}

    def __init__(self, nodes: int) -> None:
        self.cluster = ClaimCluster(*(claim_node(f"n{number}", DEVICES) for number in range(2 + nodes % 2)))
        self.gangs: dict[str, set[str]] = {}
        """names of the members that were created"""
        self._number = 0

    def step(self, move: str, a: int, b: int, c: int) -> None:
        """Make one move, and look at everything."""
        self.moves[move](self, a, b, c)
        self.check()

    def check(self) -> None:
        """No device is allocated twice, and no pod without a claim was let in."""
        used = self.cluster.used()
        for name, pod in self.cluster.pods.items():
            if pod.node:
                must(self.cluster.devices_of(name), f"{name} runs without devices")
        for node in self.cluster.nodes:
            there = self.cluster.broker.usage.get(node)
            taken = {f"GPU-{device}" for pool, device in used if pool == node}
            must(there is None or taken <= set(there.used), f"{taken} of {node} are allocated and look free")

    def end(self) -> None:
        """When nothing else has devices, every pod gets its own, and no gate or claim is left over."""
        for key in [key for key, document in self.cluster.claims.items() if "plan" not in str(document["metadata"])]:
            self.cluster.delete_claim(key)
        for _ in range(2 * MOST_PODS):
            self.settle()
            waiting = [name for name, pod in self.cluster.pods.items() if not pod.node]
            if not waiting:
                return
            bound = [name for name, pod in self.cluster.pods.items() if pod.node]
            must(bound, f"{waiting} are stuck")
            for name in bound:
                self.remove(name)
        must(not self.cluster.pods, "the cluster does not come to rest")

    def settle(self) -> None:
        """Write and schedule until nothing changes, for longer than any plan or backoff lasts."""
        for _ in range(3):
            self.cluster.step(130.0)
            self.cluster.settle(60)
            self.check()

    def remove(self, name: str) -> None:
        """Delete a pod; the rest of its gang goes with it, as its job is deleted."""
        gang = next((members for members in self.gangs.values() if name in members), {name})
        for each in sorted(gang & self.cluster.pods.keys()):
            self.cluster.remove(each)

    # moves

    def create(self, a: int, b: int, _c: int) -> None:
        """Somebody creates a pod."""
        if len(self.cluster.pods) < MOST_PODS:
            pod = self._pod(1 + a % DEVICES)
            self.cluster.create(replace(pod, priority=b % 2))

    def create_gang(self, a: int, b: int, _c: int) -> None:
        """Somebody creates a gang of two or three."""
        size = 2 + a % 2
        if len(self.cluster.pods) + size > MOST_PODS:
            return
        pods = [self._pod(1 + b % 2) for _ in range(size)]
        name = f"g{self._number}"
        self.gangs[name] = {pod.name for pod in pods}
        for pod, member in zip(pods, in_gang(*pods, least=size, name=name), strict=True):
            self.cluster.create(replace(member, annotations={**pod.annotations, **member.annotations}))

    def write_claims(self, a: int, _b: int, _c: int) -> None:
        """Some claims are written."""
        self.cluster.write_claims(1 + a % 3)

    def refuse_claim(self, _a: int, _b: int, c: int) -> None:
        """The API server refuses a claim."""
        if self.cluster.to_write and c % 2:
            name = next(iter(self.cluster.to_write))
            effect = self.cluster.to_write.pop(name)
            cluster = self.cluster
            if effect.text:
                cluster.take(cluster.broker.claim_refused(effect.uid, "exceeded quota", cluster.now))
                cluster.step()

    def write(self, a: int, _b: int, _c: int) -> None:
        """Some plans are written on their pods, and gates removed."""
        self.cluster.write(1 + a % 3)

    def allocate(self, a: int, _b: int, c: int) -> None:
        """kube-scheduler allocates the claim of a pod, and binds the pod, or is late with that."""
        if names := list(self.cluster.pods):
            name = names[a % len(names)]
            if c % 3:
                self.cluster.schedule(name)
            else:
                self.cluster.allocate(name)

    def clear(self, a: int, _b: int, _c: int) -> None:
        """kube-scheduler clears the allocation of a pod that can't run where it is."""
        pending = {pod.uid for pod in self.cluster.pods.values() if not pod.node}
        own = [
            document
            for document in self.cluster.claims.values()
            if any(owner["uid"] in pending for owner in document["metadata"].get("ownerReferences", ()))
        ]
        if own:
            self.cluster.put_claim({**own[a % len(own)], "status": {}})

    def claim(self, a: int, b: int, _c: int) -> None:
        """Somebody else gets a device that is free."""
        node, device = f"n{a % len(self.cluster.nodes)}", f"gpu-{b % DEVICES}"
        if (node, device) not in self.cluster.used():
            self.cluster.put_claim(claim(f"foreign-{node}-{device}", node, [device]))

    def release(self, a: int, _b: int, _c: int) -> None:
        """Somebody else gives devices up, or edits a claim of ours away."""
        if keys := list(self.cluster.claims):
            key = keys[a % len(keys)]
            if key.startswith("default/foreign") or not self.cluster.claims[key].get("status"):
                self.cluster.delete_claim(key)

    def delete(self, a: int, _b: int, _c: int) -> None:
        """A pod or a gang is deleted."""
        if names := list(self.cluster.pods):
            self.remove(names[a % len(names)])

    def restart(self, a: int, b: int, _c: int) -> None:
        """The service is killed after some of the writes."""
        self.cluster.write_claims(a % 3)
        self.cluster.write(b % 3)
        self.cluster.start()

    def continue_elsewhere(self, _a: int, _b: int, _c: int) -> None:
        """The state moves to another process."""
        taken = self.cluster.broker.snapshot(self.cluster.now)
        self.cluster.broker = Broker.restore(decode_snapshot(encode_snapshot(taken), BrokerState))
        must(self.cluster.broker.snapshot(self.cluster.now) == taken, "a restored state is another one")

    def wait(self, a: int, _b: int, _c: int) -> None:
        """Time passes."""
        self.cluster.step((0.5, 5.0, 61.0)[a % 3])

    def _pod(self, count: int) -> PodView:
        self._number += 1
        pod = claim_pod(f"p{self._number}", count)
        return replace(pod, created=float(self._number))


ClaimWorld.moves = {
    name: getattr(ClaimWorld, name)
    for name in (
        "create",
        "create_gang",
        "write_claims",
        "refuse_claim",
        "write",
        "allocate",
        "clear",
        "claim",
        "release",
        "delete",
        "restart",
        "continue_elsewhere",
        "wait",
    )
}
