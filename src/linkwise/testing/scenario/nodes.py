"""What happens to the nodes of a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.watch_events import NodeGone, NodeObject
from linkwise.errors import InputError
from linkwise.model.views import NodeView
from linkwise.testing.scenario.vocabulary import Words, named, node_sights, only

if TYPE_CHECKING:
    from linkwise.sim.replay import Runner

__all__ = ["Nodes"]


class Nodes:
    """The nodes of the story by the names that it gives them, and the runner that shows them."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.nodes: dict[str, Words] = {}
        self.sick: dict[str, set[int]] = {}
        self.given_out: dict[str, dict[str, list[int]]] = {}
        """by node and pod UID the devices that the agent saw in use"""

    def join(self, raw: object) -> None:
        """A node appears."""
        sights = node_sights(raw)
        view = next(sight for sight in sights if isinstance(sight, NodeView))
        words = dict(raw) if isinstance(raw, dict) else {}
        self.nodes[view.name] = words
        self.sick[view.name] = set(words.get("sick", ()))
        self.runner.show(*sights)

    def leave(self, name: str) -> None:
        """A node is gone."""
        self.runner.show(NodeGone(self.node(name).name))

    def change(self, raw: object) -> None:
        """A node is changed: labels, taints, CPU, or whatever it is made of."""
        words = dict(raw) if isinstance(raw, dict) else {}
        name = self.node(named(words, "name", "change")).name
        self.nodes[name] |= words
        self.runner.show(*node_sights(self.nodes[name], self.sick[name]))

    def cordon(self, name: str) -> None:
        """A node takes no new pods."""
        self.runner.show(replace(self.node(name), unschedulable=True))

    def uncordon(self, name: str) -> None:
        """It takes them again."""
        self.runner.show(replace(self.node(name), unschedulable=False))

    def fail(self, name: str) -> None:
        """A node is not ready any more; what runs there may run on."""
        self.runner.show(replace(self.node(name), ready=False))

    def recover(self, name: str) -> None:
        """It is ready again."""
        self.runner.show(replace(self.node(name), ready=True))

    def shatter(self, words: object) -> None:
        """A device stops working."""
        node, device = _device(words)
        self.sick.setdefault(node, set()).add(device)
        self.take_stock(node)

    def mend(self, words: object) -> None:
        """A device works again."""
        node, device = _device(words)
        self.sick.setdefault(node, set()).discard(device)
        self.take_stock(node)

    def take_stock(self, node: str) -> None:
        """The node's inventory is written anew."""
        sights = node_sights(self.nodes[self.node(node).name], self.sick[node])
        inventory = [self._with_use(sight) for sight in sights if isinstance(sight, NodeObject)]
        if not inventory:
            raise InputError(f"node {node} has no inventory that could tell which of its devices are sick")
        self.runner.show(*inventory)

    def node(self, name: str) -> NodeView:
        """The node as the cluster has it."""
        found = self.runner.broker.nodes.get(name)
        if found is None:
            raise InputError(f"there is no node {name!r}; {', '.join(self.nodes)} are")
        return found

    def _with_use(self, sight: NodeObject) -> NodeObject:
        ids = {device.index: device.id for device in self.runner.broker.usage[sight.node].devices}
        used = [
            {"podUID": uid, "devices": [ids[index] for index in indices]}
            for uid, indices in self.given_out.get(sight.node, {}).items()
        ]
        document = sight.document if isinstance(sight.document, dict) else {}
        return replace(sight, document={**document, "status": {"allocations": used}}) if used else sight


def _device(words: object) -> tuple[str, int]:
    found = only(words, {"node", "device"}, "device")
    return named(found, "node", "device"), named(found, "device", "device")
