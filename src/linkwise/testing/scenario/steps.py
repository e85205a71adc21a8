"""What may happen in a scenario: the verbs of its steps, played on a runner."""

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
from linkwise.testing.scenario.groups import group_name, members_of
from linkwise.testing.scenario.nodes import Nodes
from linkwise.testing.scenario.vocabulary import Words, held, named, node_sights, object_sight, only, pod_of, taken_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.model.settings import PlacingSettings
    from linkwise.model.views import PodView
    from linkwise.sim.replay import Decision

__all__ = ["Play"]

ANSWERED: Final = ("schedule", "assign", "prefer", "preempt")
"""verbs that have an answer"""
BESIDE: Final = frozenset({"expect", "bind", "order", "among"})
"""what stands beside the verb of a step"""
START: Final = 1_700_000_000.0  # seconds since the epoch
STEP: Final = 10.0  # seconds from one step to the next


class Play(Nodes):
    """A runner, and the nodes, pods and groups of the story by the names that it gives them.

    Args:
        settings: of placing.
        given: what there is before the first step.
        shuffle: 0 for the order in which members of groups are written; any other number for an order of its own, in
            which they are seen and tried.
    """

    def __init__(self, settings: PlacingSettings, given: Words, shuffle: int = 0) -> None:
        super().__init__(Runner(Broker(settings), START))
        self.pods: dict[str, PodView] = {}
        self.groups: dict[str, list[str]] = {}
        self.version = 0
        self._born: Counter[str] = Counter()
        self._dice = Random(shuffle) if shuffle else None  # noqa: S311 - nothing to guess here
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
        checks.effects = self.runner.effects[before:]
        checks.check(step.get("expect", {}))

    def _schedule(self, step: Words, checks: Checks) -> None:
        """Try a pod, or all members of a group that wait."""
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
        """In which order members are tried."""
        members = [name for name in self.groups[group] if self.runner.pod(self.pods[name].uid)]
        if isinstance(order, list):
            return order
        if order == "reversed":
            return members[::-1]
        if order is not None:
            raise InputError(f"order: a list of members is expected, or reversed, found {order!r}")
        return self._shuffled(members)

    def _shuffled(self, names: Sequence[str]) -> Sequence[str]:
        return self._dice.sample(names, len(names)) if self._dice else names

    def assign(self, raw: object, way: Way) -> Decision:
        """Somebody binds a pod to a node without asking where it may go."""
        words = only(raw, {"pod", "node"}, "assign")
        return self.runner.bind(self._now(named(words, "pod", "assign")), named(words, "node", "assign"), way)

    def prefer(self, raw: object) -> list[int]:
        """Which devices a node's agent would hand out, of those that kubelet has left."""
        words = only(raw, {"node", "available", "required", "size"}, "prefer")
        node = self.node(named(words, "node", "prefer")).name
        ids = [device.id for device in self.runner.broker.usage[node].devices]
        available, required = ([ids[index] for index in words.get(key, ())] for key in ("available", "required"))
        chosen = self.runner.broker.preferred(node, available or ids, required, words["size"], self.runner.now)
        return [ids.index(device) for device in chosen]

    def preempt(self, raw: object) -> dict[str, list[str]]:
        """The scheduler asks on which nodes it would help a pod to evict others."""
        words = only(raw, {"pod", "victims"}, "preempt")
        pod, victims = self._now(named(words, "pod", "preempt")), named(words, "victims", "preempt")
        uids = {node: [self.pods[name].uid for name in names] for node, names in victims.items()}
        return {node: victims[node] for node in self.runner.broker.preempt(pod, uids, self.runner.now)}

    def create(self, raw: object) -> None:
        """A pod appears, or all members of a group; one that holds devices is there already."""
        group = group_name(raw)
        if not group:
            self._made(raw)
            return
        members = {self._called(words): words for words in members_of(raw)}
        self.groups.setdefault(group, []).extend(name for name in members if name not in self.groups[group])
        for name in self._shuffled(list(members)):
            self._made(members[name])

    def _made(self, raw: object) -> PodView:
        words = dict(raw) if isinstance(raw, dict) else {}
        pod = pod_of(raw, self.runner.now, self._next())
        self._born[pod.uid] += 1
        if self._born[pod.uid] > 1:  # one of that name was there before
            pod = replace(pod, uid=f"{pod.uid}+{self._born[pod.uid]}")
        if "holds" in words:
            pod = held(self.runner.broker, pod, named(words, "node", "pod"), words["holds"], self.runner.now)
        elif "node" in words:
            pod = replace(pod, node=words["node"], phase="Running")
        self.pods[pod.name] = self.pods[f"{pod.namespace}/{pod.name}"] = pod
        self.runner.show(pod)
        return pod

    def finish(self, name: str) -> None:
        """A pod runs to its end, or all members of a group do."""
        for pod in self._each(name):
            self._show(replace(pod, phase="Succeeded"))

    def delete(self, name: str) -> None:
        """Somebody deletes a pod, or all members of a group; their containers still run."""
        for pod in self._each(name):
            self._show(replace(pod, deleting=True))

    def stopped(self, name: str) -> None:
        """The containers of a deleted pod have stopped, and it is gone; or those of a whole group."""
        for pod in self._each(name):
            self._show(replace(pod, stopped=True))
            self.runner.show(PodDeleted(pod.uid))

    def ungate(self, name: str) -> None:
        """The scheduling gates of a pod are taken away, or of all members of a group."""
        for pod in self._each(name):
            self._show(replace(pod, gates=()))

    def handed(self, raw: object) -> None:
        """A node's agent saw which devices kubelet gave to a pod."""
        words = only(raw, {"pod", "devices"}, "handed")
        pod = self._now(named(words, "pod", "handed"))
        self.given_out.setdefault(pod.node, {})[pod.uid] = named(words, "devices", "handed")
        self.take_stock(pod.node)

    def let_pass(self, seconds: float) -> None:
        """Time goes by, and the service does what is due."""
        self.runner.now += seconds
        self.runner.work()

    def read(self, words: Words) -> None:
        """A read tells how a bind ended of which nobody knew."""
        for name, found in words.items():
            if found not in {"bound", "unbound"}:
                raise InputError(f"read: a pod is found bound or unbound, not {found!r}")
            self.runner.read(self.pods[name].uid, bound=found == "bound")

    def restart(self, _: object) -> None:
        """The service starts again and knows what was written."""
        self.runner.restart()

    def _take(self, words: Words) -> None:
        if "taken" in words:
            view = next(sight for sight in node_sights(words) if isinstance(sight, NodeView))
            for pod in taken_pods(view, words["taken"]):
                self.create(pod)

    def _called(self, words: Words) -> str:
        """What a member is called in the story."""
        namespace, name = words.get("namespace", "default"), words["name"]
        return name if namespace == "default" else f"{namespace}/{name}"

    def _each(self, name: str) -> list[PodView]:
        """The pod, or the members of the group that are there."""
        if name not in self.groups:
            return [self._now(name)]
        there = [member for member in self.groups[name] if self.runner.pod(self.pods[member].uid)]
        return [self._now(member) for member in there]

    def _pod(self, raw: object) -> PodView:
        """A pod by its name, or one that is made now."""
        return self._now(raw) if isinstance(raw, str) else self._made(raw)

    def _now(self, name: str) -> PodView:
        """The pod as the cluster has it."""
        if name not in self.pods:
            raise InputError(f"there is no pod {name!r}; {', '.join(self.pods)} are")
        found = self.runner.pod(self.pods[name].uid)
        return found or self.pods[name]

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


VERBS: Final[dict[str, Callable[[Play, Any], None]]] = {
    "create": Play.create,
    "finish": Play.finish,
    "delete": Play.delete,
    "stopped": Play.stopped,
    "ungate": Play.ungate,
    "handed": Play.handed,
    "break": Play.shatter,
    "mend": Play.mend,
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
