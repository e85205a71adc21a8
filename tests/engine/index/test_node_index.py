"""Tables that catch up with changes answer as tables built from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings, strategies as st

from linkwise.engine.index.node_index import MOST_LOGGED, TABLES, Index, Query, choices
from linkwise.model.device import Device
from linkwise.model.node import Node, Use
from linkwise.model.settings import PlacingSettings
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask, share_ask
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.engine.index.score_table import ClassTable
    from linkwise.model.node import Mode

WORD = frozenset({"w"})
WANTED = (
    Query(ask(1), "w", POLICIES["link-affinity"]),
    Query(ask(2), "w", POLICIES["whole-device"]),
    Query(ask(1), "w", POLICIES["ring-affinity"]),
    Query(share_ask(4), "w", POLICIES["memory-share"]),
    Query(ask(1), "other", POLICIES["link-affinity"]),
)


def devices(count: int) -> tuple[Device, ...]:
    return tuple(Device(f"d{number}", number, memory=8) for number in range(count))


def index_of(*nodes: Node, words: frozenset[str] = WORD) -> Index:
    index = Index(PlacingSettings())
    for node in nodes:
        index.put(node, words)
    return index


def content(table: ClassTable) -> tuple[object, ...]:
    refused = {name: (reject.reason, reject.final) for name, reject in table.refused.items()}
    equal = {code: list(table.names(code)) for code in table.order}
    return table.codes, refused, equal, table.texts, table.final


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    count = draw(st.integers(0, 4))
    taken = draw(st.sets(st.integers(0, 3)))
    unhealthy = draw(st.sets(st.integers(0, 3), max_size=1))
    share = draw(st.sampled_from([0, 3]))
    mode: Mode = draw(st.sampled_from(["any", "whole", "share"]))
    return Node(
        f"n{draw(st.integers(0, 4))}",
        tuple(Device(f"d{number}", number, memory=8, healthy=number not in unhealthy) for number in range(count)),
        {f"d{number}": Use(share, whole=not share, domains=frozenset({"default"})) for number in taken},
        profile=draw(st.sampled_from(["", "ascend-910-half"])),
        mode=mode,
        unattributed=draw(st.integers(0, 1)),
    )


Changes = list[tuple[Node, bool, int]]
CHANGES = st.lists(st.tuples(nodes(), st.booleans(), st.integers(0, len(WANTED))), max_size=25)


@settings(max_examples=examples(150), deadline=None)
@given(changes=CHANGES)
def test_a_table_that_caught_up_equals_a_rebuilt_one(changes: Changes) -> None:
    index = Index(PlacingSettings())
    for node, there, used in changes:
        if there:
            index.put(node, WORD)
        else:
            index.drop(node.name)
        for wanted in WANTED[:used]:
            index.table(wanted)
    fresh = index_of(*index.nodes.values())
    for wanted in WANTED:
        assert content(index.table(wanted)) == content(fresh.table(wanted))
        judged = {name: index.judge(wanted, node) for name, node in index.nodes.items()}
        assert index.table(wanted).codes == {name: score for name, score in judged.items() if isinstance(score, tuple)}


@settings(max_examples=examples(100), deadline=None)
@given(changes=CHANGES, budget=st.integers(0, 3), ahead=st.integers(1, 3))
def test_a_budget_leaves_a_rest_that_working_ahead_settles(changes: Changes, budget: int, ahead: int) -> None:
    index = Index(PlacingSettings())
    wanted = WANTED[0]
    for node, there, _ in changes:
        if there:
            index.put(node, WORD)
        else:
            index.drop(node.name)
        before = index.table(wanted, 0).steps
        table = index.table(wanted, budget)
        assert table.steps - before <= budget
        assert table.owing.keys().isdisjoint({*table.codes, *table.refused})
        assert {*table.owing, *table.codes, *table.refused} == set(index.nodes)
    for _ in range(10):
        index.work_ahead(ahead)
    fresh = index_of(*index.nodes.values())
    if changes:
        assert not table.owing
        assert content(table) == content(fresh.table(wanted))


def test_working_ahead_begins_with_the_table_that_was_used_last() -> None:
    index = index_of(*(Node(f"n{count}", devices(count)) for count in range(1, 4)))
    first, second = index.table(WANTED[0], 0), index.table(WANTED[1], 0)
    index.work_ahead(3)
    assert (len(first.owing), len(second.owing)) == (3, 0)


def test_tables_are_bounded_and_the_one_not_used_for_the_longest_goes() -> None:
    index = index_of(Node("n", devices(2)))
    kept = index.table(WANTED[0])
    for size in range(2, TABLES + 1):
        index.table(Query(ask(size), "w", POLICIES["whole-device"]))
        assert index.table(WANTED[0]) is kept
    index.table(Query(ask(500), "w", POLICIES["whole-device"]))
    index.table(Query(ask(501), "w", POLICIES["whole-device"]))
    assert index.table(WANTED[0]) is kept
    assert index.table(Query(ask(2), "w", POLICIES["whole-device"])).steps == 1  # rebuilt


def test_the_log_of_changes_is_bounded_and_late_tables_are_rebuilt() -> None:
    index = index_of(Node("n", devices(2)), Node("gone", devices(3)))
    late = index.table(WANTED[0])
    index.drop("gone")
    for number in range(MOST_LOGGED + 10):
        index.put(Node("n", devices(1 + number % 2)), WORD)
    table = index.table(WANTED[0])
    assert table is not late
    assert table.codes.keys() == {"n"}


def test_nodes_of_one_shape_are_judged_once() -> None:
    index = index_of(*(Node(f"n{number}", devices(4)) for number in range(50)))
    table = index.table(WANTED[0])
    assert (len(table.codes), table.steps) == (50, 1)


def test_nodes_of_a_shape_that_was_judged_cost_no_budget() -> None:
    index = index_of(*(Node(f"n{number}", devices(4)) for number in range(50)))
    assert not choices(index, WANTED[0], budget=1).partial


def test_words_that_a_node_no_longer_has_are_not_served() -> None:
    index = index_of(Node("n", devices(2), mode="any"))
    rooms = index.share_index("w")
    assert choices(index, WANTED[3]).all(["n"]) == choices(index, WANTED[0]).all(["n"]) == ["n"]
    index.put(index.nodes["n"], frozenset({"other"}))
    assert choices(index, WANTED[3]).all(["n"]) == choices(index, WANTED[0]).all(["n"]) == []
    assert index.share_index("w") is rooms
    assert choices(index, WANTED[4]).all(["n"]) == ["n"]


def test_unattributed_memory_is_no_unattributed_device() -> None:
    index = index_of(
        Node("device", devices(3), mode="whole", unattributed=1),
        Node("memory", devices(3), mode="whole", unattributed_share=5),
    )
    assert index.table(WANTED[0]).codes.keys() == {"device"}


def test_no_pod_is_refused_because_time_ran_out() -> None:
    index = index_of(Node("judged", devices(3)), Node("owing", devices(2)))
    found = choices(index, WANTED[0], budget=1)
    assert found.partial
    assert found.best(["owing"], 16) == ["owing"]
