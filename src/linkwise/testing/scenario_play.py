"""What may happen in a scenario: the verbs of its steps, played on a runner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

from linkwise.broker.broker import Broker
from linkwise.broker.replay import Runner, Way
from linkwise.broker.sights import NodeGone, NodeObject, PodGone
from linkwise.errors import InputError
from linkwise.model.views import NodeView
from linkwise.testing.scenario_checks import Checks
from linkwise.testing.scenario_words import (
    Words,
    held,
    named,
    node_sights,
    object_sight,
    only,
    pod_of,
    taken_pods,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.broker.replay import Decision
    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView

__all__ = ["Play"]

ANSWERED: Final = ("schedule", "assign", "prefer")
"""verbs that have an answer"""
BESIDE: Final = frozenset({"expect", "bind"})
"""what stands beside the verb of a step"""
START: Final = 1_700_000_000.0  # seconds since the epoch
STEP: Final = 10.0  # seconds from one step to the next


class Play:
    """A runner, and the nodes and pods of the story by the names that it gives them."""

    def __init__(self, settings: PlacingSettings, given: Words) -> None:
        self.runner = Runner(Broker(settings), START)
        self.nodes: dict[str, Words] = {}
        self.sick: dict[str, set[int]] = {}
        self.pods: dict[str, PodView] = {}
        self.version = 0
        for node in given.get("nodes", ()):
            self.join(node)
        self.runner.show(*map(object_sight, given.get("objects", ())))
        for words in self.nodes.values():
            self._take(words)
        for pod in given.get("pods", ()):
            self.create(pod)

    def step(self, raw: object) -> None:
        """Let one thing happen, and look at what came of it."""
        self.runner.now += STEP
        step = only(raw, {*VERBS, *ANSWERED, *BESIDE}, "a step")
        before, checks = len(self.runner.effects), Checks(self.runner)
        match _verb(step):
            case "schedule":
                pod = self._pod(step["schedule"])
                checks.look_ahead(pod, step.get("expect", {}))
                checks.decision = self.runner.place(pod, _way(step))
            case "assign":
                checks.decision = self.assign(step["assign"], _way(step))
            case "prefer":
                checks.preferred = self.prefer(step["prefer"])
            case verb if verb in VERBS:
                VERBS[verb](self, step[verb])
        checks.effects = self.runner.effects[before:]
        checks.check(step.get("expect", {}))

    def assign(self, raw: object, way: Way) -> Decision:
        """Somebody binds a pod to a node without asking where it may go."""
        words = only(raw, {"pod", "node"}, "assign")
        return self.runner.bind(self._now(named(words, "pod", "assign")), named(words, "node", "assign"), way)

    def prefer(self, raw: object) -> list[int]:
        """Which devices a node's agent would hand out, of those that kubelet has left."""
        words = only(raw, {"node", "available", "required", "size"}, "prefer")
        node = self._node(named(words, "node", "prefer")).name
        ids = [device.id for device in self.runner.broker.state.cluster.index.nodes[node].devices]
        available, required = ([ids[index] for index in words.get(key, ())] for key in ("available", "required"))
        chosen = self.runner.broker.preferred(node, available or ids, required, words["size"], self.runner.now)
        return [ids.index(device) for device in chosen]

    def create(self, raw: object) -> None:
        """A pod appears; one that holds devices is there already."""
        words = dict(raw) if isinstance(raw, dict) else {}
        pod = pod_of(raw, self.runner.now, self._next())
        if "holds" in words:
            pod = held(self.runner.broker.state, pod, named(words, "node", "pod"), words["holds"], self.runner.now)
        elif "node" in words:
            pod = replace(pod, node=words["node"], phase="Running")
        self.pods[pod.name] = pod
        self.runner.show(pod)

    def finish(self, name: str) -> None:
        """A pod runs to its end."""
        self._show(replace(self._now(name), phase="Succeeded"))

    def delete(self, name: str) -> None:
        """Somebody deletes a pod; its containers still run."""
        self._show(replace(self._now(name), deleting=True))

    def stopped(self, name: str) -> None:
        """The containers of a deleted pod have stopped, and it is gone."""
        self._show(replace(self._now(name), stopped=True))
        self.runner.show(PodGone(self.pods[name].uid))

    def shatter(self, words: object) -> None:
        """A device stops working."""
        node, device = _device(words)
        self.sick.setdefault(node, set()).add(device)
        self._take_stock(node)

    def mend(self, words: object) -> None:
        """A device works again."""
        node, device = _device(words)
        self.sick.setdefault(node, set()).discard(device)
        self._take_stock(node)

    def cordon(self, name: str) -> None:
        """A node takes no new pods."""
        self.runner.show(replace(self._node(name), unschedulable=True))

    def uncordon(self, name: str) -> None:
        """It takes them again."""
        self.runner.show(replace(self._node(name), unschedulable=False))

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
        self.runner.show(NodeGone(self._node(name).name))

    def read(self, words: Words) -> None:
        """A read tells how a bind ended of which nobody knew."""
        for name, found in words.items():
            if found not in {"bound", "unbound"}:
                raise InputError(f"read: a pod is found bound or unbound, not {found!r}")
            self.runner.read(self.pods[name].uid, bound=found == "bound")

    def restart(self, _: object) -> None:
        """The service starts again and knows what was written."""
        self.runner.restart()

    def _take_stock(self, node: str) -> None:
        """The node's inventory is written anew."""
        sights = node_sights(self.nodes[self._node(node).name], self.sick[node])
        inventory = [sight for sight in sights if isinstance(sight, NodeObject)]
        if not inventory:
            raise InputError(f"node {node} has no inventory that could tell which of its devices are sick")
        self.runner.show(*inventory)

    def _take(self, words: Words) -> None:
        if "taken" in words:
            view = next(sight for sight in node_sights(words) if isinstance(sight, NodeView))
            for pod in taken_pods(view, words["taken"]):
                self.create(pod)

    def _pod(self, raw: object) -> PodView:
        """A pod by its name, or one that is made now."""
        if isinstance(raw, str):
            return self._now(raw)
        self.create(raw)
        return self.pods[next(reversed(self.pods))]

    def _now(self, name: str) -> PodView:
        """The pod as the cluster has it."""
        if name not in self.pods:
            raise InputError(f"there is no pod {name!r}; {', '.join(self.pods)} are")
        found = self.runner.pod(self.pods[name].uid)
        return found or self.pods[name]

    def _node(self, name: str) -> NodeView:
        found = self.runner.broker.state.cluster.nodes.get(name)
        if found is None:
            raise InputError(f"there is no node {name!r}; {', '.join(self.nodes)} are")
        return found

    def _show(self, pod: PodView) -> None:
        self.runner.show(replace(pod, version=self._next()))

    def _next(self) -> int:
        self.version += 100  # a bind writes a version of its own
        return self.version


def _verb(step: Words) -> str:
    """What happens in a step; a step that only looks has none."""
    verbs = [key for key in step if key not in BESIDE]
    if len(verbs) > 1:
        raise InputError(f"{' and '.join(verbs)} are two steps")
    return verbs[0] if verbs else "expect"


def _way(step: Words) -> Way:
    """How the bind of a step goes."""
    said = step.get("bind", "written")
    found: Way | None = next((way for way in get_args(Way) if way == said), None)
    if found is None:
        raise InputError(f"bind: {said!r} is not known; {', '.join(get_args(Way))} are")
    return found


def _device(words: object) -> tuple[str, int]:
    found = only(words, {"node", "device"}, "device")
    return named(found, "node", "device"), named(found, "device", "device")


VERBS: Final[dict[str, Callable[[Play, Any], None]]] = {
    "create": Play.create,
    "finish": Play.finish,
    "delete": Play.delete,
    "stopped": Play.stopped,
    "break": Play.shatter,
    "mend": Play.mend,
    "cordon": Play.cordon,
    "uncordon": Play.uncordon,
    "join": Play.join,
    "leave": Play.leave,
    "read": Play.read,
    "restart": Play.restart,
}
