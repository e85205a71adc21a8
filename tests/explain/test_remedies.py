from __future__ import annotations

from linkwise.engine.index.node_index import Query
from linkwise.engine.reasons.catalog import refusal, shortage
from linkwise.explain.remedies import Crowd, largest_room, room_makers, smaller
from linkwise.explain.survey import nearness, summarise
from linkwise.model.verdict import Reason
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask, share_ask, share_node


def test_the_fewest_pods_that_make_room_are_found() -> None:
    crowds = [Crowd("a", ("x", "y", "z"), lack=2, freed={"x": 1, "y": 1, "z": 1}), Crowd("b", ("q",))]
    assert room_makers(crowds, lambda node, pods: node == "a" and "z" in pods) == [("a", ("x", "z")), ("a", ("y", "z"))]


def test_sets_that_free_too_little_are_not_tried() -> None:
    tried: list[tuple[str, ...]] = []

    def fits(_: str, pods: tuple[str, ...]) -> bool:
        tried.append(pods)
        return True

    room_makers([Crowd("a", ("x", "y"), lack=3, freed={"x": 1, "y": 2})], fits)
    assert tried == [("x", "y")]


def test_the_search_ends_after_its_steps() -> None:
    tried: list[str] = []

    def fits(node: str, _: tuple[str, ...]) -> bool:
        tried.append(node)
        return False

    assert room_makers([Crowd("a", tuple("abcdefgh"))], fits, steps=10) == []
    assert len(tried) == 10


def test_enough_nodes_are_enough() -> None:
    crowds = [Crowd(f"n{number}", ("x",)) for number in range(20)]
    assert len(room_makers(crowds, lambda *_: True)) == 8


def test_a_smaller_ask_is_the_first_containers() -> None:
    less = smaller(ask(2, 2), devices=3)
    assert [(found.container, found.devices) for found in less.containers] == [("c0", 3)]


def test_the_largest_room_is_one_that_its_owner_may_have() -> None:
    wanted = Query(share_ask(90), "", POLICIES["memory-share"])
    rooms = share_node(100, (80, 60, 10), owners={0: "others", 1: "default", 2: "default"})
    assert largest_room(wanted, rooms) == (60, 1)
    assert largest_room(wanted, share_node(100, (0, 0))) == (0, 0)


def test_reasons_are_gathered_with_the_nearest_node_first_by_what_may_pass() -> None:
    few = {
        name: (Reason("002.whole", asked=8, found=(free, 8)), False) for name, free in (("a", 1), ("b", 7), ("c", 7))
    }
    cordoned = {name: (Reason("001.filters", kind="unschedulable"), True) for name in "defg"}
    first, second = summarise({**cordoned, **few}.items(), lambda _, reason: reason)
    assert (first.nodes, first.nearest, first.final) == (3, "b", False)
    assert first.sentence == "8 devices requested, but only 7 of 8 are free"
    assert (second.nodes, second.short, second.final) == (4, "node(s) were unschedulable", True)


def test_nodes_without_such_devices_are_listed_last() -> None:
    none = {name: (Reason("002.inventory", asked="nvidia.com/gpu"), True) for name in "abcd"}
    cordoned = {"e": (Reason("001.filters", kind="unschedulable"), True)}
    found = summarise({**none, **cordoned}.items(), lambda _, reason: reason)
    assert [group.nodes for group in found] == [1, 4]
    assert found[-1].short == "node(s) had no devices of the requested kind"


def test_how_near_a_node_is_follows_from_what_is_short() -> None:
    one, two = (Reason("003.predicate", 4, found, "one group", "ring") for found in ((1, 3), (2, 2)))
    assert nearness(one) > nearness(two)
    full, empty = (Reason("004.filter", 9, found) for found in (((0, 1), (1, 2)), ((0, 8), (1, 0))))
    assert nearness(empty) > nearness(full)
    assert nearness(Reason("001.filters", kind="taint")) == 0


def test_resources_that_a_node_lacks_are_reported_as_missing() -> None:
    assert shortage(Reason("001.filters", 6000, (2500, 16000), "cpu")) == "lacks 3.5 cpu"
    assert shortage(Reason("001.filters", 8 << 30, (512 << 20, 64 << 30), "memory")) == "lacks 7.5 GiB of memory"
    assert shortage(Reason("001.filters", 1, (0, 110), "pods")) == "already runs its maximum of 110 pods"
    ports = Reason("001.filters", "8080/TCP", kind="ports")
    assert shortage(ports) == f"can't run the pod: {refusal(ports)}"
