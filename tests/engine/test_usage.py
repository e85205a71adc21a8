"""Usage of a node by all sources: the agent's report, records on pods, and counts."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from linkwise.engine.ledger import Entry
from linkwise.engine.usage import DriftKind, Usage, drift_text, node_after, node_of, resolved, usage_of
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.device import Device
from linkwise.model.inventory import NodeInventory
from linkwise.model.node import FREE, Use
from linkwise.model.verdict import Grant, Offer, Part

if TYPE_CHECKING:
    from linkwise.model.node import AskMode, Mode

DEVICES = tuple(Device(f"u{index}", index, memory=16) for index in range(3))


def stock(mode: Mode = "any", **allocations: tuple[str, ...]) -> NodeInventory:
    return NodeInventory("n", DEVICES, mode=mode, allocations=allocations)


def entry(
    pod: str, *devices: str, share: int = 0, core: int = 0, mode: AskMode = "whole", created: float = 0.0
) -> Entry:
    parts = (Part("main", devices, share, core),) if devices else ()
    return Entry(Grant(pod, "", Offer("n", parts), mode=mode), "ASSIGNED", f"of-{pod}", created)


def unattributed(pod: str, devices: int = 0, share: int = 0, core: int = 0, *, in_bytes: bool = False) -> Entry:
    mode: AskMode = "whole" if devices else "share"
    ask = Ask("r", (ContainerAsk("main", devices, share, core),), mode=mode, in_bytes=in_bytes)
    return Entry(Grant(pod, "", Offer("n", ()), mode=mode), "ASSIGNED", f"of-{pod}", unrecorded_ask=ask)


def kinds(usage: Usage) -> list[DriftKind]:
    return [drift.kind for drift in usage.drift]


def whole(*pods: str) -> Use:
    return Use(whole=True, domains=frozenset(f"of-{pod}" for pod in pods))


def test_nothing_is_taken_of_a_node_without_entries() -> None:
    assert usage_of(stock(), []) == Usage()


def test_what_is_recorded_is_taken() -> None:
    usage = usage_of(stock(), [entry("a", "u0", "u1"), entry("b", "u2")])
    assert usage.used == {"u0": whole("a"), "u1": whole("a"), "u2": whole("b")}
    assert usage.drift == ()


def test_what_the_agent_saw_counts_whatever_the_record_says() -> None:
    usage = usage_of(stock(a=("u1",)), [entry("a", "u0")])
    assert usage.used == {"u1": whole("a")}
    (drift,) = usage.drift
    assert (drift.kind, drift.pods, drift.devices, drift.believed) == ("record", ("a",), ("u0",), ("u1",))
    assert drift_text(drift) == "node n: the record of pod a has u0, but the pod uses u1; actual usage counts"


def test_a_record_counts_where_the_agent_has_not_seen_all_of_it_yet() -> None:
    usage = usage_of(stock(a=("u1",)), [entry("a", "u0", "u1")])
    assert set(usage.used) == {"u0", "u1"}
    assert usage.drift == ()


def test_a_share_moves_to_the_device_that_the_agent_saw() -> None:
    usage = usage_of(stock(a=("u1",)), [entry("a", "u0", share=4, core=20, mode="share")])
    assert usage.used == {"u1": Use(4, 20, domains=frozenset({"of-a"}))}


def test_pods_without_a_record_or_an_agent_report_are_counted() -> None:
    usage = usage_of(stock(), [unattributed("a", devices=2), unattributed("b", share=4, core=30)])
    assert usage.used == {}
    assert (usage.unattributed, usage.unattributed_share, usage.unattributed_core) == (2, 4, 30)


def test_a_pod_without_a_record_is_attributed_once_the_agent_reports_it() -> None:
    usage = usage_of(stock(a=("u0",), b=("u2",)), [unattributed("a", devices=2), unattributed("b", share=4)])
    assert usage.used["u2"] == Use(4, domains=frozenset({"of-b"}))
    assert usage.used["u0"] == whole("a")
    assert (usage.unattributed, usage.unattributed_share) == (1, 0)  # one of two devices is not reported yet
    assert "record" not in kinds(usage)


def test_bytes_of_an_unattributed_share_are_counted_in_the_devices_own_unit() -> None:
    sized = (Device("u0", 0, memory=100, bytes=1000), Device("u1", 1, memory=100, bytes=500))
    counted = usage_of(NodeInventory("n", sized), [unattributed("a", share=101, core=5, in_bytes=True)])
    assert (counted.unattributed, counted.unattributed_share, counted.unattributed_core) == (0, 21, 5)
    seen = usage_of(
        NodeInventory("n", sized, allocations={"a": ("u0",)}), [unattributed("a", share=101, core=5, in_bytes=True)]
    )
    assert seen.used == {"u0": Use(11, 5, domains=frozenset({"of-a"}))}


def test_a_request_in_bytes_takes_a_whole_device_where_bytes_are_unknown() -> None:
    counted = usage_of(stock(), [unattributed("a", share=101, core=5, in_bytes=True)])
    assert (counted.unattributed, counted.unattributed_share) == (1, 0)
    seen = usage_of(stock(a=("u0",)), [unattributed("a", share=101, core=5, in_bytes=True)])
    assert seen.used == {"u0": whole("a")}


@pytest.mark.parametrize("order", list(permutations(["record", "agent"])))
def test_an_index_in_a_record_means_the_device_of_that_index(order: tuple[str, str]) -> None:
    names = dict(zip(order, ("#1", "u1"), strict=True))
    usage = usage_of(stock(a=(names["agent"],)), [entry("a", names["record"])])
    assert usage.used == {"u1": whole("a")}
    assert usage.drift == ()


def test_an_index_is_an_id_where_only_counts_are_known() -> None:
    counted = NodeInventory("n", tuple(Device(f"#{index}", index) for index in range(2)))
    assert usage_of(counted, [entry("a", "#1")]).used == {"#1": whole("a")}


def test_an_id_goes_before_an_index() -> None:
    odd = NodeInventory("n", (Device("#1", 0), Device("u1", 1)))
    assert resolved(odd, ["#1", "u1", "#0", "x"]) == {"#1", "u1", "x"}


def test_a_device_that_the_node_does_not_have_keeps_another_one_free() -> None:
    usage = usage_of(stock(), [entry("a", "u7", "u0"), entry("b", "x", share=4, mode="share")])
    assert set(usage.used) == {"u0"}
    assert (usage.unattributed, usage.unattributed_share) == (1, 4)
    assert [(drift.pods, drift.devices) for drift in usage.drift if drift.kind == "strange device"] == [
        (("a",), ("u7",)),
        (("b",), ("x",)),
    ]


def test_a_pod_that_is_not_known_keeps_the_devices_that_the_agent_saw() -> None:
    usage = usage_of(stock(ghost=("u0", "x")), [entry("a", "u1")])
    assert usage.used == {"u0": Use(whole=True), "u1": whole("a")}
    assert kinds(usage) == ["stranger"]
    assert "u0 is in use by unknown pod ghost" in drift_text(usage.drift[0])


def test_a_pod_that_has_ended_keeps_nothing() -> None:
    usage = usage_of(stock(done=("u0",)), [], ended=["done"])
    assert (usage.used, usage.drift) == ({}, ())


def test_a_pod_whose_devices_are_none_of_the_nodes_is_no_stranger() -> None:
    assert usage_of(stock(ghost=("x",), empty=()), []) == Usage()


def test_two_claims_on_one_device_both_count_and_the_older_pod_is_named_first() -> None:
    entries = [entry("b", "u0", created=1.0), entry("a", "u0", created=2.0)]
    usage = usage_of(stock(), entries)
    assert usage.used == {"u0": whole("a", "b")}
    assert [(drift.kind, drift.pods) for drift in usage.drift] == [("twice", ("b", "a"))]
    assert drift_text(usage.drift[0], lambda pod: str(pod).upper()) == "node n: device u0 is claimed by B and A"


def test_more_than_a_device_has_is_reported_and_nothing_is_left() -> None:
    entries = [entry(pod, "u0", share=10, mode="share") for pod in "ab"]
    usage = usage_of(stock("share"), entries)
    assert kinds(usage) == ["oversold"]
    assert node_of(stock("share"), usage).room()["u0"] == 0
    busy = [entry(pod, "u0", share=1, core=60, mode="percent") for pod in "ab"]
    assert kinds(usage_of(stock("percent"), busy)) == ["oversold"]


def test_shares_that_fill_a_device_exactly_are_not_oversold() -> None:
    usage = usage_of(stock("share"), [entry(pod, "u0", share=8, mode="share") for pod in "ab"])
    assert kinds(usage) == []
    assert node_of(stock("share"), usage).room()["u0"] == 0


def test_the_first_grant_decides_how_a_node_hands_out_devices() -> None:
    entries = [entry("a", "u0", share=4, mode="share"), entry("b", "u1")]
    usage = usage_of(stock(), entries)
    assert usage.mode == "share"
    assert [(drift.kind, drift.pods, drift.believed) for drift in usage.drift] == [("mode", ("b",), ("a",))]
    assert usage.unattributed == 0


@pytest.mark.rule("004.mode")
def test_a_node_that_was_switched_hands_out_nothing_until_the_old_grants_are_gone() -> None:
    held = entry("a", "u0", share=4, mode="share")
    usage = usage_of(stock("whole"), [held, entry("b", "u1")])
    assert (usage.mode, usage.unattributed) == ("share", len(DEVICES))
    assert [(drift.kind, drift.pods, drift.believed) for drift in usage.drift] == [("mode", ("a",), ("n",))]
    assert set(node_of(stock("whole"), usage).room().values()) == {0}
    assert usage_of(stock("whole"), [entry("b", "u1")]).mode == "whole"


def test_unidentified_unhealthy_devices_count_as_allocated() -> None:
    unhealthy = NodeInventory("n", DEVICES, unidentified=2)
    assert node_of(unhealthy, usage_of(unhealthy, [unattributed("a", devices=1)])).unattributed == 3


def test_a_node_after_an_offer_has_so_much_less() -> None:
    node = node_of(stock(), usage_of(stock(), []))
    offer = Offer("n", (Part("one", ("u0",), 4, 10), Part("two", ("u0",), 2)))
    after = node_after(node, offer, "team", "share")
    assert after.used == {"u0": Use(6, 10, domains=frozenset({"team"}))}
    assert (after.mode, node.used.get("u0", FREE)) == ("share", FREE)
    assert node_after(after, Offer("n", (Part("one", ("u1",)),)), "team", "whole").mode == "share"


def test_every_kind_of_drift_has_a_sentence() -> None:
    usage = usage_of(
        NodeInventory("n", DEVICES, mode="share", allocations={"ghost": ("u2",), "c": ("u1",)}),
        [entry("a", "u0"), entry("b", "u0", "x"), entry("c", "u2", share=20, mode="share")],
    )
    assert set(kinds(usage)) == {"strange device", "record", "stranger", "twice", "oversold", "mode"}
    assert all(drift_text(drift).startswith("node n: ") for drift in usage.drift)
