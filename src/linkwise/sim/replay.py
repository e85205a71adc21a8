"""Replay: places pods one by one by filter, prioritize and bind, and feeds the results back as watch events.

The runner stands for the rest of the cluster: it holds what was written, so that a broker that starts again finds it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind
from linkwise.broker.snapshot import sights_of
from linkwise.broker.watch_events import ClusterObject, NodeGone, NodeObject, PodDeleted, PodListComplete
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.explain.pod import explain_pod
from linkwise.explain.reports import ContainerDevices
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.views import PodView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.snapshot import BrokerState
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.ledger import Outcome
    from linkwise.engine.planning.plan import Plan
    from linkwise.model.snapshot import Snapshot

__all__ = ["Decision", "Runner", "Way", "by_age", "differs", "explained", "replay"]

Way = Literal["written", "unseen", "unknown", "refused", "none"]
"""how a bind ends: written and observed, written and not observed yet, unknown, or refused"""

_OUTCOMES: Mapping[Way, Outcome] = {
    "written": "written",
    "unseen": "written",
    "unknown": "unknown",
    "refused": "refused",
}
_GATED = "the pod has scheduling gates"
_WORK = 100_000
"""steps that the broker may work ahead"""


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod was placed, or why it is pending."""

    pod: str
    """with its namespace"""
    uid: str
    node: str = ""
    """empty if it is pending"""
    devices: tuple[ContainerDevices, ...] = ()
    policy: str = ""
    score: Mapping[str, int] = field(default_factory=dict)
    """terms of its score, by precedence"""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """short refusals with their number of nodes; only for a pending pod"""
    partial: bool = False
    """whether some nodes were skipped to stay within the budget"""
    why: tuple[str, ...] = ()
    """the explanation, if requested"""


def replay(snapshot: Snapshot[BrokerState]) -> Iterator[Decision]:
    """Place the pending pods of a snapshot one after the other."""
    runner = Runner(Broker.restore(snapshot), snapshot.now)
    yield from map(runner.place, runner.waiting())


def explained(runner: Runner, decision: Decision) -> Decision:
    """Return a decision with its explanation."""
    explanation = explain_pod(
        runner.broker, decision.uid, runner.now, plan=False
    )  # its group was planned when it was tried
    return replace(decision, why=tuple(explanation_lines(explanation)) if explanation else ())


def differs(one: Decision | None, other: Decision | None) -> bool:
    """Return whether node or devices differ; reasons and scores are not compared."""
    if one is None or other is None:
        return one is not other
    return (one.node, [held.indices for held in one.devices]) != (other.node, [held.indices for held in other.devices])


def by_age(pod: PodView) -> tuple[int, float, str, str]:
    """Return the key by which pending pods are ordered."""
    return (-pod.priority, pod.created, pod.namespace, pod.name)


