"""Strategies of random calls to a broker on a small cluster, and of the keys that make groups."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from hypothesis import strategies as st

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted
from linkwise.explain.group.group import explain_group
from linkwise.explain.inspect import inspect_nodes
from linkwise.explain.node import explain_node
from linkwise.explain.pod import explain_pod
from linkwise.model.verdict import Outcome
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.node import Mode

__all__ = ["ALONE", "GROUPS", "OBJECTS", "RACK", "Call", "Caller", "calls"]

ASKS: Final = (
    {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": "2"},
    {"nvidia.com/gpu": "8"},
    {"aliyun.com/gpu-mem": "8"},
    {"aliyun.com/gpu-mem": "15"},
    {"koordinator.sh/gpu": "50"},
    {"koordinator.sh/gpu": "200"},
    {"huawei.com/Ascend910": "2"},
    {"huawei.com/Ascend910": "4"},
    {"nvidia.com/gpu": "1", "aliyun.com/gpu-mem": "1"},
    {"cpu": "2"},
)
MACHINES: Final = ("dgx1-v100", "p40-share", "atlas-800", "v100-pcie", "dgx-a100")
NODES: Final = len(MACHINES) + 1
PODS: Final = 14
FIRST_MEMBER: Final = 6
"""pods with a lower number are alone"""
MEMBER_ASKS: Final = (
    {"nvidia.com/gpu": "8"},
    {"nvidia.com/gpu": "4"},
    {"nvidia.com/gpu": "4"},
    {"nvidia.com/gpu": "2"},
    {"huawei.com/Ascend910": "4"},
    {"aliyun.com/gpu-mem": "8"},
    {"koordinator.sh/gpu": "50"},
    {"cpu": "2"},
)


class Call(NamedTuple):
    """What is done, to which pod and which node, and a number that the verb makes use of."""

    verb: str
    pod: int
    node: int
    number: int


def calls(most: int = 40) -> st.SearchStrategy[list[Call]]:
    """Some calls, one after the other."""
    numbers = st.integers(0, 7)
    one = st.builds(Call, st.sampled_from(list(VERBS)), st.integers(0, PODS - 1), st.integers(0, NODES - 1), numbers)
    return st.lists(one, max_size=most)


class Caller:
    """Makes calls; two callers with equal worlds make equal ones."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.now = 1_000.0
        self.version = 0
        self.pods: dict[int, PodView] = {}
        self.binds: dict[int, Bind] = {}
        self.used: dict[str, tuple[str, ...]] = {}
        self.offered: dict[int, list[str]] = {}

    def beside(self, broker: Broker) -> Caller:
        """A caller of another broker in the same world."""
        other = Caller(broker)
        other.now, other.version = self.now, self.version
        other.pods, other.binds = dict(self.pods), dict(self.binds)
        other.used, other.offered = dict(self.used), dict(self.offered)
        return other

    def make(self, call: Call) -> object:
        """The answer to one call; every call takes a moment."""
        self.now += 0.25
        return VERBS[call.verb](self, call)

    def node(self, number: int) -> str:
        """The name of a node."""
        return f"n{number}"

    def names(self, call: Call) -> list[str]:
        """Some nodes, one of which may not be known."""
        return [self.node(number) for number in range(NODES) if number != call.number]

    def pod(self, call: Call) -> PodView:
        """The pod of that number, made when it is first named."""
        if call.pod not in self.pods:
            self.version += 1
            limits = ASKS[(call.pod + 3 * call.number) % len(ASKS)]
            labels, words = ALONE
            if call.pod >= FIRST_MEMBER:
                limits = MEMBER_ASKS[call.number % len(MEMBER_ASKS)]
                labels, words = GROUPS[(call.node + call.pod // 4) % len(GROUPS)]
            uid, containers = f"u{call.pod}-{self.version}", (ContainerView("main", limits=limits),)
            made = PodView("team-a" if call.pod % 2 else "team-b", f"p{call.pod}", uid, containers, labels, words)
            self.pods[call.pod] = replace(made, created=self.now, priority=call.number % 3, version=self.version)
        return self.pods[call.pod]

    def show(self, pod: PodView, number: int) -> object:
        """Let the broker see a pod that changed."""
        self.version += 1
        self.pods[number] = replace(pod, version=self.version)
        return self.broker.observe([self.pods[number]], self.now)


def _see_node(caller: Caller, call: Call) -> object:
    """A node, of which a device may be broken and some are seen in use."""
    name = caller.node(call.node)
    mode: Mode = "percent" if call.node == len(MACHINES) else "any"
    machine = profile(MACHINES[call.node % len(MACHINES)] if mode == "any" else "dgx-a100")
    sights: list[WatchEvent] = list(
        fleet_node(machine, name, mode=mode, unhealthy={call.number} if call.number > 4 else ())
    )
    for place, sight in enumerate(sights):
        if isinstance(sight, NodeView):
            sights[place] = replace(sight, labels={**sight.labels, RACK: f"r{call.node % 2}"})
        if isinstance(sight, NodeObject) and isinstance(sight.document, dict) and caller.used:
            pods = [{"podUID": uid, "devices": list(found)} for uid, found in caller.used.items()]
            sight.document["status"]["allocations"] = [found for found in pods if f"-{name}-" in found["devices"][0]]
    return caller.broker.observe(sights, caller.now)


def _filter(caller: Caller, call: Call) -> object:
    answer = caller.broker.filter(caller.pod(call), caller.names(call), caller.now)
    caller.offered[call.pod] = answer.nodes
    return answer


def _bind(caller: Caller, call: Call) -> object:
    """To a node that the pod was offered, or to any."""
    offered = caller.offered.get(call.pod)
    node = offered[call.number % len(offered)] if offered and call.number else caller.node(call.node)
    answer = caller.broker.bind(caller.pod(call).uid, node, caller.now)
    caller.binds.update((call.pod, effect) for effect in answer.effects if isinstance(effect, Bind))
    return answer


def _bound(caller: Caller, call: Call) -> object:
    """The watch shows a pod bound, as the broker did or by another client."""
    pod, bind = caller.pod(call), caller.binds.get(call.pod)
    if bind is None or bind.uid != pod.uid or not call.number:
        return caller.show(replace(pod, node=pod.node or caller.node(call.node)), call.pod)
    if bind.grant:
        caller.used[pod.uid] = bind.grant.offer.devices
    return caller.show(replace(pod, node=bind.node, annotations={**pod.annotations, **bind.annotations}), call.pod)


def _changed(caller: Caller, call: Call) -> object:
    """The record of a pod is changed, or taken away."""
    pod = caller.pod(call)
    record = pod.annotations.get("linkwise.dev/grant", "")
    other = record.replace(f'-{call.number}"', f'-{(call.number + 1) % 4}"')
    return caller.show(replace(pod, annotations={"linkwise.dev/grant": other} if call.number else {}), call.pod)


def _outcome(caller: Caller, call: Call) -> object:
    bind = caller.binds.get(call.pod)
    ended = get_args(Outcome)[call.number % 3]
    return caller.broker.outcome(bind, ended, caller.now) if bind else None


def _gone(caller: Caller, call: Call) -> object:
    pod = caller.pods.pop(call.pod, None)
    return caller.broker.observe([PodDeleted(pod.uid if pod else "unknown")], caller.now)


def _later(caller: Caller, call: Call) -> object:
    caller.now += call.number * (20.0 if call.pod == 0 else 1.0)
    return caller.broker.step(caller.now)


def _object(caller: Caller, call: Call) -> object:
    """A PodGroup or a network is there, is another, or is gone."""
    kind, name, documents = OBJECTS[call.node % len(OBJECTS)]
    document = documents[call.number] if call.number < len(documents) else None
    return caller.broker.observe([ClusterObject(kind, name, document)], caller.now)


def _restart(caller: Caller, _: Call) -> None:
    """A new broker is restored from what is written."""
    caller.broker = Broker.restore(replace(caller.broker.snapshot(caller.now), state=None))
    while caller.broker.recover(caller.now):
        pass


def _members(caller: Caller, call: Call) -> object:
    """Members of groups are seen and tried one after the other; some are bound."""
    answers = []
    for number in range(FIRST_MEMBER, PODS):
        one = call._replace(pod=number, number=1)
        answers += [caller.broker.observe([caller.pod(call._replace(pod=number))], caller.now), _filter(caller, one)]
        if number % 4 < call.number % 4 and caller.offered[number]:
            answers += [_bind(caller, one), _bound(caller, one)]
    return answers


def _gated(caller: Caller, call: Call) -> object:
    """A gate holds the pod back, or holds it no more."""
    return caller.show(replace(caller.pod(call), gates=() if call.number % 2 else ("example.com/gate",)), call.pod)


def _rewritten(caller: Caller, call: Call) -> object:
    """A pod is something else all of a sudden, which no API server would allow: it must cause no error."""
    pod, other = caller.pod(call), caller.pod(call._replace(pod=(call.pod + 1 + call.node) % PODS))
    labels, words = GROUPS[call.node % len(GROUPS)]
    ways: tuple[PodView, ...] = (
        replace(pod, node=""),
        replace(pod, node=caller.node(call.node)),
        replace(pod, labels=labels, annotations=words),
        replace(pod, containers=(ContainerView("main", limits=MEMBER_ASKS[call.node]),)),
        replace(pod, containers=()),
        replace(pod, phase="Pending", deleting=False, stopped=False),
        replace(pod, uid=other.uid),
        replace(pod, annotations=other.annotations),
    )
    return caller.show(ways[call.number], call.pod)


VERBS: Final[dict[str, Callable[[Caller, Call], object]]] = {
    "node": _see_node,
    "node again": _see_node,
    "node gone": lambda caller, call: caller.broker.observe([NodeGone(caller.node(call.node))], caller.now),
    "pod": lambda caller, call: caller.broker.observe([caller.pod(call)], caller.now),
    "filter": _filter,
    "filter again": _filter,
    "look": lambda caller, call: caller.broker.filter(caller.pod(call), caller.names(call), caller.now, keep=False),
    "prioritize": lambda caller, call: caller.broker.prioritize(caller.pod(call), caller.names(call), caller.now),
    "bind": _bind,
    "bind again": _bind,
    "outcome": _outcome,
    "bound": _bound,
    "changed": _changed,
    "finished": lambda caller, call: caller.show(replace(caller.pod(call), phase="Succeeded"), call.pod),
    "deleted": lambda caller, call: caller.show(replace(caller.pod(call), deleting=True), call.pod),
    "stopped": lambda caller, call: caller.show(
        replace(caller.pod(call), deleting=True, stopped=True, begun=True), call.pod
    ),
    "gone": _gone,
    "dry run": lambda caller, call: caller.broker.dry_run(caller.pod(call), caller.now),
    "admit": lambda caller, call: caller.broker.admit(caller.pod(call)),
    "preempt": lambda caller, call: caller.broker.preempt(
        caller.pod(call), {caller.node(call.node): [pod.uid for pod in caller.pods.values()]}, caller.now
    ),
    "preferred": lambda caller, call: caller.broker.preferred(
        caller.node(call.node),
        [f"nvidia-{caller.node(call.node)}-{index}" for index in range(8)],
        (),
        call.number,
        caller.now,
    ),
    "explain": lambda caller, call: explain_pod(caller.broker, caller.pod(call).uid, caller.now),
    "explain node": lambda caller, call: explain_node(caller.broker, caller.node(call.node), caller.now),
    "inspect": lambda caller, call: inspect_nodes(
        caller.broker, caller.node(call.node) if call.number else None, caller.now
    ),
    "later": _later,
    "members": _members,
    "members again": _members,
    "object": _object,
    "gated": _gated,
    "restart": _restart,
    "rewritten": _rewritten,
    "rewritten again": _rewritten,
    "explain group": lambda caller, call: explain_group(caller.broker, caller.pod(call).uid, caller.now),
    "dry plan": lambda caller, call: caller.broker.dry_plan([caller.pod(call)], caller.now),
}


Said = tuple[dict[str, str], dict[str, str]]
"""labels and annotations"""

RACK: Final = "net.example.com/rack"
SEED: Final = "gputopology.scheduling.koordinator.sh/"
GANG: Final = "gang.scheduling.koordinator.sh/"
VOLCANO: Final = "scheduling.volcano.sh/group-name"


def _gang(name: str, minimum: int, *bundle: str) -> Said:
    words = {f"{GANG}name": name, f"{GANG}min-available": str(minimum), f"{GANG}total-number": "3"}
    return {}, words | ({f"{GANG}groups": json.dumps(bundle)} if bundle else {})


ALONE: Final[Said] = ({}, {})
GROUPS: Final[tuple[Said, ...]] = (
    ({f"{SEED}name": "g", f"{SEED}replica": "2"}, {}),
    ({f"{SEED}name": "g", f"{SEED}replica": "3"}, {}),
    _gang("alone", 2),
    _gang("left", 1, "team-a/left", "team-a/right"),
    _gang("right", 2, "team-a/left", "team-a/right"),
    ({}, {VOLCANO: "v", "volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "1"}),
)
OBJECTS: Final[tuple[tuple[str, str, tuple[Mapping[str, object], ...]], ...]] = (
    ("PodGroup.scheduling.volcano.sh", "team-a/v", ({"spec": {"minMember": 2}}, {"spec": {"minMember": 1}})),
    ("PodGroup.scheduling.volcano.sh", "team-b/v", ({"spec": {"minMember": 3}}, {"spec": {"minMember": "x"}})),
    ("Topology.kueue.x-k8s.io", "t", ({"spec": {"levels": [{"nodeLabel": RACK}]}}, {"spec": {}})),
    (
        "HyperNode.topology.volcano.sh",
        "s0",
        (
            {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "n[0-4]"}}}]}},
            {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}]}},
        ),
    ),
)
