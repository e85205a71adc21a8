"""Nodes of a scenario, and the steps that change them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.errors import InputError
from linkwise.model.views import NodeView
from linkwise.testing.scenario.vocabulary import Words, named, node_events, only

if TYPE_CHECKING:
    from linkwise.sim.replay import Runner

__all__ = ["Nodes"]


class Nodes:
    """The nodes of a scenario by name, and the runner that observes them."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.nodes: dict[str, Words] = {}
        self.unhealthy: dict[str, set[int]] = {}
        self.allocated: dict[str, dict[str, list[int]]] = {}
        """indices of the devices that the agent reports as allocated, by node and pod UID"""

    def join(self, raw: object) -> None:
        """A node joins the cluster."""
        events = node_events(raw)
        view = next(event for event in events if isinstance(event, NodeView))
        words = dict(raw) if isinstance(raw, dict) else {}
        self.nodes[view.name] = words
        self.unhealthy[view.name] = set(words.get("unhealthy", ()))
        self.runner.show(*events)

    def leave(self, name: str) -> None:
        """A node leaves the cluster."""
        self.runner.show(NodeGone(self.node(name).name))

    def change(self, raw: object) -> None:
        """A node changes: labels, taints, CPU, or any other of its keys."""
        words = dict(raw) if isinstance(raw, dict) else {}
        name = self.node(named(words, "name", "change")).name
        self.nodes[name] |= words
        self.runner.show(*node_events(self.nodes[name], self.unhealthy[name]))

    def cordon(self, name: str) -> None:
        """A node is cordoned."""
        self.runner.show(replace(self.node(name), unschedulable=True))

    def uncordon(self, name: str) -> None:
        """A node is uncordoned."""
        self.runner.show(replace(self.node(name), unschedulable=False))

    def fail(self, name: str) -> None:
        """A node becomes not ready; pods that run there stay bound."""
        self.runner.show(replace(self.node(name), ready=False))

    def recover(self, name: str) -> None:
        """A node becomes ready again."""
        self.runner.show(replace(self.node(name), ready=True))

    def break_device(self, words: object) -> None:
        """A device becomes unhealthy."""
        node, device = _device(words)
        self.unhealthy.setdefault(node, set()).add(device)
        self.report_inventory(node)

    def repair_device(self, words: object) -> None:
        """A device becomes healthy again."""
        node, device = _device(words)
        self.unhealthy.setdefault(node, set()).discard(device)
        self.report_inventory(node)

    def report_inventory(self, node: str) -> None:
        """The node's inventory is written again."""
        events = node_events(self.nodes[self.node(node).name], self.unhealthy[node])
        inventory = [self._with_allocations(event) for event in events if isinstance(event, NodeObject)]
        if not inventory:
            raise InputError(f"node {node} has no inventory to report the health of its devices in")
        self.runner.show(*inventory)

    def node(self, name: str) -> NodeView:
        """The node as the cluster has it."""
        node = self.runner.broker.nodes.get(name)
        if node is None:
            raise InputError(f"unknown node {name!r}; the scenario has {', '.join(self.nodes) or 'none'}")
        return node

    def _with_allocations(self, event: NodeObject) -> NodeObject:
        ids = {device.index: device.id for device in self.runner.broker.usage[event.node].devices}
        allocations = [
            {"podUID": uid, "devices": [ids[index] for index in indices]}
            for uid, indices in self.allocated.get(event.node, {}).items()
        ]
        document = event.document if isinstance(event.document, dict) else {}
        return replace(event, document={**document, "status": {"allocations": allocations}}) if allocations else event


def _device(words: object) -> tuple[str, int]:
    place = only(words, {"node", "device"}, "device")
    return named(place, "node", "device"), named(place, "device", "device")
