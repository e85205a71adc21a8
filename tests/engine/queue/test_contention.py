"""Open offers block a node only if one of their pods would fit nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.contention import DEEPEST, STEPS, Contention, is_contended
from linkwise.engine.queue.offers import OpenOffer, node_with
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask, node, share_ask, share_node

if TYPE_CHECKING:
    from linkwise.model.node import Node

ONE = Query(ask(1), "w", POLICIES["whole-device"])
TWO = Query(ask(2), "w", POLICIES["whole-device"])


def offered(pod: str, *nodes: str, wanted: Query = ONE) -> OpenOffer:
    return OpenOffer(pod, wanted, nodes, 2.0)


def test_an_ask_is_refused_where_a_pending_pod_could_go_nowhere_else() -> None:
    nodes = {name: node(1, name=name) for name in ("n1", "n2")}
    only_here, elsewhere = offered("a", "n1"), offered("b", "n1", "n2")
    assert is_contended(nodes["n1"], ONE, [only_here], nodes.get)
    assert not is_contended(nodes["n1"], ONE, [elsewhere], nodes.get)
    assert is_contended(nodes["n1"], ONE, [elsewhere, offered("c", "n2", "n1")], nodes.get)


def test_pending_pods_are_placed_together_and_not_one_by_one() -> None:
    nodes = {"n1": node(3, name="n1"), "n2": node(2, name="n2")}
    others = [offered("a", "n2", "n1", wanted=ONE), offered("b", "n2", wanted=TWO)]
    assert not is_contended(nodes["n1"], TWO, others, nodes.get)
    assert is_contended(nodes["n1"], Query(ask(3), "w", POLICIES["whole-device"]), others, nodes.get)


def test_a_node_that_is_gone_is_no_place_for_a_pending_pod() -> None:
    here = node(1, name="n1")
    assert is_contended(here, ONE, [offered("a", "n1", "gone")], {"n1": here}.get)


def test_shares_go_beside_each_other_on_one_device() -> None:
    here = share_node(16, [16], name="n1")
    half, most = (Query(share_ask(size), "w", POLICIES["memory-share"]) for size in (8, 9))
    assert not is_contended(here, half, [offered("a", "n1", wanted=half)], {"n1": here}.get)
    assert is_contended(here, most, [offered("a", "n1", wanted=half)], {"n1": here}.get)


def test_an_ask_that_no_longer_fits_is_refused() -> None:
    full = node(1, name="n1", free=())
    assert node_with(ONE, full) is None
    assert node_with(ONE, None) is None
    assert is_contended(full, ONE, [], {"n1": full}.get)


def test_no_pod_is_refused_as_contended_when_the_search_takes_too_long() -> None:
    names = [f"n{number}" for number in range(40)]
    nodes = {name: node(1, name=name) for name in names}
    others = [offered(f"p{number}", *names) for number in range(40)]
    calls: list[str] = []

    def look(name: str) -> Node | None:
        calls.append(name)
        return nodes[name]

    crowding = Contention(ONE, look)
    assert not crowding.needs("n0", others)  # 41 pods for 40 devices, but that can't be told in so many steps
    assert not any(crowding.needs(name, others) for name in names[1:])
    assert len(calls) <= STEPS + len(names)


def test_a_great_many_pending_pods_are_looked_at_without_end_of_stack() -> None:
    here = node(4, name="n1")
    others = [offered(f"p{number}", "n1") for number in range(10_000)]
    assert is_contended(here, ONE, others, {"n1": here}.get)
    assert is_contended(here, ONE, others[:DEEPEST], {"n1": here}.get)
