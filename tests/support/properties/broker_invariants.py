"""Invariants of a broker: no device allocated twice, no pod forgotten, no feasible pod refused."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any

from linkwise.broker.cluster.inventory import merge_inventory
from linkwise.broker.cluster.pod_request import read_request
from linkwise.broker.holding import evictions, reservations
from linkwise.broker.scheduling.bind import pick_on
from linkwise.broker.unobserved import is_unobserved_member
from linkwise.broker.wake_ups import may_go
from linkwise.broker.watch_events import PodDeleted
from linkwise.dialects.groups.owners import OwnerRules
from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.engine.index.node_index import choices
from linkwise.engine.queue.scheduling_queue import UNOBSERVED_TIME
from linkwise.engine.usage import node_of, usage_of
from linkwise.model.verdict import Offer, Reject
from linkwise.testing.cluster import binds
from support.properties.model_api import runs
from support.state import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkwise.broker.broker import Broker
    from linkwise.broker.effects import BindAnswer, FilterAnswer
    from linkwise.engine.index.node_index import Query
    from linkwise.engine.ledger import Entry
    from linkwise.model.views import PodView
    from support.properties.broker_world import World

__all__ = ["Checks", "asked_of", "claims", "devices_of", "held_of", "must"]

Claim = tuple[str, int, int]
"""a pod's UID, and its share and compute of a device; none of either is all of it"""


def must(true: object, sentence: str) -> None:
    """Fail with the sentence if it is not true."""
    if not true:
        raise AssertionError(sentence)


def claims(broker: Broker) -> tuple[object, ...]:
    """All that answers are made of."""
    cluster = state_of(broker).cluster
    entries = {entry.key: (entry.state, entry.grant, entry.unrecorded_ask) for entry in cluster.ledger.entries()}
    return entries, dict(cluster.index.nodes), dict(cluster.drift)


def devices_of(pod: PodView) -> list[str]:
    """What the pod's record names."""
    return [device for part in _parts(pod) for device in part["devices"]]


def asked_of(pod: PodView) -> int:
    """What all containers of a pod ask for."""
    return sum(int(amount) for found in pod.containers for word, amount in found.limits.items() if word != "cpu")


