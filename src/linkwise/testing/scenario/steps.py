"""Steps of a scenario: the table of verbs, and the play that carries them out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, get_args

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import PodDeleted
from linkwise.errors import InputError
from linkwise.model.views import NodeView
from linkwise.sim.replay import Runner, Way
from linkwise.testing.scenario.expectations import Checks
from linkwise.testing.scenario.vocabulary import (
    Nodes,
    Words,
    bound_pod,
    group_name,
    members_of,
    named,
    node_events,
    object_event,
    only,
    pod_of,
    taken_pods,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision

__all__ = ["Play"]

ANSWERED: Final = ("schedule", "assign", "prefer", "preempt")
"""verbs whose answer a step can check"""
BESIDE: Final = frozenset({"expect", "bind", "order", "among"})
"""keys of a step other than its verb"""
START: Final = 1_700_000_000.0  # seconds since the epoch
STEP: Final = 10.0  # seconds from one step to the next


class Play(Nodes):
    """A scenario in progress: the runner, and nodes, pods and groups by the names of the scenario.

    Args:
        settings: settings of placing.
        given: the cluster before the first step.
        shuffle: 0 to observe and schedule members of groups in the order of the file; any other number seeds a random
            order.
    """

    def __init__(self, settings: PlacingSettings, given: Words, shuffle: int = 0) -> None:
        super().__init__(Runner(Broker(settings), START))
        self.pods: dict[str, PodView] = {}
        self.groups: dict[str, list[str]] = {}
        self.version = 0
        self._created: Counter[str] = Counter()
        self._dice = Random(shuffle) if shuffle else None  # noqa: S311 - nothing to guess here
        for node in given.get("nodes", ()):
            self.join(node)
        self.runner.show(*map(object_event, given.get("objects", ())))
        for words in self.nodes.values():
            self._take(words)
        for pod in given.get("pods", ()):
            self.create(pod)

    def step(self, raw: object) -> None:
        """Carry out one step and check its expectations."""
        self.runner.now += STEP
        step = only(raw, {*VERBS, *ANSWERED, *BESIDE}, "a step")
        before, checks = len(self.runner.effects), Checks(self.runner, self.pods, self.groups)
        match _verb(step):
            case "schedule":
                self._schedule(step, checks)
            case "assign":
                checks.decision = self.assign(step["assign"], _way(step))
            case "prefer":
                checks.preferred = self.prefer(step["prefer"])
            case "preempt":
                checks.helped = self.preempt(step["preempt"])
            case verb if verb in VERBS:
                VERBS[verb](self, step[verb])
        if self.runner.broker.next_deadline() == 0.0:
            self.runner.work()  # as the service does between two requests
        checks.effects = self.runner.effects[before:]
        checks.check(step.get("expect", {}))

    def _schedule(self, step: Words, checks: Checks) -> None:
        """Schedule a pod, or all pending members of a group."""
        name, among = step["schedule"], step.get("among")
        if isinstance(name, dict) and group_name(name):
            self.create(name)
            name = group_name(name)
        if isinstance(name, str) and name in self.groups:
            checks.group = name
            checks.decisions = {
                member: self.runner.place(self._now(member), _way(step), among)
                for member in self._order(name, step.get("order"))
                if not self._now(member).node
            }
            return
        pod = self._pod(name)
        checks.look_ahead(pod, step.get("expect", {}))
        checks.decision = self.runner.place(pod, _way(step), among)

    def _order(self, group: str, order: object) -> Sequence[str]:
        """The order in which members are scheduled."""
        members = [name for name in self.groups[group] if self.runner.pod(self.pods[name].uid)]
        if isinstance(order, list):
            return order
        if order == "reversed":
            return members[::-1]
        if order is not None:
            raise InputError(f"order: expected a list of members or 'reversed', found {order!r}")
        return self._shuffled(members)

    def _shuffled(self, names: Sequence[str]) -> Sequence[str]:
        return self._dice.sample(names, len(names)) if self._dice else names

    def assign(self, raw: object, way: Way) -> Decision:
        """Another client binds a pod to a node without a filter call."""
        words = only(raw, {"pod", "node"}, "assign")
        return self.runner.bind(self._now(named(words, "pod", "assign")), named(words, "node", "assign"), way)

    def prefer(self, raw: object) -> list[int]:
        """The devices that a node's agent would allocate, of those that kubelet has available."""
        words = only(raw, {"node", "available", "required", "size"}, "prefer")
        node = self.node(named(words, "node", "prefer")).name
        ids = [device.id for device in self.runner.broker.usage[node].devices]
        available, required = ([ids[index] for index in words.get(key, ())] for key in ("available", "required"))
        chosen = self.runner.broker.preferred(node, available or ids, required, words["size"], self.runner.now)
        return [ids.index(device) for device in chosen]

    def preempt(self, raw: object) -> dict[str, list[str]]:
        """The scheduler asks on which nodes preemption helps a pod, and which pods to evict there."""
        words = only(raw, {"pod", "victims"}, "preempt")
        pod, victims = self._now(named(words, "pod", "preempt")), named(words, "victims", "preempt")
        uids = {node: [self.pods[name].uid for name in names] for node, names in victims.items()}
        chosen = self.runner.broker.preempt(pod, uids, self.runner.now)
        names = {known.uid: known.name for known in self.pods.values()}
        return {node: sorted(names[uid] for uid in on_node) for node, on_node in chosen.items()}

    def create(self, raw: object) -> None:
        """Create a pod or all members of a group; a pod that holds devices is running already."""
        group = group_name(raw)
        if not group:
            self._create_pod(raw)
            return
        members = {self._name_of(words): words for words in members_of(raw)}
        self.groups.setdefault(group, []).extend(name for name in members if name not in self.groups[group])
        for name in self._shuffled(list(members)):
            self._create_pod(members[name])

    def _create_pod(self, raw: object) -> PodView:
        words = dict(raw) if isinstance(raw, dict) else {}
        pod = pod_of(raw, self.runner.now, self._next())
        self._created[pod.uid] += 1
        if self._created[pod.uid] > 1:  # a pod of that name existed before
            pod = replace(pod, uid=f"{pod.uid}+{self._created[pod.uid]}")
        if "holds" in words:
            pod = bound_pod(self.runner.broker, pod, named(words, "node", "pod"), words["holds"], self.runner.now)
        elif "node" in words:
            pod = replace(pod, node=words["node"], phase="Running")
        self.pods[pod.name] = self.pods[f"{pod.namespace}/{pod.name}"] = pod
        self.runner.show(pod)
        return pod

    def finish(self, name: str) -> None:
        """A pod succeeds, or all members of a group do."""
        for pod in self._each(name):
            self._show(replace(pod, phase="Succeeded"))

    def delete(self, name: str) -> None:
        """A pod or all members of a group are deleted; their containers still run."""
        for pod in self._each(name):
            self._show(replace(pod, deleting=True))

    def stopped(self, name: str) -> None:
        """The containers of a deleted pod or group have stopped, and the pods are gone."""
        for pod in self._each(name):
            self._show(replace(pod, stopped=True))
            self.runner.show(PodDeleted(pod.uid))

    def ungate(self, name: str) -> None:
        """The scheduling gates of a pod or of all members of a group are removed."""
        for pod in self._each(name):
            self._show(replace(pod, gates=()))

    def handed(self, raw: object) -> None:
        """A node's agent reports the devices that kubelet allocated to a pod."""
        words = only(raw, {"pod", "devices"}, "handed")
        pod = self._now(named(words, "pod", "handed"))
        self.allocated.setdefault(pod.node, {})[pod.uid] = named(words, "devices", "handed")
        self.report_inventory(pod.node)

    def let_pass(self, seconds: float) -> None:
        """Time passes, and the service handles expired deadlines."""
        self.runner.now += seconds
        self.runner.work()

    def read(self, words: Words) -> None:
        """A read of the pod reveals the outcome of a bind that was unknown."""
        for name, outcome in words.items():
            if outcome not in {"bound", "unbound"}:
                raise InputError(f"read: expected bound or unbound, found {outcome!r}")
            self.runner.read(self.pods[name].uid, bound=outcome == "bound")

    def restart(self, _: object) -> None:
        """The service restarts and rebuilds its state from the cluster."""
        self.runner.restart()

    def _take(self, words: Words) -> None:
        if "taken" in words:
            view = next(event for event in node_events(words) if isinstance(event, NodeView))
            for pod in taken_pods(view, words["taken"]):
                self.create(pod)

    def _name_of(self, words: Words) -> str:
        """The name of a member in the scenario."""
        namespace, name = words.get("namespace", "default"), words["name"]
        return name if namespace == "default" else f"{namespace}/{name}"

    def _each(self, name: str) -> list[PodView]:
        """The pod, or the existing members of the group."""
        if name not in self.groups:
            return [self._now(name)]
        return [self._now(member) for member in self.groups[name] if self.runner.pod(self.pods[member].uid)]

    def _pod(self, raw: object) -> PodView:
        """A pod by its name, or a new one."""
        return self._now(raw) if isinstance(raw, str) else self._create_pod(raw)

    def _now(self, name: str) -> PodView:
        """The pod as the cluster has it."""
        if name not in self.pods:
            raise InputError(f"unknown pod {name!r}; the scenario has {', '.join(self.pods) or 'none'}")
        return self.runner.pod(self.pods[name].uid) or self.pods[name]

    def _show(self, pod: PodView) -> None:
        self.runner.show(replace(pod, version=self._next()))

    def _next(self) -> int:
        self.version += 100  # a bind writes a version of its own
        return self.version


def _verb(step: Words) -> str:
    """The verb of a step; a step that only checks has none."""
    verbs = [key for key in step if key not in BESIDE]
    if len(verbs) > 1:
        raise InputError(f"a step has one verb, found {' and '.join(verbs)}")
    return verbs[0] if verbs else "expect"


def _way(step: Words) -> Way:
    """The outcome of the bind of a step."""
    word = step.get("bind", "written")
    way: Way | None = next((way for way in get_args(Way) if way == word), None)
    if way is None:
        raise InputError(f"bind: unknown outcome {word!r}; use {', '.join(get_args(Way))}")
    return way


VERBS: Final[dict[str, Callable[[Play, Any], None]]] = {
    "create": Play.create,
    "finish": Play.finish,
    "delete": Play.delete,
    "stopped": Play.stopped,
    "ungate": Play.ungate,
    "handed": Play.handed,
    "break": Play.break_device,
    "mend": Play.repair_device,
    "cordon": Play.cordon,
    "uncordon": Play.uncordon,
    "fail": Play.fail,
    "recover": Play.recover,
    "change": Play.change,
    "join": Play.join,
    "leave": Play.leave,
    "read": Play.read,
    "restart": Play.restart,
    "pass": Play.let_pass,
}
