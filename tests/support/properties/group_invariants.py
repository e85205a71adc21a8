"""Invariants of groups: plans reserve all members or none, for a limited time, and no feasible group stays pending."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.groups.planning.what_if import WhatIf
from linkwise.broker.groups.readiness import bundle, joined, pending_reason
from linkwise.broker.groups.stale_gangs import has_begun
from linkwise.broker.records.members import BackingOff, Planning, Reserved, Unschedulable, Waiting, deadline_of
from linkwise.dialects.linkwise.group_plan import recorded_plans
from linkwise.explain.group.group import explain_group
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.model.verdict import ReservedKey
from linkwise.testing.cluster import binds
from support.properties.broker_invariants import Checks, must
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.broker.effects import BindAnswer, Evict, FilterAnswer
    from linkwise.broker.records.members import GroupView
    from linkwise.broker.state import State
    from linkwise.model.views import PodView
    from support.properties.broker_world import World

__all__ = ["GroupChecks"]


class GroupChecks(Checks):
    """The same checks, and those of groups."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.refused: dict[str, tuple[PodView | None, int]] = {}
        """members that were refused and not woken since, as they were, with the plan that held then"""
        self.evicted: set[str] = set()
        """pods whose eviction was asked for, and is still wanted"""
        self._latest = 0.0
        """the time as it was before the clock was set back"""
        self._explained: dict[str, tuple[object, ...]] = {}
        """refusals that were explained last, by UID, and the cluster as it was: the next explanation is the same"""

    @property
    def state(self) -> State:
        """Of the broker as it is now."""
        return state_of(self._world.broker)

    def all(self) -> None:
        """Everything that must be true between two steps."""
        super().all()
        self._latest = max(self._latest, self._world.now)
        for key, held in self.state.groups.plans.items():
            self._holds(key, held)
        self._nothing_else_is_planned()
        self._the_book_is_true()
        self._no_pod_waits_in_vain()
        self._no_pod_is_bound_in_vain()

    def _holds(self, key: str, held: Reserved) -> None:
        """A plan is whole, of members that are there, in time, and its devices are to be had."""
        found = self.state.groups.view(key)
        must(found is not None, f"a plan holds for {key}, which has no pods")
        if found is None:
            return
        waiting = {pod.uid for pod in found.waiting} & held.plan.placements.keys()
        if not waiting:
            return  # the last binds are under way
        must(self._world.now < held.expires, f"the plan of {key} holds after its time")
        longest = max(self.state.settings.group.hold, found.group.waiting_time if found.group.minimum else 0.0)
        must(held.expires <= self._world.now + longest, f"the plan of {key} holds for too long")
        self._is_whole(found, held)
        for uid in waiting:
            self._has_its_place(uid, key, held)

    def _is_whole(self, found: GroupView, held: Reserved) -> None:
        group = found.group
        if not found.least:
            return
        gone = [uid for uid in held.plan.placements if self.state.groups.key_of(uid) != group.key]
        there = len(held.plan.placements) - len(gone)
        bound = [pod for pod in found.bound if pod.uid not in held.plan.placements]
        loose = [
            pod for pod in found.waiting if self.state.request(pod).ask is None and pod.uid not in held.plan.placements
        ]
        must(
            there + len(bound) + len(loose) >= found.least,
            f"the plan of {group.key} places {there} beside {len(bound)}, and {group.minimum} must start together",
        )

    def _has_its_place(self, uid: str, key: str, held: Reserved) -> None:
        placement, entry = held.plan.placements[uid], self.state.cluster.ledger.get(uid)
        view = self.state.cluster.nodes.get(placement.node)
        must(view and view.ready and not view.unschedulable, f"{uid} is planned on {placement.node}, which is closed")
        if placement.offer is None:
            return
        must(entry and entry.state == "PLANNED", f"{uid} is planned and holds nothing")
        if entry:
            must((entry.grant.offer, entry.grant.plan) == (placement.offer, key), f"{uid} holds other devices")
            must(entry.expires == held.expires, f"what {uid} holds ends at another time than its plan")
        node = self.state.cluster.index.nodes[placement.node]
        sound = {device.id for device in node.healthy()}
        must(sound.issuperset(placement.offer.devices), f"{placement.offer.devices} are planned, and do not all work")

    def _nothing_else_is_planned(self) -> None:
        book = self.state.groups
        kept = [record.places for record in book.records.values() if record.places]
        places = {ReservedKey(pod, "replacement"): each.until for each in kept for pod in each.pods}
        for entry in self.state.cluster.ledger.entries():
            if entry.state != "PLANNED" or entry.key in places:
                continue
            held = book.plan_of(entry.grant.plan or "")
            must(
                held and not entry.purpose and entry.pod in held.plan.placements,
                f"{entry.pod} holds devices without a plan",
            )
        for pod, until in places.items():
            soon = self._world.now < until <= self._world.now + self.state.settings.group.grace
            must(soon, f"the place {pod} is kept for too long")

    def _the_book_is_true(self) -> None:
        """Records are of pods that are known, and every stage has an end."""
        book = self.state.groups
        for key, record in book.records.items():
            must(record.members, f"a record is kept of {key}, which has no pods")
            lost = record.answers.keys() - record.members.pods.keys()
            must(not lost, f"the answers to {lost} are kept, which are not in {key}")
            run = record.stage.run if isinstance(record.stage, Planning) else None
            must(run is None or key in run.keys, f"{key} waits for a plan of {run and run.keys}")
            due = record.next_deadline()
            must(due is None or due > self._world.now, f"what was due for {key} at {due} was not done")
        must(book.evicted.keys() <= self.state.cluster.pods.keys(), "evictions are remembered of pods that are gone")
        due = self._world.broker.next_deadline()
        changes = self.state.cluster.changes
        must(due == 0.0 or not (changes.answers or changes.groups), "changes of groups were left, and nothing is due")

    def evicts(self, effect: Evict) -> None:
        """Only members of a strict gang that is stuck are evicted, once, where that is allowed and none has begun."""
        found, pod = self._group_of(effect.uid), self.state.cluster.pods.get(effect.uid)
        must(self.state.settings.group.evict_half_bound, f"{effect.uid} is evicted, and no pod may be")
        must(effect.uid not in self.evicted, f"{effect.uid} is evicted twice")
        self.evicted.add(effect.uid)
        must(found and pod and pod.node and not pod.deleting, f"{effect.uid} is evicted and is not bound in a gang")
        if found:
            group = found.group
            must(group.minimum is not None and group.strict, f"{effect.uid} is evicted and is in no strict gang")
            must(len(found.bound) < (group.minimum or 0), f"{effect.uid} is evicted, and its gang has started")
            begun = [each.uid for each in found.bound if has_begun(each)]
            must(not begun, f"{effect.uid} is evicted, and {begun} of its gang have begun to run")

    def _no_pod_is_bound_in_vain(self) -> None:
        """A gang that was planned and is stuck halfway has a time at which that ends, where evictions are allowed."""
        book = self.state.groups
        for key, record in book.records.items() if self.state.settings.group.evict_half_bound else ():
            found = book.view(key)
            ending = record.generation and not isinstance(record.stage, Planning | Reserved)
            if found and ending and (bound := self._evictable(found)):
                evicting = all(pod.uid in book.evicted for pod in bound)
                must(evicting or record.eviction is not None, f"{key} is stuck halfway, and nothing will change that")
                must((record.eviction or inf) > self._world.now, f"{key} is stuck halfway after its time")

    def _evictable(self, found: GroupView) -> list[PodView]:
        group, known = found.group, self.state.cluster.pods
        started = len(found.bound) >= found.least
        if not group.strict or group.match_policy == "only-waiting" or started or any(map(has_begun, found.bound)):
            return []
        return [pod for pod in found.bound if pod.uid in known and known[pod.uid].node]

    def filtered(self, pod: PodView, names: Sequence[str], answer: FilterAnswer) -> None:
        """What a member is offered is available, and each refusal has a reason."""
        found = self._group_of(pod.uid)
        entry = self.state.cluster.ledger.get(pod.uid)
        if found is None or pod.uid in found.extra or (entry and not entry.tentative):
            self.refused.pop(pod.uid, None)
            super().filtered(pod, names, answer)
            return
        must(set(answer.nodes) <= set(names), "a node is offered that was not asked about")
        if answer.nodes:
            self.refused.pop(pod.uid, None)
            self.early.discard(pod.uid)
            for name in dict.fromkeys(answer.nodes):
                self._it_binds(pod, name)
            return
        must(set(answer.failed) | set(answer.unresolvable) == set(names), "a node was left without a reason")
        if not names:  # no scheduler asks about no nodes
            self.refused.pop(pod.uid, None)
            return
        self.woken.discard(pod.uid)
        held = self.state.groups.plan_of(found.key)
        self.refused[pod.uid] = (self.state.pod(pod.uid), held.generation if held else 0)
        same = (self._world.now, answer.failed, answer.unresolvable, self.state.groups.stage(found.key))
        if self._explained.get(pod.uid) != (changes := (*same, self.state.cluster.index.changes)):
            self._is_explained(pod.uid)
            self._explained[pod.uid] = changes

    def _is_explained(self, uid: str) -> None:
        broker, now = self._world.broker, self._world.now
        for explanation in (explain_pod(broker, uid, now), explain_group(broker, uid, now)):
            must(explanation, f"{uid} can't be explained")
            lines = explanation_lines(explanation) if explanation else []
            must(lines and all(lines), f"there is nothing to say of {uid}")

    def bound(self, answer: BindAnswer) -> None:
        """A member gets what its plan has for it, and nothing else."""
        super().bound(answer)
        under_way = {flight.bound.uid for flight in self._world.flights}
        for bound in binds(answer.effects):
            found = self._group_of(bound.uid)
            if found is None or bound.uid in found.extra or bound.uid in under_way or bound.grant is None:
                continue
            held = self.state.groups.plan_of(found.key)
            must(held, f"{bound.uid} is bound, and its group has no plan")
            placement = held.plan.placements.get(bound.uid) if held else None
            must(placement and placement.offer == bound.grant.offer, f"{bound.uid} is bound to what was not planned")

    def _group_of(self, uid: str) -> GroupView | None:
        key = self.state.groups.key_of(uid)
        return self.state.groups.view(key) if key else None

    def _no_pod_waits_in_vain(self) -> None:
        """A member that was refused and not woken since still has a reason to wait."""
        # A pod that changed is tried again by its scheduler.
        self.refused = {
            uid: refusal
            for uid, refusal in self.refused.items()
            if uid not in self.woken and self.state.pod(uid) is refusal[0] and self.state.groups.key_of(uid)
        }
        for uid, (_, generation) in self.refused.items():
            found = self._group_of(uid)
            if found and uid in {pod.uid for pod in found.waiting}:
                self._has_a_reason(uid, found, generation)

    def _has_a_reason(self, uid: str, found: GroupView, generation: int) -> None:
        state, key = self.state, found.key
        stage, views = state.groups.stage(key), bundle(state, key)
        if isinstance(stage, Planning) or self._comes(views):
            return  # it is woken when the plan is made
        if held := state.groups.plan_of(key):  # who has no place in it is woken when it ends
            must(uid in held.plan.missing or held.generation == generation, f"{uid} was not woken for its plan")
        elif isinstance(stage, BackingOff):
            must(self._world.now < stage.until, f"{uid} was not woken after the backoff of its group")
        elif reason := pending_reason(state, found, self._world.now):
            timed = (reason.rule, reason.kind) == ("001.members", "missing")
            timed = timed or (reason.kind == "object" and reason.found != "kubernetes")
            if timed and pending_reason(state, found, self._latest) != reason:
                return  # its time was over before the clock was set back
            if timed and isinstance(stage, Unschedulable):
                return  # who was planned in vain waits for room, whatever the clock says
            must(isinstance(stage, Waiting), f"{uid} waits for {reason}, and its group is {stage}")
            must(not timed or deadline_of(stage), f"{uid} waits for members, and nothing will wake it")
        else:
            must(isinstance(stage, Unschedulable), f"{uid} was refused, and its group is {stage}")
            freed = state.cluster.changes.capacity.values()
            if isinstance(stage, Unschedulable) and any(at > stage.at for at in freed):
                due = self._world.broker.next_deadline()
                must(due == 0.0, f"{key} may fit by what was freed since it was planned, and that is due at {due}")
                return  # a filter may preempt plans; groups that fit by what it frees are planned in the next step
            plan = WhatIf(state, joined(views), 4000).plan()
            must(plan is None, f"{uid} was not woken though {key} fits: {plan}")

    def _comes(self, views: Sequence[GroupView]) -> bool:
        """Whether a member has not been tried since it came: then all are planned when it is."""
        return any(pod.uid not in self.refused for view in views for pod in view.waiting)

    def planned_alike(self, one: Broker, other: Broker, key: str) -> None:
        """Two brokers plan a group, one of them by its last member."""
        found = state_of(one).groups.view(key)
        members = found.waiting if found else ()
        plans = []
        for broker, pods in ((one, members), (other, tuple(reversed(members)))):
            for pod in pods:
                broker.filter(pod, list(self._world.api.boxes), self._world.now)
                broker.step(self._world.now, 1000)
            held = state_of(broker).groups.plan_of(key)
            plans.append((held.plan.placements, held.plan.missing) if held else None)
        must(plans[0] == plans[1], f"the plan of {key} is {plans[0]} or {plans[1]}")

    def restarted(self, before: Broker) -> None:
        """Plans that bound members carry hold again."""
        super().restarted(before)
        self.refused.clear()
        old, new = state_of(before), self.state
        for key, held in old.groups.plans.items():
            places = held.plan.placements
            pods = [self._world.api.pods.get(uid) for uid in places]
            wait = [pod.uid for pod in pods if pod and not pod.node and old.groups.key_of(pod.uid) == key]  # or it left
            under_way = any((entry := old.cluster.ledger.get(uid)) and entry.state == "ASSUMED" for uid in places)
            carried = self._carried(key, held.generation)
            if not all(pods) or not carried.issuperset(wait) or held.bundle or self.contradicted or under_way:
                continue
            record = new.groups.get(key)
            if old.groups[key].satisfied and record and not record.satisfied:
                continue  # that a gang has started is known only while enough of its members are there
            boxes = [self._world.api.boxes[placement.node] for placement in places.values()]
            if not all(box.ready and box.registered for box in boxes):  # which the old one may not have observed
                continue
            if any(placement.node in old.cluster.objects.missing for placement in places.values()):
                continue  # only the old one knows the devices of an inventory that was deleted a while ago
            entries = {uid: new.cluster.ledger.get(uid) for uid in wait if places[uid].offer}
            found = {uid: (entry.node, entry.grant.offer.devices) for uid, entry in entries.items() if entry}
            known = {uid: (offer.node, offer.devices) for uid in entries if (offer := places[uid].offer)}
            must(found == known, f"the plan of {key} was written as {known} and is {found} now")

    def _carried(self, key: str, generation: int) -> set[str]:
        """Members of a plan, as the bound ones carry it."""
        bound = [pod for pod in self._world.api.pods.values() if pod.node and self.state.groups.key_of(pod.uid) == key]
        plans = [record.groups.get(key) for pod in bound if (record := recorded_plans(pod)[0])]
        return {uid for plan in plans if plan and plan.generation == generation for uid in plan.members}

    def missing_inventories(self) -> list[str]:
        """Nodes whose inventory was deleted a while ago, and is used still."""
        return list(self.state.cluster.objects.missing)

    def settled(self) -> None:
        """No pod waits that a new broker could place."""
        for pod in self._world.api.unbound():
            names = self._open_to(pod)
            if pod.deleting or pod.gates or not names:
                continue
            must(not self.missing_inventories(), "the grace period of an inventory is over, and it is used still")
            fresh = Broker(self._world.settings)
            fresh.observe(self._world.api.truth().values(), self._world.now)
            for time in (0.0, 20.0, 40.0):
                nodes = fresh.filter(pod, names, self._world.now + time).nodes
                fresh.step(self._world.now + time, 1000)
            must(not nodes, f"{pod.uid} could be placed on {nodes} if everything was forgotten")

    def _open_to(self, pod: PodView) -> list[str]:
        """Nodes that a scheduler would ask about: its own filters leave out those that are cordoned or lack CPU."""
        api, names = self._world.api, []
        for name, box in api.boxes.items():
            used = sum(map(_cpu, api.holding(name)))
            if name not in api.gone and not box.cordoned and used + _cpu(pod) <= int(box.cpu):
                names.append(name)
        return names


def _cpu(pod: PodView) -> int:
    return sum(int(container.requests.get("cpu", 0)) for container in pod.containers)