class Checks:
    """What is looked at after every step, and what has to be remembered for that."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.woken: set[str] = set()
        self.contradicted: set[str] = set()
        """nodes whose agent reported something else than was recorded: what is physically there is unknown"""
        self.reopened: set[str] = set()
        """nodes that took no pods for a while, which a scheduler of single pods notices by itself"""
        self.early: set[str] = set()
        """members that asked before they were seen, and were not woken since"""
        self._kinds: dict[tuple[object, ...], Query] = {}
        self._names: dict[str, Sequence[str]] = {}
        self._merged: dict[str, tuple[object, ...]] = {}
        """inventories that were compared, with what they were made of"""

    def all(self) -> None:
        """Everything that must be true between two steps."""
        self._nothing_is_sold_twice()
        self._what_is_over_is_free()
        self._what_agents_see_is_taken()
        self._the_index_is_what_follows()
        self._tables_agree()
        self._no_pod_is_remembered_for_too_long()
        self._no_pod_waits_unseen()
        self._no_deadline_is_missed()
        self._requests_are_those_of_the_pods()
        self._who_fits_was_woken()
        if not self._world.api.owed:
            self._nothing_is_forgotten()

    def bound(self, answer: BindAnswer) -> None:
        """Nothing is promised that is known not to work, or not to be there."""
        under_way = {flight.bound.uid for flight in self._world.flights}
        for bound in binds(answer.effects):
            view, inventory = self._world.api.delivered_box(bound.node)
            document = inventory.document if inventory else None
            if bound.grant is None or bound.uid in under_way or not isinstance(document, dict):
                continue
            must(view and view.ready, f"{bound.node} is not ready")
            sound = {device["uuid"] for device in document["spec"]["devices"] if device["healthy"]}
            must(sound.issuperset(bound.grant.offer.devices), f"{bound.grant.offer.devices} do not all work")

    def filtered(self, pod: PodView, names: Sequence[str], answer: FilterAnswer) -> None:
        """What is offered can be had, and who is offered nothing can have nothing."""
        state = state_of(self._world.broker)
        wanted = state.query(pod)
        if wanted is None:
            return
        self._kinds[wanted.table_key()] = wanted
        must(len(set(answer.nodes)) == len(answer.nodes), "a node is offered twice")
        must(set(answer.nodes) <= set(names), "a node is offered that was not asked about")
        if answer.nodes:
            self.early.discard(pod.uid)
            self._it_binds(pod, answer.nodes[len(answer.nodes) // 2])
            return
        self._names[pod.uid] = names
        self.woken.discard(pod.uid)
        must(set(answer.failed) | set(answer.unresolvable) == set(names), "a node was left without a reason")
        if is_unobserved_member(state, pod):
            self.early.add(pod.uid)
            return
        if wanted.policy.admit(wanted.ask) is None and state.cluster.ledger.get(pod.uid) is None:
            for name in state.cluster.index.nodes.keys() & set(names) - state.cluster.unready:
                must(isinstance(pick_on(state, wanted, name), Reject), f"{name} would have done for {pod.uid}")

    def restarted(self, before: Broker) -> None:
        """A new broker holds what the old one did, but for what was never written."""
        old, new = ({entry.key: entry for entry in broker.entries()} for broker in (before, self._world.broker))
        kept = {uid: held_of(entry) for uid, entry in old.items() if entry.state != "ASSUMED" and not entry.tentative}
        found = {uid: held_of(entry) for uid, entry in new.items() if not entry.tentative}
        # A record of a bound pod that changes is drift, and the old broker kept what it had read first.
        for uid, changed in state_of(before).cluster.remembered()[1].items():
            *known, parts, _, ask = found.pop(uid)
            must(kept.pop(uid)[:2] == tuple(known), f"a restart moved {uid}")
            must(parts == changed.offer.parts and bool(parts) == (ask is None), f"a restart made {parts} of {changed}")
        must(kept == found, f"a restart made {found} of {kept}")

    def _it_binds(self, pod: PodView, name: str) -> None:
        broker = self._world.broker
        if not broker.pod(pod.uid):
            return  # it is gone, and only who asked does not know yet
        answer = deepcopy(broker, _values(broker)).bind(pod.uid, name, self._world.now)
        must(not answer.error, f"{name} was offered to {pod.uid}: {answer.error}")

    def _nothing_is_sold_twice(self) -> None:
        held: dict[tuple[str, str], list[Claim]] = {}
        for uid, node, devices, share, core in self._live():
            indices = self._world.api.boxes[
                node
            ].indices()  # a device has one index, whichever name a record has for it
            for device in devices if node not in self.contradicted else ():
                held.setdefault((node, indices.get(device, device)), []).append((uid, share, core))
        for (node, device), found in held.items():
            box = self._world.api.boxes[node]
            whole = any(not (share or core) for _, share, core in found)
            pods = {uid for uid, _, _ in found}
            must(not whole or len(pods) == 1, f"{device} of {node} was promised to {found}")
            memory = sum(share for _, share, _ in found)
            must(memory <= (100 if box.family == "percent" else box.memory), f"{device} of {node} is oversold: {found}")
            must(sum(core for _, _, core in found) <= 100, f"{device} of {node} is oversold: {found}")

    def _live(self) -> Iterator[tuple[str, str, tuple[str, ...], int, int]]:
        """Grants that are written on pods that run, and those that may still be."""
        for pod in self._world.api.pods.values():
            for part in _parts(pod) if runs(pod) else ():
                yield pod.uid, pod.node, tuple(part["devices"]), part["share"], part["core"]
        under_way = {flight.bound.uid: flight.bound for flight in self._world.flights if flight.landed is None}
        for uid, bound in under_way.items():
            waiting = self._world.api.pods.get(uid)
            if bound.grant and waiting is not None and not waiting.node and not waiting.deleting:
                for found in bound.grant.offer.parts:
                    yield uid, bound.node, found.devices, found.share, found.core

    def _what_is_over_is_free(self) -> None:
        ledger = state_of(self._world.broker).cluster.ledger
        for key, events in self._world.api.delivered.items():
            uid = key.removeprefix("pod/")
            if isinstance(events[-1], PodDeleted) or self._world.api.known_over(uid):
                must(ledger.get(uid) is None, f"{uid} is over and holds devices")

    def _what_agents_see_is_taken(self) -> None:
        """For every pod, observed or not, except those that are known to have stopped."""
        cluster = state_of(self._world.broker).cluster
        for name, stock in cluster.inventories.items():
            free = {device.id for device in cluster.index.nodes[name].free()}
            for uid, devices in stock.allocations.items():
                seen = self._world.api.known_over(uid) or free.isdisjoint(devices)
                must(seen, f"{uid} was seen on {devices} of {name}, which count as free")

    def _the_index_is_what_follows(self) -> None:
        cluster = state_of(self._world.broker).cluster
        must(
            cluster.index.nodes.keys() == cluster.nodes.keys() == cluster.inventories.keys(),
            "the index has other nodes",
        )
        for name, stock in cluster.inventories.items():
            sources = (
                stock,
                cluster.nodes[name],
                cluster.objects.documents.get(name),
                cluster.objects.missing_of(name),
            )
            if not all(map(is_, sources, self._merged.get(name, (None,)))):
                documents, missing = cluster.objects.of(name), cluster.objects.missing_of(name)
                must(stock == merge_inventory(cluster.nodes[name], documents, (), missing), f"{name} has other devices")
                self._merged[name] = sources
            usage = usage_of(stock, cluster.ledger.on(name), cluster.ended_on(stock))
            must(cluster.index.nodes[name] == node_of(stock, usage), f"the index has another {name}")
        names = [(view.namespace, view.name) for view in cluster.pods.values()]
        must(len(set(names)) == len(names), "two pods have one name")

    def _tables_agree(self) -> None:
        index = state_of(self._world.broker).cluster.index
        for wanted in self._kinds.values():
            found, fitting = choices(index, wanted), []
            scores = found.scores(index.nodes)
            for name, node in index.nodes.items():
                verdict, score, refusal = index.judge(wanted, node), scores.get(name), found.refusal(name)
                rule = verdict.reason.rule if isinstance(verdict, Reject) else None
                must(score == (None if rule else verdict), f"{name} is {verdict} and {score} by the table")
                must((refusal.reason.rule if refusal else None) == rule, f"{name}: {refusal} by the table, not {rule}")
                fitting += [name] if score is not None else []
            must(found.all(list(index.nodes)) == fitting, "the table has other nodes that fit")
            best = found.best(list(index.nodes), 16)
            must(set(best) <= set(fitting) and bool(best) == bool(fitting), f"the best of {fitting} are {best}")

    def _no_pod_is_remembered_for_too_long(self) -> None:
        state, now = state_of(self._world.broker), self._world.now
        ledger, known = state.cluster.ledger, state.cluster.known
        longest = now + state.settings.pending
        offers = [entry for entry in ledger.entries() if entry.state == "OFFERED"]
        must(all(now < (entry.expires or now) <= longest for entry in offers), "an offer is open for too long")
        must({entry.pod for entry in offers} == set(ledger.offers), "the ledger has other offers")
        must(all(entry.pod in state.queue for entry in offers), "a pod that is not in the queue is offered a node")
        settled = [queued.uid for queued in state.queue if state.cluster.is_settled(queued.uid)]
        must(not settled, "a pod that is bound or gone is in the queue")
        waiting = [queued.uid for queued in state.queue.unschedulable()]
        must(not any(uid in known.gone or ledger.get(uid) for uid in waiting), "who has all waits for it")

    def _no_deadline_is_missed(self) -> None:
        """The next deadline is that of every part, also of those that the broker does not ask after a verb."""
        state = state_of(self._world.broker)
        deadline, cluster = self._world.broker.next_deadline(), state.cluster
        parts = {
            "offers": cluster.ledger.next_expiry(),
            "inventories": cluster.objects.next_deadline(),
            "holds": min(cluster.held.values(), default=None),
            "groups": state.groups.next_deadline(),
            "unobserved pods": state.queue.next_deadline(),
            "reservations": reservations.next_deadline(state),
            "evictions": evictions.next_deadline(state),
        }
        for part, due in parts.items():
            must(due is None or (deadline is not None and deadline <= due), f"the deadline of {part} would be missed")

    def _requests_are_those_of_the_pods(self) -> None:
        state = state_of(self._world.broker)
        settings = state.settings
        for pod in state.cluster.pods.values():
            read = read_request(pod, settings.policies, by_owner=OwnerRules.of(settings.group))
            must(state.request(pod) == read, f"another request of {pod.name} is cached")

    def _no_pod_waits_unseen(self) -> None:
        """Who was not seen stands in no line and is forgotten in time, and a member that is seen late is woken."""
        state, now = state_of(self._world.broker), self._world.now
        unseen = {queued.uid: queued.asked_at for queued in state.queue.unobserved()}
        asked = {queued.uid for queued in state.queue}
        must(unseen.keys() == asked - state.cluster.pods.keys(), f"{set(unseen)} are not seen")
        must(
            all(now - UNOBSERVED_TIME < time <= now for time in unseen.values()),
            "a pod that was not seen is kept for too long",
        )
        must(list(unseen.values()) == sorted(unseen.values()), "unseen pods are not in the order of their questions")
        in_line = {queued.uid for queued in state.queue.unschedulable()}
        must(
            in_line == {queued.uid for queued in state.queue if queued.unschedulable} - unseen.keys(),
            "a pod that was not seen is in line",
        )
        must(len(in_line) == state.queue.waiting and not state.queue.shown, "who was seen counts as unseen")
        must(not any(map(state.groups.key_of, unseen)), "a pod that was not seen is in a group")
        promised = {uid for uid in self.early if state.cluster.ledger.get(uid)}
        self.early = (self.early & asked) - promised
        must(self.early <= unseen.keys(), f"{self.early - unseen.keys()} were seen and not woken")

    def _who_fits_was_woken(self) -> None:
        """The first pod in the queue is woken when there is room on a node that refused it."""
        state = state_of(self._world.broker)
        first = next(iter(state.queue.unschedulable()), None)
        if first is None or first.query is None or first.uid in self.woken:
            return
        for name in state.cluster.index.nodes.keys() & set(self._names.get(first.uid, ())) - state.cluster.unready:
            fits = isinstance(pick_on(state, first.query, name), Offer)
            fits = fits and name not in self.reopened and may_go(state, first.uid, name)
            must(not fits, f"{first.uid} was not woken for {name}")

    def _nothing_is_forgotten(self) -> None:
        """When all news are through, no more is left of a node than its pods leave."""
        cluster = state_of(self._world.broker).cluster
        nodes = cluster.index.nodes
        for name, box in self._world.api.boxes.items():
            if name not in nodes or name in self.contradicted or box.family == "percent":
                continue
            if any(found.kind == "oversold" for found in cluster.drift.get(name, ())):
                continue  # others put more on one device than it has: its neighbours have the more left
            node, asked = nodes[name], sum(map(asked_of, self._world.api.holding(name)))
            shared = box.family == "share"
            left = sum(node.room().values()) if shared else len(node.free()) - node.unattributed
            most = max(0, box.count * (box.memory if shared else 1) - asked)
            must(left <= most, f"{left} are left of {name}, and {most} can be")


def held_of(entry: Entry) -> tuple[object, ...]:
    """What of an entry survives a restart."""
    return entry.state, entry.node, entry.grant.offer.parts, entry.grant.mode, entry.unrecorded_ask


def _values(broker: Broker) -> dict[int, object]:
    """What never changes, and what only saves time, need not be copied, and plans that are being made can't be."""
    state, cluster = state_of(broker), state_of(broker).cluster
    kept = (cluster.inventories, cluster.nodes, cluster.index.nodes, cluster.pods)
    values: dict[int, object] = {id(value): value for values in kept for value in values.values()}
    shared = (*state.queue, state.hosts, state.settings, state.policies, cluster.requests)
    values |= {id(value): value for value in shared}
    return {**values, **{id(run.steps): repeat(None) for run in state.groups.runs()}}


def _parts(pod: PodView) -> list[dict[str, Any]]:
    text = pod.annotations.get(GRANT)
    return list(json.loads(text)["containers"].values()) if text else []