class Runner:
    """A broker with a manual clock and the objects written so far."""

    def __init__(self, broker: Broker, now: float = 0.0) -> None:
        self.broker = broker
        self.now = now
        self.effects: list[Effect] = []
        """all effects of the broker, in order"""
        self.plans: dict[str, Plan] = {}
        """the last plan of every group"""
        self.written: dict[tuple[str, ...], WatchEvent] = {}
        self._binds: dict[str, Bind] = {}
        for sight in sights_of(broker.snapshot(now)):
            self._write(sight)

    def show(self, *sights: WatchEvent) -> None:
        """Write objects, and let the broker observe them."""
        for sight in sights:
            self._write(sight)
        self._note(self.broker.observe(sights, self.now))

    def waiting(self) -> list[PodView]:
        """Return pending pods, in the order in which they are tried."""
        pods = {pod.uid: pod for pod in (*self._known_pods(), *self._pods())}
        return sorted(
            (pod for pod in pods.values() if not pod.node and not pod.deleting and pod.phase == "Pending"), key=by_age
        )

    def work(self) -> None:
        """Let the broker reconcile and work ahead."""
        self._note(self.broker.step(self.now, _WORK))

    def place(self, pod: PodView, way: Way = "written", among: Collection[str] | None = None) -> Decision:
        """Place one pod on one of the nodes `among`; `way` is how its bind ends."""
        if pod.gates:
            return Decision(_name(pod), pod.uid, reasons={_GATED: len(self.broker.nodes)})
        stops = self.broker.misfits(pod)
        known = sorted(self.broker.nodes if among is None else among)
        answer = self.broker.filter(pod, [name for name in known if name not in stops], self.now)
        self._note(answer.effects)
        self.plans |= self.broker.plans()
        if not answer.nodes:
            texts = (*map(short_refusal, stops.values()), *answer.failed.values(), *answer.unresolvable.values())
            return Decision(_name(pod), pod.uid, reasons=_counted(texts), partial=answer.partial)
        if way == "none":
            return Decision(_name(pod), pod.uid, partial=answer.partial)
        ranks = self.broker.prioritize(pod, answer.nodes, self.now)
        node = min(ranks, key=lambda found: (-found[1], found[0]))[0]
        return replace(self.bind(pod, node, way), partial=answer.partial)

    def bind(self, pod: PodView, node: str, way: Way = "written") -> Decision:
        """Bind one pod to a node without filter."""
        policy, score = self.broker.score(pod, node)
        bound = self.broker.bind(pod.uid, node, self.now)
        self._note(bound.effects)
        bind = next((effect for effect in bound.effects if isinstance(effect, Bind)), None)
        if bind is None:
            return Decision(_name(pod), pod.uid, reasons={bound.error: 1})
        devices = self._container_devices(bind)
        self._end(pod, bind, way)
        return Decision(_name(pod), pod.uid, node, devices, policy, score)

    def read(self, uid: str, *, bound: bool) -> None:
        """Resolve a bind of unknown outcome, as a read of the API server would."""
        bind, pod = self._binds[uid], self.pod(uid)
        if bound and pod:
            self.show(_bound(pod, bind))
        else:
            self._note(self.broker.outcome(bind, "refused", self.now))

    def restart(self) -> None:
        """Restart with a new broker that knows only what was written."""
        self.broker = Broker(self.broker.settings)
        self.broker.see(list(self.written.values()))
        while self.broker.recover(self.now):
            pass
        self.work()

    def _note(self, effects: Iterable[Effect]) -> None:
        self.effects += tuple(effects)

    def _container_devices(self, bind: Bind) -> tuple[ContainerDevices, ...]:
        devices = self.broker.usage[bind.node].devices if bind.grant else ()
        indices = {device.id: device.index for device in devices}
        return tuple(
            ContainerDevices(
                part.container, part.devices, tuple(indices[device] for device in part.devices), part.share, part.core
            )
            for part in (bind.grant.offer.parts if bind.grant else ())
        )

    def _end(self, pod: PodView, bind: Bind, way: Way) -> None:
        self._binds[pod.uid] = bind
        self._note(self.broker.outcome(bind, _OUTCOMES[way], self.now))
        bound = _bound(self.pod(pod.uid) or pod, bind)
        if way == "written":
            self.show(bound)
        elif way == "unseen":
            self._write(bound)

    def _write(self, sight: WatchEvent) -> None:
        match sight:
            case PodView():
                self.written["pod", sight.uid] = sight
            case PodDeleted(uid):
                self.written.pop(("pod", uid), None)
            case NodeGone(name):
                self.written.pop(("node", name), None)
            case NodeObject(node, kind, None):
                self.written.pop(("object", node, kind), None)
            case NodeObject(node, kind):
                self.written["object", node, kind] = sight
            case PodListComplete(uids):
                self.written = {key: found for key, found in self.written.items() if key[0] != "pod" or key[1] in uids}
            case ClusterObject(kind, name, None):
                self.written.pop(("shared", kind, name), None)
            case ClusterObject(kind, name):
                self.written["shared", kind, name] = sight
            case _:
                self.written["node", sight.name] = sight

    def pod(self, uid: str) -> PodView | None:
        """Return the pod as written, or as it was asked about."""
        written = self.written.get(("pod", uid))
        return written if isinstance(written, PodView) else self.broker.pod(uid)

    def _known_pods(self) -> Iterator[PodView]:
        """Return all pods that the broker knows, including those never written."""
        return (pod for uid in sorted(self.broker.uids()) if (pod := self.broker.pod(uid)))

    def _pods(self) -> Iterator[PodView]:
        return (sight for sight in self.written.values() if isinstance(sight, PodView))


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def _bound(pod: PodView, bind: Bind) -> PodView:
    """Return the pod as the API server has it after the bind."""
    annotations = {**pod.annotations, **bind.annotations}
    return replace(pod, node=bind.node, annotations=annotations, version=pod.version + 1 if pod.version else 0)


def _counted(texts: Iterable[str]) -> dict[str, int]:
    """Return the most frequent first."""
    return dict(sorted(Counter(texts).items(), key=lambda found: (-found[1], found[0])))
