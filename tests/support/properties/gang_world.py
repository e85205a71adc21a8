"""State machine of gangs as a real scheduler sees them: pods are tried when they come or are woken, and not otherwise.

Its moves are those that groups are most likely to get stuck by: members that change their group or push each other out,
PodGroups that come late and change, nodes that the scheduler leaves out, restarts in the middle of a gang, bursts. Its
invariants use verbs and queries only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, ClassVar, Final

from linkwise.broker.effects import Wake
from linkwise.dialects.groups.koordinator_gang import INDEX, MINIMUM, NAME as GANG, TOTAL
from linkwise.dialects.groups.pod_group_objects import KINDS
from linkwise.dialects.linkwise.group_plan import recorded_plans
from support.properties.broker_invariants import must
from support.properties.cluster_moves import OURS, one_of
from support.properties.group_invariants import GroupChecks
from support.properties.group_moves import SAID, Said, make_member
from support.properties.group_world import GROUP_WORLD_MOVES, GroupWorld

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.broker.effects import Effect
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.model.views import PodView
    from support.properties.cluster_moves import Move

__all__ = ["GANG_WORLD_MOVES", "GangWorld"]

NATIVE: Final = ("native", KINDS["kubernetes"])
"""the PodGroup that members point to by their specification"""
BURST: Final = 6
PATIENCE: Final = 60
"""rounds in which everybody must have got all there is to get"""
LONGEST: Final = 4000.0  # seconds; longer than any plan holds


class GangChecks(GroupChecks):
    """The same checks, and those that need no knowledge of how the broker works."""

    _world: GangWorld

    def all(self) -> None:
        """Everything that must be true between two steps."""
        super().all()
        self._only_pending_members_hold_places()

    def _only_pending_members_hold_places(self) -> None:
        """A plan holds devices for members that wait, and for a moment for the successor of one that is gone."""
        broker = self._world.broker
        for entry in broker.entries():
            if entry.state != "PLANNED":
                continue
            pod, key = None if entry.purpose else broker.pod(entry.pod), broker.group_of(entry.pod)
            if pod is None:
                soon = self._world.now + self.state.settings.group.grace
                must((entry.expires or inf) <= soon, f"{entry.pod} is gone and its place is held for long")
                continue
            must(not pod.node, f"{entry.pod} has a node and holds a place in a plan")
            must(key == entry.grant.plan, f"{entry.pod} is in {key!r} and holds a place of {entry.grant.plan!r}")

    def settled(self) -> None:
        """No pod waits that a new broker could place, except those whose nodes are left out."""
        if not self._world.left_out:
            super().settled()

    def starts(self, pod: PodView, minimum: int, placed: int) -> None:
        """A member is bound: enough of its gang are bound, or have devices."""
        must(placed >= minimum, f"{pod.uid} is bound, and {placed} of its gang can start, not {minimum}")


class GangWorld(GroupWorld):
    """The same world, with a scheduler that tries a pod again only if it changed or was woken."""

    judge = GangChecks
    checks: GangChecks
    left_out: dict[str, set[str]]
    """nodes that the scheduler's own filters leave out, by UID"""
    moves: ClassVar[Mapping[str, Move]] = {}

    def __init__(self, families: int, nodes: int, settings: int) -> None:
        self.parked: dict[str, int] = {}
        """pods that were refused and not woken since, with the version that was"""
        self.started: set[str] = set()
        """gangs of which enough members were bound once, until the last member is gone"""
        self.left_out = {}
        super().__init__(families, nodes, settings)

    def see(self, sights: Iterable[WatchEvent]) -> None:
        """The watch tells something."""
        super().see(sights)
        self._note_started()

    def _note_started(self) -> None:
        pods = [pod for uid in self.api.pods if (pod := self.broker.pod(uid))]
        keys = {pod.uid: self._group(pod) for pod in pods}
        bound = Counter(keys[pod.uid] for pod in pods if pod.node)
        least = {keys[pod.uid]: _number(pod.annotations.get(MINIMUM, "")) for pod in pods}
        self.started = (self.started & set(least)) | {key for key, count in bound.items() if count >= least[key] > 0}

    def take(self, effects: Iterable[Effect]) -> None:
        """Effects go out; pods that are woken are not parked any more."""
        effects = tuple(effects)
        super().take(effects)
        for effect in effects:
            if isinstance(effect, Wake):
                self.parked.pop(effect.uid, None)

    def filter_pod(self, pod: PodView, names: list[str]) -> None:
        """The scheduler asks for nodes for one pod, and parks it if there are none.

        If its own filters left nodes out, it tries the pod again when these change, whatever the answer was.
        """
        self.parked.pop(pod.uid, None)
        if set(self.names()) <= set(names):
            self.parked[pod.uid] = pod.version
        super().filter_pod(pod, [name for name in names if name not in self.left_out.get(pod.uid, ())] or names)
        if self.offered[pod.uid]:
            self.parked.pop(pod.uid, None)

    def bind_pod(self, uid: str, node: str) -> None:
        """The scheduler binds one pod; a gang never starts below its minimum."""
        pod, key = self.broker.pod(uid), self.broker.group_of(uid)
        unseen = pod is not None and not pod.node and self._lacks_pod_group(pod, key)
        again = any(entry.key == uid and entry.state != "PLANNED" for entry in self.broker.entries())
        flights = len(self.flights)
        super().bind_pod(uid, node)
        if pod is None or again or len(self.flights) == flights:
            return
        must(not unseen, f"{uid} is bound, and its PodGroup has not been seen")
        least = pod.annotations.get(MINIMUM, "")
        asks = any(container.limits for container in pod.containers)
        named = key == f"{pod.namespace}/{pod.annotations.get(GANG)}"  # or it is in the group that it points to
        if named and asks and least.isdecimal() and key not in self.started and not self._varied(key):
            self.checks.starts(pod, int(least), self._placed(key))

    def _lacks_pod_group(self, pod: PodView, key: str) -> bool:
        """Whether a pod points to a PodGroup that was not observed; labels that name another group take precedence."""
        native = pod.scheduling_group == NATIVE[0] and key in {"", f"{pod.namespace}/{NATIVE[0]}"}
        return native and f"object/{NATIVE[1]}/{pod.namespace}/{NATIVE[0]}" not in self.api.delivered

    def _varied(self, key: str) -> bool:
        """Whether the members of a group do not agree on it, are too many, or it may have been started before."""
        pods = [pod for pod in map(self.broker.pod, self._members(key)) if pod]
        names = {tuple(sorted(pod.annotations.get(word, "") for word in (GANG, MINIMUM, TOTAL))) for pod in pods}
        policies = {text for pod in pods for word, text in pod.annotations.items() if word.endswith("/match-policy")}
        total = max(
            (_number(pod.annotations.get(TOTAL) or pod.annotations.get(MINIMUM, "")) for pod in pods), default=0
        )
        over = len(pods) > total or any(
            pod.phase != "Pending" or pod.stopped or pod.deleting for pod in self.api.pods.values()
        )
        return len(names) > 1 or bool(policies) or over

    def _members(self, key: str) -> list[str]:
        return [
            uid for uid in self.broker.pods if self.broker.group_of(uid) == key
        ]  # deleted ones that it still sees too

    def _placed(self, key: str) -> int:
        """Members that have a node, have devices, or need none."""
        holding = {entry.key for entry in self.broker.entries()}
        members = [pod for pod in map(self.broker.pod, self._members(key)) if pod]
        return sum(bool(pod.node or pod.uid in holding or not pod.containers[0].limits) for pod in members)

    def _by_plan(self, key: str) -> dict[str, str]:
        """Members that have devices by the plan of a group, or for which it reserves some, with their states."""
        return {
            entry.pod: entry.state for entry in self.broker.entries() if not entry.purpose and entry.grant.plan == key
        }

    def _priority(self, pods: list[PodView]) -> int:
        """The highest priority of pods and of those that are planned with them: it may preempt plans of lower ones."""
        keys = {key for pod in pods if (key := self._group(pod))}
        members = [other for other in self.api.unbound() if self._group(other) in keys]
        return max((pod.priority for pod in (*pods, *members)), default=0)

    def _is_recorded(self, key: str) -> bool:
        """Whether a bound member got its devices by the plan that holds, so that it carries the plan; or carries it.

        A plan that none of its own members is bound by is not written, though others of the group may be bound.
        """
        own = [entry for entry in self.broker.entries() if not entry.purpose and entry.grant.plan == key]
        grants = {entry.pod: (entry.state, entry.grant) for entry in own}
        held = max((grant.generation for state, grant in grants.values() if state == "PLANNED"), default=0)
        for pod in self.api.pods.values() if self.broker.settings.group.write_plans else ():
            if pod.node and self._group(pod) == key:
                record = recorded_plans(pod)[0]
                carried = record.groups.get(key) if record else None
                by_plan = pod.uid in grants and grants[pod.uid][1].generation == held
                if by_plan or (carried and carried.generation == held):
                    return True
        return False

    def overtake(self, a: int, b: int, c: int) -> None:
        """A pod of a lower rank pushes a member out of its gang, or such a pod goes."""
        ranked = [pod for pod in self.api.unbound() if INDEX in pod.annotations]
        if len(ranked) > 2 and b % 3 == 0:
            self.api.remove(ranked[a % len(ranked)].uid)
        else:
            words = {GANG: "ranked", MINIMUM: "1", TOTAL: "2", INDEX: str(9 - len(ranked))}
            make_member(self, Said(1, {}, words), "default", b // 8, c)
        if c % 3:
            self.see(self.api.deliver_all())

    def move_member(self, a: int, b: int, c: int) -> None:
        """A member that waits, most likely a planned one, changes to another group."""
        waiting = [pod for pod in self.api.unbound() if self._group(pod)]
        planned = {entry.key for entry in self.broker.entries() if entry.state == "PLANNED"}
        pod = one_of([pod for pod in waiting if pod.uid in planned] or waiting, a)
        if pod:
            said, ours = SAID[b % len(SAID)], {key: text for key, text in pod.annotations.items() if key in OURS}
            words = {**said.words, **ours}
            self.api.put(replace(pod, labels=said.labels, annotations=words, scheduling_group=said.pointer))
        if c % 3:
            self.see(self.api.deliver_all())

    def restate(self, a: int, b: int, c: int) -> None:
        """The minimum of a native gang changes, or is observed at last."""
        name = f"{'team' if b % 8 == 0 else 'default'}/{NATIVE[0]}"
        self.api.put_object(NATIVE[1], name, {"spec": {"schedulingPolicy": {"gang": {"minCount": 1 + a % 3}}}})
        if c % 2:
            key = f"object/{NATIVE[1]}/{name}"
            self.see(self.api.deliver(key, len(self.api.owed[key])))

    def leave_out(self, a: int, _b: int, _c: int) -> None:
        """The scheduler's own filters exclude the node that a member is planned on, now and later."""
        places = {entry.key: entry.node for entry in self.broker.entries() if entry.state == "PLANNED"}
        pod = one_of([pod for pod in self.api.unbound() if pod.uid in places and not pod.deleting], a)
        if pod and len(self.api.boxes) > 1:
            self.left_out.setdefault(pod.uid, set()).add(places[pod.uid])
            self.filter_pod(pod, list(self.api.boxes))

    def burst(self, a: int, b: int, c: int) -> None:
        """Several pods are tried before any is bound: everyone gets what it was offered.

        A gang that another member joins meanwhile, or that has a member whose planned node is left out, is planned again
        as a whole.
        """
        self.see(self.api.deliver_all())
        pods = self._active()[a % 3 :][:BURST] if self.names() else []  # or no scheduler asks
        planned, highest = {}, self._priority(pods)
        for pod in pods:
            self.filter_pod(pod, self.names())
            planned[pod.uid] = self._by_plan(self._group(pod)).keys()
        offered = [pod for pod in pods if self.offered.get(pod.uid)]
        for place, pod in enumerate(reversed(offered) if b % 2 else offered):
            if c % 4 == 0 and place == 2:
                self.sleep(a, b, c)
            flights = len(self.flights)
            key = self._group(pod)
            places = set(self._by_plan(key))
            if key and pod.uid not in places:  # it is planned again, with all that were tried
                places |= {other.uid for other in pods if self._group(other) == key}
            mates = [other for other in pods if key and self._group(other) in {key, *self.broker.bundle_of(key)}]
            joined = places - planned[pod.uid] or self.left_out.keys() & {mate.uid for mate in mates}
            self.bind_pod(pod.uid, self.offered[pod.uid][0])
            bound = len(self.flights) > flights or self.api.pods[pod.uid].node
            must(bound or joined or highest > pod.priority, f"{pod.uid} can't have what it was offered in a burst")
            self._land_all()

    def interrupt(self, a: int, b: int, c: int) -> None:
        """A gang is bound in part, and the broker is restored, or dies and a new one observes the current state: the gang is bound."""
        self.see(self.api.deliver_all())
        for name in self.checks.missing_inventories():  # the next broker would not know their devices
            self.api.change(name, inventory=True)
        self._come_to_rest(bind=False)
        pod = one_of([pod for pod in self._active() if self._group(pod)], a)
        if pod is None or not self.names():
            return
        key = self._group(pod)
        self._try(pod)
        self._land_all()
        self.see(self.api.deliver_all())
        planned = {uid for uid, state in self._by_plan(key).items() if state == "PLANNED"}
        if b % 2:
            self.sleep(a, b, c)
        else:
            planned = planned if self._is_recorded(key) else set()
            self.restart(a, 255, c)
        rest = [other for other in self.api.unbound() if other.uid in planned and not other.gates]
        rivals = [other for other in self._active() if other.uid not in planned] if self.api.pods[pod.uid].node else []
        highest = self._priority(rivals)
        for other in [*rivals, *(reversed(rest) if c % 2 else rest)]:
            self._try(other)
            self._land_all()
            self.take(self.broker.step(self.now, 1000))
        for uid in planned - self.left_out.keys() if self.api.pods[pod.uid].node else ():
            outranked = highest > self.api.pods[uid].priority
            must(self.api.pods[uid].node or outranked, f"{uid} lost its place because the broker was interrupted")

    def idle(self, _a: int, _b: int, _c: int) -> None:
        """Pods are tried if they came, changed or were woken, until nothing happens any more: no pod waits in vain."""
        self._come_to_rest(bind=True)
        self.checks.settled()

    def settle(self, a: int, b: int, c: int) -> None:
        """The same; the scheduler has no reason any more to leave nodes out."""
        self.left_out.clear()
        super().settle(a, b, c)

    def _come_to_rest(self, *, bind: bool) -> None:
        """Let everything happen that is due, and perhaps all pods be tried that a scheduler would try."""
        if self.checks.reopened:  # a scheduler retries the pods that a node may help when it takes pods again
            self.parked = {uid: version for uid, version in self.parked.items() if self.broker.group_of(uid)}
            self.checks.reopened.clear()
        stuck = 0
        for _ in range(2 * PATIENCE if self.names() else 0):
            while self.evicts:
                self.evict(0, 1, 0)
            self._land_all()
            self.see(self.api.deliver_all())
            self.take(self.broker.step(self.now, 1000))
            tried = self._active() if bind else []
            for pod in tried:
                if not self.api.pods[pod.uid].node:
                    self._try(pod)
                    self.take(self.broker.step(self.now, 1000))
            due = self.broker.next_deadline()
            if not tried and not self.flights and not self.evicts and self.is_quiet():
                if due is None or due > self.now + LONGEST or not bind:
                    return
                self.now, stuck = max(self.now, due) + 0.001, 0
            stuck += 1
            must(stuck < PATIENCE, f"{[pod.uid for pod in tried]} are tried again and again")

    def is_quiet(self) -> bool:
        """Whether nothing else is to be written."""
        return True

    def _active(self) -> list[PodView]:
        """Pods that a scheduler would try now."""
        return [
            pod
            for pod in self.api.unbound()
            if not pod.deleting and not pod.gates and self.parked.get(pod.uid) != pod.version
        ]

    def names(self) -> list[str]:
        """Nodes that are there."""
        return [name for name in self.api.boxes if name not in self.api.gone]

    def restart(self, a: int, b: int, c: int) -> None:
        """The same; pods that wait are woken by the new broker, or tried for the first time by it."""
        super().restart(a, b, c)
        self.started.clear()
        self._note_started()
        self.take(self.broker.unanswered())


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


GANG_WORLD_MOVES: Final[dict[str, Move]] = {
    **GROUP_WORLD_MOVES,
    "overtake": GangWorld.overtake,  # type: ignore[dict-item]  # of worlds with gangs alone
    "move member": GangWorld.move_member,  # type: ignore[dict-item]  # of worlds with gangs alone
    "restate": GangWorld.restate,  # type: ignore[dict-item]  # of worlds with gangs alone
    "leave out": GangWorld.leave_out,  # type: ignore[dict-item]  # of worlds with gangs alone
    "burst": GangWorld.burst,  # type: ignore[dict-item]  # of worlds with gangs alone
    "interrupt": GangWorld.interrupt,  # type: ignore[dict-item]  # of worlds with gangs alone
    "restart": GangWorld.restart,  # type: ignore[dict-item]  # of worlds with gangs alone
    "settle": GangWorld.settle,  # type: ignore[dict-item]  # of worlds with gangs alone
    "idle": GangWorld.idle,  # type: ignore[dict-item]  # of worlds with gangs alone
}
GangWorld.moves = GANG_WORLD_MOVES
