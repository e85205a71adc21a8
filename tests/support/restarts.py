"""API objects of a small cluster that brokers come and go on: what one writes is all that the next one knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.testing.cluster import FakeNode, binds, seen_bound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Bind
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView

__all__ = ["ApiObjects"]


class ApiObjects:
    """Nodes and pods as the API server has them, and the broker that observes them."""

    def __init__(
        self, nodes: Iterable[FakeNode], pods: Iterable[PodView], settings: PlacingSettings | None = None
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods = {pod.name: pod for pod in pods}
        self.settings, self.now = settings, 1000.0
        self.broker = self.start()

    def start(self) -> Broker:
        """Start a broker as the service does: lists, recovery, then wake-ups."""
        self.broker = Broker(self.settings)
        self.broker.see([event for node in self.nodes.values() for event in node.events()])
        self.broker.see(self.pods.values())
        while self.broker.recover(self.now):
            pass
        self.broker.step(self.now)
        return self.broker

    def add(self, *pods: PodView) -> None:
        """Create pods that the broker observes."""
        self.pods |= {pod.name: pod for pod in pods}
        self.broker.observe(pods, self.now)

    def send(self, name: str) -> Bind | None:
        """Try a pod: the bind that would be sent, None if it is refused."""
        pod, self.now = self.pods[name], self.now + 0.1
        if pod.node:
            return None
        nodes = self.broker.filter(pod, list(self.nodes), self.now).nodes
        return binds(self.broker.bind(pod.uid, nodes[0], self.now).effects)[0] if nodes else None

    def land(self, name: str, bind: Bind) -> None:
        """Write a bind to the pod; the broker does not observe it yet."""
        self.pods[name] = seen_bound(self.pods[name], bind)

    def place(self, name: str) -> PodView:
        """Try a pod, and bind it if it is offered a node."""
        if bind := self.send(name):
            self.land(name, bind)
            self.broker.outcome(bind, "written", self.now)
            self.broker.observe([self.pods[name]], self.now)
        return self.pods[name]

    def delete(self, name: str) -> None:
        """Remove a pod at once."""
        pod = self.pods.pop(name)
        self.broker.observe([replace(pod, deleting=True, stopped=True, version=pod.version + 1)], self.now)

    def bound(self, prefix: str) -> list[str]:
        """Names of bound pods with that prefix."""
        return [name for name, pod in self.pods.items() if pod.node and name.startswith(prefix)]
