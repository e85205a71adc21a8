"""API objects of a small cluster whose gangs are gated: plans are written on pods, and only ungated pods are tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.testing.cluster import FakeNode, binds, seen_bound, seen_steered, steers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect, FilterAnswer, Steer
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView

__all__ = ["GatedCluster"]

STEPS = 100_000


class GatedCluster:
    """Nodes and pods as the API server has them, a broker that observes them, and a scheduler that tries ungated pods."""

    def __init__(self, *nodes: FakeNode, settings: PlacingSettings | None = None, now: float = 10.0) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods: dict[str, PodView] = {}
        self.settings, self.now = settings, now
        self.queued: dict[str, Steer] = {}
        """by name: what is to be written, in order"""
        self.effects: list[Effect] = []
        self.broker = Broker(settings)
        self.start()

    def start(self) -> None:
        """Start a broker as the service does; what was not written is lost with the earlier one."""
        self.broker = Broker(self.settings)
        self.queued.clear()
        self.broker.see([event for node in self.nodes.values() for event in node.events()])
        self.broker.see(self.shared_objects())
        self.broker.see(self.pods.values())
        while self.broker.recover(self.now):
            pass
        self.take(self.broker.step(self.now))
        self.take(self.broker.unanswered())

    def shared_objects(self) -> Iterable[WatchEvent]:
        """Objects that a broker observes at its start, beside nodes and pods."""
        return ()

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out; of two about one pod the later counts."""
        effects = tuple(effects)
        self.effects += effects
        self.queued |= {steer.name: steer for steer in steers(effects)}

    def see(self, *events: WatchEvent) -> None:
        """Observe something, and let the broker work."""
        self.take(self.broker.observe(events, self.now))
        self.step()

    def step(self, seconds: float = 0.0) -> None:
        """Let time pass, and the broker work."""
        self.now += seconds
        self.take(self.broker.step(self.now, STEPS))

    def create(self, *pods: PodView) -> None:
        """Create pods, one after the other."""
        for pod in pods:
            self.pods[pod.name] = pod
            self.see(pod)

    def write(self, count: int | None = None) -> list[str]:
        """Write the next plans to their pods, and observe them; returns the names."""
        names = list(self.queued)[:count]
        for name in names:
            steer = self.queued.pop(name)
            if name in self.pods and self.pods[name].uid == steer.uid and not self.pods[name].node:
                self.pods[name] = seen_steered(self.pods[name], steer)
                self.see(self.pods[name])
        return names

    def filter(self, name: str, names: list[str] | None = None) -> FilterAnswer:
        """Try a pod on all nodes, or on these."""
        answer = self.broker.filter(self.pods[name], list(self.nodes) if names is None else names, self.now)
        self.take(answer.effects)
        return answer

    def bind(self, name: str) -> bool:
        """Try a pod as kube-scheduler does, the nominated node first, and bind it if it is offered a node."""
        pod = self.pods[name]
        if pod.gates or pod.node:
            return False
        nominated = [pod.nominated] if pod.nominated in self.nodes else []
        nodes = (self.filter(name, nominated).nodes if nominated else []) or self.filter(name).nodes
        if not nodes:
            return False
        answer = self.broker.bind(pod.uid, nodes[0], self.now)
        self.take(answer.effects)
        for bound in binds(answer.effects):
            self.pods[name] = replace(seen_bound(pod, bound), nominated="")
            self.take(self.broker.outcome(bound, "written", self.now))
            self.see(self.pods[name])
            return True
        return False

    def bind_all(self) -> None:
        """Try all pods once, in order."""
        for name in list(self.pods):
            self.bind(name)

    def delete(self, name: str) -> None:
        """Remove a pod at once."""
        pod = self.pods.pop(name)
        self.see(replace(pod, deleting=True, stopped=True, version=pod.version + 1), PodDeleted(pod.uid))

    def bound(self) -> dict[str, str]:
        """Nodes of bound pods, by name."""
        return {name: pod.node for name, pod in self.pods.items() if pod.node}

    def gated(self) -> set[str]:
        """Names of pods that have a gate."""
        return {name for name, pod in self.pods.items() if pod.gates}

    def nominated(self) -> dict[str, str]:
        """Nominated nodes, by name."""
        return {name: pod.nominated for name, pod in self.pods.items() if pod.nominated}

    def events(self, reason: str) -> list[str]:
        """Names of the pods with events of that reason."""
        return [effect.name for effect in self.effects if getattr(effect, "reason", "") == reason]
