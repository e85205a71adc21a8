"""Two schedulers on one ledger: kube-scheduler's filter and bind, and Volcano's sessions, in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Record
from linkwise.broker.volcano.bookings import Task
from linkwise.broker.watch_events import PodDeleted
from linkwise.engine.ledger import is_whole
from linkwise.model.settings import PlacingSettings
from linkwise.testing.cluster import ASCEND, FakeNode, device_pod, seen_bound
from support.builders.volcano import pod_group, seen_recorded, volcano_pod
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.verdict import Entry
    from linkwise.model.views import PodView

NODES: Final = ("m", "n")
nodes: Final = st.sampled_from(NODES)


class TwoSchedulers(RuleBasedStateMachine):
    """A cluster of two nodes with eight chips each; what the broker writes arrives when a rule says so."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.api: dict[str, PodView] = {}
        self.groups: set[str] = set()
        self.writes: dict[str, Record] = {}
        self.broker = self.started()

    def started(self) -> Broker:
        broker = Broker(PlacingSettings(job_shape="per-pod"))
        broker.observe([event for name in NODES for event in FakeNode(name, "ring", 8).events()], self.now)
        broker.observe([pod_group(name, 2) for name in sorted(self.groups)], self.now)
        return broker

    def take(self, effects: Iterable[Effect]) -> None:
        self.writes |= {effect.uid: effect for effect in effects if isinstance(effect, Record)}

    def show(self, pod: PodView) -> None:
        changed = replace(pod, version=pod.version + 1)
        self.api[pod.uid] = changed
        self.take(self.broker.observe([changed], self.now))

    @initialize(target=pods)
    def first(self) -> object:
        return multiple()

    @rule(target=pods, number=st.integers(0, 99), amount=st.sampled_from([1, 2, 4, 8]), kind=st.sampled_from("kvg"))
    def create(self, number: int, amount: int, kind: str) -> object:
        name = f"{kind}{number}"
        if f"uid-{name}" in self.api:
            return multiple()
        if kind == "g":
            group = f"gang-{number % 3}"
            if group not in self.groups:
                self.groups.add(group)
                self.broker.observe([pod_group(group, 2)], self.now)
            pod = volcano_pod(name, amount, group)
        else:
            pod = volcano_pod(name, amount) if kind == "v" else device_pod(name, amount, ASCEND)
        self.show(replace(pod, created=self.now))
        return pod.uid

    @rule(uid=pods, node=nodes)
    def schedule_with_kube_scheduler(self, uid: str, node: str) -> None:
        pod = self.api.get(uid)
        if pod is None or pod.node or pod.scheduler == "volcano" or pod.deleting:
            return
        if node not in self.broker.filter(pod, NODES, self.now).nodes:
            return
        answer = self.broker.bind(uid, node, self.now)
        for bound in (effect for effect in answer.effects if isinstance(effect, Bind)):
            self.take(self.broker.outcome(bound, "written", self.now))
            self.show(seen_bound(pod, bound))

    @rule(uid=pods, node=nodes, pipelined=st.booleans(), asks=st.booleans())
    def allocate(self, uid: str, node: str, *, pipelined: bool, asks: bool) -> None:
        pod = self.api.get(uid)
        if pod is None or pod.scheduler != "volcano":
            return
        if asks:
            self.broker.predicate(pod, node, self.now)
            self.broker.rank(pod, NODES, self.now)
        before = self.broker.entry(uid)
        error = self.broker.book(Task(uid, node, pod, pipelined), self.now).error
        entry = self.broker.entry(uid)
        if not error and not pod.node:
            assert entry is not None
            assert entry.node == node
            assert entry.state in ({"CLAIMED", "BOOKED"} if pipelined else {"BOOKED"})
            if before and before.booked and before.node == node:
                assert before.grant.offer == entry.grant.offer, "a repeated allocation changed the devices"

    @rule(uid=pods)
    def deallocate(self, uid: str) -> None:
        before = self.broker.entry(uid)
        self.take(self.broker.unbook(uid, self.now))
        entry = self.broker.entry(uid)
        assert not (entry and entry.booked), "a booking was not given back"
        if before and not before.tentative:
            assert entry == before, "what is bound is not for Volcano to give back"

    @rule(uid=pods, node=nodes, anyway=st.booleans())
    def bind_with_volcano(self, uid: str, node: str, *, anyway: bool) -> None:
        """Volcano binds what it allocated, and sometimes what was refused: it ignores errors in places."""
        pod, entry = self.api.get(uid), self.broker.entry(uid)
        if pod is None or pod.node or pod.deleting or pod.scheduler != "volcano":
            return
        if entry and entry.state == "BOOKED":
            self.show(replace(pod, node=entry.node))
        elif anyway:
            used = sum(_asks(each) for each in self.api.values() if each.node == node)
            if used + _asks(pod) <= 8:  # it counts, even where it ignores us
                self.show(replace(pod, node=node))

    @rule()
    def records_arrive(self) -> None:
        for uid, record in list(self.writes.items()):
            pod = self.api.get(uid)
            if pod is not None:
                self.show(seen_recorded(pod, record))
            self.writes.pop(uid, None)

    @rule(uid=pods)
    def begin_deletion(self, uid: str) -> None:
        if (pod := self.api.get(uid)) and not pod.deleting:
            self.show(replace(pod, deleting=True))

    @rule(uid=consumes(pods))
    def delete(self, uid: str) -> None:
        if self.api.pop(uid, None):
            self.writes.pop(uid, None)
            self.take(self.broker.observe([PodDeleted(uid)], self.now))
            assert self.broker.entry(uid) is None

    @rule(seconds=st.sampled_from([0.5, 3.0, 61.0, -500.0]))
    def time_passes(self, seconds: float) -> None:
        self.now = max(0.0, self.now + seconds)
        self.take(self.broker.step(self.now, 50))
        assert self.broker.next_deadline() is None or seconds < 0 or self._is_ahead()

    def _is_ahead(self) -> bool:
        deadline = self.broker.next_deadline()
        return deadline is None or deadline == 0.0 or deadline > self.now - 1

    @rule()
    def restart(self) -> None:
        self.broker = self.started()
        self.writes.clear()
        self.broker.see(self.api.values())
        while self.broker.recover(self.now):
            pass
        self.take(self.broker.step(self.now, 50))

    @rule()
    def restore_a_snapshot(self) -> None:
        snapshot = self.broker.snapshot(self.now)
        restored = Broker.restore(snapshot)
        assert restored.snapshot(self.now) == snapshot
        self.broker = restored

    @invariant()
    def no_device_has_two_owners(self) -> None:
        owners: dict[tuple[str, str], Entry] = {}
        claimed: dict[tuple[str, str], Entry] = {}
        for entry in self.broker.entries():
            for part in entry.grant.offer.parts:
                assert is_whole(part)
                for device in part.devices:
                    known = claimed if entry.state == "CLAIMED" else owners
                    assert known.setdefault((entry.node, device), entry).key == entry.key, f"{device} has two owners"
        for place, claim in claimed.items():
            owner = owners.get(place)
            assert owner is None or owner.state in {"RELEASING", "ASSIGNED"}, f"the claim of {claim.pod} met {owner}"

    @invariant()
    def records_on_pods_name_no_device_twice(self) -> None:
        listed = [
            (pod.node, chip)
            for pod in self.api.values()
            if pod.node
            for chip in pod.annotations.get(ASCEND, "").split(",")
            if chip
        ]
        assert len(listed) == len(set(listed))

    @invariant()
    def nothing_is_written_on_a_pending_pod(self) -> None:
        assert all(self.api[uid].node for uid in self.writes if uid in self.api)


def _asks(pod: PodView) -> int:
    return int(pod.containers[0].limits[ASCEND])


TestTwoSchedulers = pytest.mark.rule("003.in-session")(TwoSchedulers.TestCase)
TestTwoSchedulers.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
