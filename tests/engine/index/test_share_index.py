from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain
from typing import Literal

import pytest

from linkwise import Ask, Device, Node, Use
from linkwise.engine.index.share_index import ShareIndex, SortedNames
from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.settings import ShareSettings
from linkwise.testing.nodes import share_ask, share_node

BINPACK = ShareSettings()
CARD = 100


def rooms_of(*nodes: Node, settings: ShareSettings = BINPACK) -> ShareIndex:
    rooms = ShareIndex(settings)
    for node in nodes:
        rooms.put(node)
    return rooms


def left(rooms: ShareIndex, name: str, ask: Ask) -> int | None:
    """What would be left of the device that a node would give; None if it does not fit."""
    score = rooms.scores([name], ask).get(name)
    return None if score is None else abs(score[0])


def big_cluster(count: int = 1200) -> list[Node]:
    """One device a node, with rooms of 1 to 100 again and again."""
    return [share_node(CARD, [number % CARD + 1], name=f"n{number:04}") for number in range(count)]


@pytest.mark.rule("004.binpack")
def test_the_tightest_node_is_first_and_the_roomiest_where_load_is_spread() -> None:
    nodes = [share_node(CARD, left, name=name) for name, left in (("a", [90, 20]), ("b", [50, 50]), ("c", [10, 35]))]
    assert rooms_of(*nodes).fitting(["a", "b", "c"], share_ask(30), 9) == ["c", "b", "a"]
    spread = rooms_of(*nodes, settings=ShareSettings(order="spread"))
    assert spread.fitting(["a", "b", "c"], share_ask(30), 9) == ["a", "b", "c"]


@pytest.mark.rule("002.segregate")
def test_a_device_of_another_namespace_is_not_seen_unless_all_may_share() -> None:
    node = share_node(CARD, [50], owners={0: "team-a"})
    assert left(rooms_of(node), "n", share_ask(30, namespace="team-a")) == 20
    assert left(rooms_of(node), "n", share_ask(30, namespace="team-b")) is None
    open_to_all = share_node(CARD, [50], owners={0: COMMON})
    assert left(rooms_of(open_to_all), "n", replace(share_ask(30, namespace="team-b"), sharing=COMMON)) == 20
    assert left(rooms_of(open_to_all), "n", replace(share_ask(30), sharing=ALONE)) is None


@pytest.mark.rule("004.mode")
def test_a_node_serves_asks_of_its_own_mode_and_of_both_while_nothing_decided_it() -> None:
    rooms = rooms_of(*(share_node(CARD, [50], name=mode, mode=mode) for mode in ("any", "share", "percent", "whole")))
    names, ask = ["any", "share", "percent", "whole"], share_ask(30)
    assert rooms.all_fitting(names, ask) == ["any", "share"]
    assert rooms.all_fitting(names, replace(ask, mode="percent")) == ["any", "percent"]


def test_compute_counts_only_where_it_is_asked_for() -> None:
    rooms = rooms_of(share_node(CARD, [40, 90], cores={0: 80, 1: 50}))
    assert left(rooms, "n", share_ask(30)) == 10
    assert left(rooms, "n", share_ask(30, core=50)) == 60
    assert left(rooms, "n", share_ask(30, core=51)) is None


def test_bytes_are_counted_in_percent_of_each_device() -> None:
    small, large = (Node(f"n{size}", (Device("d", 0, memory=100, bytes=size),)) for size in (1000, 4000))
    unknown = Node("n0", (Device("d", 0, memory=100),))
    ask = replace(share_ask(505), in_bytes=True)
    rooms = rooms_of(small, large, unknown)
    assert rooms.fitting(["n0", "n4000", "n1000"], ask, 9) == ["n1000", "n4000"]
    assert [left(rooms, name, ask) for name in ("n1000", "n4000")] == [49, 87]


@pytest.mark.parametrize("asked", [5, 150, 500, 1200])
@pytest.mark.parametrize("left_out", [0.0, 0.1, 0.9, 1.0])
def test_names_that_are_left_out_are_as_if_they_were_not_asked_about(asked: int, left_out: float) -> None:
    chance, nodes = random.Random(asked), big_cluster()
    rooms = rooms_of(*nodes)
    for share in (1, 40, 61, 99):
        names = chance.sample([node.name for node in nodes], asked)
        without = {name for name in names if chance.random() < left_out}
        rest, ask = [name for name in names if name not in without], share_ask(share)
        for breadth in (1, 16):
            assert rooms.fitting(names, ask, breadth, without) == rooms.fitting(rest, ask, breadth)


@pytest.mark.parametrize("count", [1, 10, 40, 1200])
def test_of_equally_tight_nodes_the_one_with_the_fewest_unused_devices_is_best(count: int) -> None:
    unused = [share_node(CARD, [CARD] * 8, name=f"n{number:04}") for number in range(count)]
    rooms = rooms_of(*unused, share_node(CARD, [0] * 7 + [CARD], name="opened"))
    names = [*(node.name for node in unused), "opened"]
    assert rooms.fitting(names, share_ask(50), 1) == ["opened"]
    assert rooms.fitting(names[::-1], share_ask(50), 3) == ["opened", *names[:-1]][:3]
    spread = rooms_of(*unused, share_node(CARD, [0] * 7 + [CARD], name="opened"), settings=ShareSettings("spread"))
    assert spread.fitting(names, share_ask(50), count + 1) == names


