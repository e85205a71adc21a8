"""What a snapshot keeps of a broker."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from operator import attrgetter

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Bind, Event, Evict, Wake
from linkwise.broker.records.groups import GroupRecord
from linkwise.broker.snapshot import BrokerState
from linkwise.broker.watch_events import ClusterObject, PodDeleted
from linkwise.engine.queue.scheduling_queue import QueuedPod
from linkwise.errors import InputError
from linkwise.model.settings import PlacingSettings
from linkwise.model.snapshot import Snapshot
from linkwise.model.verdict import Entry, Grant, Offer, ReservedKey
from linkwise.model.views import ContainerView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from linkwise.wire.snapshot import decode_snapshot, encode_snapshot
from support.state import state_of


def pod(name: str, count: int = 8) -> PodView:
    containers = (ContainerView("main", limits={"nvidia.com/gpu": str(count)}),)
    return PodView("default", name, f"u-{name}", containers, version=1)


def broker() -> Broker:
    made = Broker(PlacingSettings(breadth=4))
    made.observe(fleet_node(profile("dgx1-v100"), "n1"), 0.0)
    return made


def again(first: Broker, now: float = 1.0) -> Broker:
    return Broker.restore(first.snapshot(now))


def bound(first: Broker, asking: PodView, now: float = 1.0) -> Bind:
    first.filter(asking, ["n1"], now)
    (bind,) = (effect for effect in first.bind(asking.uid, "n1", now).effects if isinstance(effect, Bind))
    return bind


def test_settings_are_kept() -> None:
    assert again(broker()).settings.breadth == 4


def test_a_promise_is_kept_and_its_outcome_is_still_taken() -> None:
    first = broker()
    bind = bound(first, pod("a"))
    second = again(first)
    assert second.filter(pod("b"), ["n1"], 1.0).nodes == []
    second.outcome(bind, "refused", 2.0)
    assert second.filter(pod("b"), ["n1"], 2.0).nodes == ["n1"]


def test_a_pod_that_was_refused_is_woken_all_the_same() -> None:
    first = broker()
    bind = bound(first, pod("a"))
    first.observe([pod("b")], 1.0)
    first.filter(pod("b"), ["n1"], 1.0)
    effects = again(first).outcome(bind, "refused", 2.0)
    assert [effect.uid for effect in effects if isinstance(effect, Wake)] == ["u-b"]


def test_an_offer_still_keeps_others_away_until_its_time_is_over() -> None:
    first = broker()
    first.filter(pod("a"), ["n1"], 1.0)
    second = again(first)
    assert second.filter(pod("b"), ["n1"], 1.5).nodes == []
    assert second.filter(pod("b"), ["n1"], 9.0).nodes == ["n1"]


def test_a_pod_that_is_gone_stays_gone() -> None:
    first = broker()
    first.observe([pod("a"), PodDeleted("u-a")], 1.0)
    second = again(first)
    second.observe([replace(pod("a"), node="n1")], 2.0)
    assert second.pods == {}


def test_without_kept_state_the_records_of_pods_determine_their_devices() -> None:
    first = broker()
    bind = bound(first, pod("a", 2))
    first.outcome(bind, "written", 1.0)
    first.observe([replace(pod("a", 2), node="n1", annotations=bind.annotations, version=2)], 1.0)
    seen = replace(first.snapshot(1.0), state=None)
    assert Broker.restore(seen).usage == first.usage


def test_a_pod_that_waits_must_request_devices() -> None:
    queued = QueuedPod(replace(pod("a"), containers=()), 1.0, state="UNSCHEDULABLE")
    with pytest.raises(InputError, match="pod u-a was offered nodes or refused, but does not request devices"):
        Broker.restore(Snapshot(state=BrokerState(queue=(queued,))))


def test_a_pod_has_one_record_in_the_queue_and_one_in_the_ledger() -> None:
    queued, entry = QueuedPod(pod("a"), 1.0), Entry(Grant("u-a", "", Offer("n1", ())), "ASSUMED")
    for state in (BrokerState(queue=(queued, queued)), BrokerState(entries=(entry, entry))):
        with pytest.raises(InputError, match=r"state\..*\[1\]: duplicate: pod 'u-a' is listed before"):
            Broker.restore(Snapshot(state=state))


def test_what_is_kept_free_for_a_pod_is_written_with_its_purpose_beside_the_own_entry_of_the_pod() -> None:
    entry = Entry(Grant("u-a", "", Offer("n1", ())), "OFFERED", expires=9.0)
    kept = replace(entry, state="RESERVED", purpose="reservation")
    data = encode_snapshot(Snapshot(state=BrokerState(entries=(entry, kept))))
    written = json.loads(data)["state"]["entries"]
    assert [(each["grant"]["pod"], each.get("purpose")) for each in written] == [("u-a", None), ("u-a", "reservation")]
    restored = Broker.restore(decode_snapshot(data, BrokerState))
    assert {each.key for each in restored.entries()} == {"u-a", ReservedKey("u-a", "reservation")}
    with pytest.raises(InputError, match=r"\[1\]: duplicate: pod 'u-a \(reservation\)' is listed before"):
        Broker.restore(Snapshot(state=BrokerState(entries=(kept, kept))))


def test_effects_that_wait_are_returned_by_the_restored_broker() -> None:
    waiting = (Evict("a", "b", "c", "half bound"), Event("Normal", "Planned", "all fit"))
    taken = decode_snapshot(encode_snapshot(Snapshot(state=BrokerState(outbox=waiting))), BrokerState)
    assert Broker.restore(taken).step(1.0) == waiting


# What each part of a broker remembers: kept by a snapshot, or worked out again from what it keeps. A change that lets a part
# remember more must decide which of the two that is.
REMEMBERED = {
    "state": {
        *(
            "settings",
            "readable",  # of a copy for a reader; None here
            "outbox",
            "cluster",
            "queue",
            "reservations",
            "writer",
            "groups",
            "preemptions",
            "access",
            "bookings",
        ),
        *("policies", "_across_nodes", "hosts", "pause", "recovering"),
        "vendors",  # for seconds, until the watch delivers a member
    },
    "state.cluster": {
        *("settings", "nodes", "objects", "shared", "claims", "known", "ledger", "_changed", "_moved", "unwritten"),
        *(
            "requests",
            "by_owner",  # from the settings
            "unready",
            "unreachable",
            "held",
            "inventories",
            "index",
            "drift",
            "problems",
            "changes",
            "find_pod",
        ),
    },
    "state.cluster.objects": {*("_grace", "documents", "missing"), *("_changed", "_parse", "_latest", "_deadline")},
    "state.cluster.shared": {
        "documents",
        *("problems", "ladders", "budgets", "_changes", "_pod_groups", "_hyper_nodes", "_tiers", "_words"),
        *("_invalid_labels", "_label_keys", "access", "namespaces", "_readers", "claiming"),
    },
    "state.cluster.claims": {
        *("_slices", "_classes", "_claims", "_rules"),
        *("_changes", "_pools", "_pools_on", "_claims_in", "_planned"),
    },
    "state.cluster.known": {"views", "gone", *("unschedulable", "_named", "_on", "_loads")},
    "state.cluster.ledger": {
        "_entries",
        "_serial",
        *("_by_node", "_offers", "_bookings", "_claims", "touched", "sharing_of", "changed_keys", "changes"),
    },
    "state.access": {
        "limited",
        *("_cluster", "_find_pod", "freed", "_in_use", "_pods", "_counted", "_barred"),
        *("refusals", "_refused", "_recorded"),  # counters for the status alone
    },
    "state.queue": {
        "_pods",
        "_dropped",
        "shown",
        "untaken",
        *("_unobserved", "_lines", "_unschedulable", "_woken", "_passed"),
    },
    "state.groups": {
        *("records", "evicted", "demoted"),
        *(
            "_changes",
            "complete",
            "_ledger",
            "_assumed",
            "key_by_pod",
            "_titles",
            "_called",
            "_views",
            "_in_stage",
            "_dated",
        ),
        "_gated",
        *("checked", "problems"),
    },
    "state.reservations": {"made", "refused", "searched", "schedulers", *("rooms", "checked")},
    "state.writer": {"_last"},
    "state.outbox": {"_effects", "_useful"},
}


OF_A_GROUP = {
    *("members", "stage", "since", "satisfied", "expirations", "generation", "places"),
    *("eviction", "stale", "answers", "notices", "complete", "steered", "claims"),
}


@pytest.mark.parametrize("part", REMEMBERED)
def test_a_snapshot_knows_all_that_a_broker_remembers(part: str) -> None:
    assert set(vars(attrgetter(f"_{part}")(broker()))) == REMEMBERED[part]


def test_a_snapshot_knows_all_that_a_broker_remembers_of_groups() -> None:
    assert {field.name for field in fields(GroupRecord)} == OF_A_GROUP


def member(number: int, count: int = 8) -> PodView:
    labels = {f"gputopology.scheduling.koordinator.sh/{key}": text for key, text in (("name", "g"), ("replica", "2"))}
    return replace(pod(f"g{number}", count), labels=labels, created=float(number))


def planned() -> Broker:
    made = broker()
    made.observe([*fleet_node(profile("dgx1-v100"), "n2"), member(0), member(1)], 1.0)
    assert made.filter(member(0), ["n1", "n2"], 1.0).nodes
    return made


def test_a_plan_holds_as_before() -> None:
    first = planned()
    second = again(first)
    assert state_of(second).groups.plans == state_of(first).groups.plans
    assert second.filter(pod("b"), ["n1", "n2"], 1.0).nodes == []
    assert second.filter(member(1), ["n1", "n2"], 1.0).nodes == first.filter(member(1), ["n1", "n2"], 1.0).nodes


def test_a_plan_ends_when_it_would_have() -> None:
    second = again(planned(), 30.0)
    assert second.next_deadline() == 61.0
    second.step(61.0)
    assert state_of(second).groups.plans == {}


def test_objects_of_the_cluster_are_kept_with_and_without_what_was_promised() -> None:
    first = broker()
    topology = ClusterObject("Topology.kueue.x-k8s.io", "t", {"spec": {"levels": [{"nodeLabel": "rack"}]}})
    first.observe([topology], 1.0)
    bare = replace(first.snapshot(1.0), state=None)
    for second in (again(first), Broker.restore(bare)):
        assert state_of(second).cluster.shared.ladders == state_of(first).cluster.shared.ladders != {}
