"""Requests for memory of a device: amounts, units, concurrent binds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.explain.inspect import inspect_nodes
from linkwise.model.views import PodView
from linkwise.testing.cluster import KOORDINATOR, MEMORY, FakeNode, binds, broker_of, device_pod, place
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.testing.cluster import Family

NOW = 100.0


def pod(name: str, amount: int | str = 8) -> PodView:
    return device_pod(name, amount, MEMORY)


def box(name: str = "n", count: int = 1, memory: int = 16) -> FakeNode:
    return FakeNode(name, "share", count, memory)


def counted(name: str = "n", count: int = 1, memory: int = 16) -> FakeNode:
    """A node of which only the reference's plugin tells."""
    return replace(box(name, count, memory), inventory=False)


def rooms(broker: Broker, node: str = "n") -> list[int]:
    (found,) = inspect_nodes(broker, node, NOW)
    return [device.room for device in found.devices]


@pytest.mark.rule("004.no-fit")
def test_of_many_binds_for_the_last_free_memory_one_succeeds_and_the_others_get_the_reason() -> None:
    broker = broker_of(box(memory=8))
    pods = [pod(f"p{number}") for number in range(10)]
    broker.observe(pods, NOW)
    answers = [broker.bind(found.uid, "n", NOW) for found in pods]
    assert [len(binds(answer.effects)) for answer in answers] == [1] + [0] * 9
    assert {answer.error for answer in answers[1:]} == {
        "node n: device 0 has 0 GiB free; 8 GiB is needed on one device",
    }
    assert [entry.pod for entry in state_of(broker).cluster.ledger.entries()] == ["uid-p0"]


def test_without_nodes_there_is_nothing_to_offer_and_unknown_ones_are_named() -> None:
    broker = broker_of()
    assert broker.filter(pod("a"), [], NOW).nodes == []
    answer = broker.filter(pod("a"), ["x"], NOW)
    assert (answer.nodes, answer.failed) == ([], {"x": "node(s) were not observed yet"})
    broker.observe([pod("a")], NOW)
    assert broker.bind("uid-a", "x", NOW).error == "node x is unknown"
    assert inspect_nodes(broker, "x", NOW) == ()


@pytest.mark.parametrize("empty", [PodView("default", "a", "uid-a"), pod("a", 0)], ids=["no containers", "asks for 0"])
def test_a_pod_that_asks_for_no_memory_is_let_pass_and_takes_nothing(empty: PodView) -> None:
    broker = broker_of(box(memory=8))
    place(broker, pod("full"), "n", NOW)
    assert broker.filter(empty, ["n"], NOW).nodes == ["n"]
    broker.observe([empty], NOW)
    (bound,) = binds(broker.bind("uid-a", "n", NOW).effects)
    assert (bound.grant, bound.annotations) == (None, {})


@pytest.mark.parametrize(("amount", "taken"), [("1k", 1000), ("2000m", 2), ("1e3", 1000), ("1Ki", 1024), ("4.0", 4)])
def test_an_amount_may_be_written_in_any_way_that_kubernetes_reads(amount: str, taken: int) -> None:
    broker = broker_of(counted(memory=16276))
    place(broker, pod("a", amount), "n", NOW)
    assert rooms(broker) == [16276 - taken]


def test_bytes_in_the_place_of_units_are_more_than_any_device_has() -> None:
    broker = broker_of(counted(memory=16276))
    assert broker.filter(pod("a", "10G"), ["n"], NOW).unresolvable == {
        "n": "node(s) had no device as large as the request"
    }
    broker.observe([pod("a", "10G")], NOW)
    assert "10000000000 MiB requested on one device" in broker.bind("uid-a", "n", NOW).error


@pytest.mark.parametrize("amount", ["-1", "1.5", "500m", "x", "", "1GB"])
def test_an_amount_that_is_no_count_is_refused_for_good_and_nothing_is_taken(amount: str) -> None:
    broker = broker_of(counted())
    wrong = pod("a", amount)
    assert broker.filter(wrong, ["n"], NOW).unresolvable.keys() == {"n"}
    broker.observe([wrong], NOW)
    assert MEMORY in broker.bind("uid-a", "n", NOW).error
    assert broker.admit(wrong).refusal
    assert rooms(broker) == [16]


@pytest.mark.parametrize("count", [1, 10, 40, 1000])
@pytest.mark.parametrize(("resource", "family", "size"), [(MEMORY, "share", 8), (KOORDINATOR, "percent", 50)])
def test_no_wholly_free_node_is_opened_while_another_has_a_free_card(
    resource: str, family: Family, size: int, count: int
) -> None:
    nodes = [FakeNode(f"n{number:04}", family, count=8) for number in range(count)]
    broker, last = broker_of(*nodes), nodes[-1].name
    for number in range(7):
        place(broker, device_pod(f"p{number}", 16 if family == "share" else 100, resource), last)
    asking, names = device_pod("asking", size, resource), [node.name for node in nodes]
    assert broker.filter(asking, names, NOW, keep=False).nodes == [last]
    assert broker.filter(asking, names[::-1], NOW, keep=False).nodes == [last]
    offer = broker.dry_run(asking, NOW).offer
    assert offer
    assert offer.node == last