def test_a_long_request_gets_what_a_short_one_does() -> None:
    nodes = big_cluster()
    rooms, names = rooms_of(*nodes), [node.name for node in nodes]
    tight = [name for name in names if left(rooms, name, share_ask(61)) == 0]
    assert rooms.fitting(names, share_ask(61), 5) == tight[:5]
    assert rooms.fitting(names, share_ask(61), len(tight) - 1, without={tight[0]}) == tight[1:]
    assert rooms.all_fitting(names, share_ask(100)) == [f"n{number:04}" for number in range(99, 1200, 100)]
    assert rooms.fitting(names, share_ask(101), 5) == []


@pytest.mark.parametrize("order", ["binpack", "spread"])
def test_the_nodes_behind_one_are_those_that_follow_it_in_the_order_of_scores(
    order: Literal["binpack", "spread"],
) -> None:
    nodes = [share_node(CARD, [free], name=f"n{free:02}") for free in range(1, 60)]
    rooms, wanted = rooms_of(*nodes, settings=ShareSettings(order=order)), share_ask(30)
    scores = rooms.scores([node.name for node in nodes], wanted)
    by_score = sorted(scores.items(), key=lambda scored: [-term for term in scored[1]])
    assert len(by_score) == 30
    for place, (name, score) in enumerate(by_score):
        assert rooms.after(name, score, wanted, 3) == by_score[place + 1 : place + 4]


def test_names_that_are_none_of_the_best_are_found_all_the_same() -> None:
    nodes = big_cluster()
    rooms, names = rooms_of(*nodes), [node.name for node in nodes]
    loose = [name for name in names if (left(rooms, name, share_ask(1)) or 0) >= 50]
    for asked in (loose * 2, loose[:250]):
        assert {left(rooms, name, share_ask(1)) for name in rooms.fitting(asked, share_ask(1), 2)} == {50}
    full = [name for name in names if left(rooms, name, share_ask(90)) is None]
    assert rooms.fitting(full, share_ask(90), 5) == []


def test_a_short_request_of_many_kinds_of_devices_is_looked_up_where_pools_fail() -> None:
    kinds = [
        share_node(CARD, [room], name=f"k{core}-{room}", cores={0: core}) for core in range(8) for room in range(99)
    ]
    rooms, loose = rooms_of(*kinds), [f"k{core}-{room}" for core in range(8) for room in range(70, 99)][:195]
    assert rooms.fitting(loose, share_ask(1), 3) == ["k0-70", "k1-70", "k2-70"]


def test_a_node_that_changed_is_found_by_what_it_is_now() -> None:
    rooms = rooms_of(share_node(CARD, [50], name="a"), share_node(CARD, [60], name="b"))
    rooms.put(share_node(CARD, [35], name="b"))
    assert rooms.fitting(["a", "b"], share_ask(30), 1) == ["b"]
    rooms.put(replace(share_node(CARD, [35], name="b"), used={"d0": Use(whole=True)}))
    assert rooms.fitting(["a", "b"], share_ask(30), 9) == ["a"]
    rooms.drop("a")
    rooms.drop("unknown")
    assert rooms.fitting(["a", "b"], share_ask(30), 9) == []


def test_all_feasible_nodes_are_returned_after_some_and_after_most_nodes_changed() -> None:
    nodes = big_cluster(200)
    rooms, names, fitting = rooms_of(*nodes), [node.name for node in nodes], ["n0098", "n0099", "n0198", "n0199"]
    assert rooms.all_fitting(names, share_ask(99)) == fitting
    rooms.put(share_node(CARD, [100], name="n0000"))
    rooms.drop("n0099")
    assert rooms.all_fitting(names, share_ask(99)) == ["n0000", "n0098", "n0198", "n0199"]
    for node in nodes:
        rooms.put(node)
    assert rooms.all_fitting(names, share_ask(99)) == fitting


def test_of_many_asks_the_oldest_is_forgotten_and_answered_all_the_same() -> None:
    nodes = big_cluster(200)
    rooms, names = rooms_of(*nodes), [node.name for node in nodes]
    answers = [rooms.all_fitting(names, share_ask(share)) for share in range(1, 20)]
    assert [len(found) for found in answers] == list(range(200, 162, -2))
    assert rooms.all_fitting(names, share_ask(1)) == names


def test_names_stay_sorted_by_number_and_name_however_they_come_and_go() -> None:
    chance, names, kept = random.Random(7), SortedNames(), set[tuple[int, str]]()
    for step in range(12_000):
        pair = (chance.randint(0, 90), f"n{chance.randint(0, 90)}")
        coming = pair not in kept and step < 8_000
        if coming:
            names.add(*pair)
            kept.add(pair)
        elif pair in kept:
            names.remove(*pair)
            kept.remove(pair)
        if step % 1_000 == 999:
            found = chain.from_iterable(zip(*part, strict=True) for part in names.between(30, 60, piece=100))
            assert list(found) == sorted(found for found in kept if 30 <= found[0] <= 60)
