"""Open offers: their nodes, their deadlines, and the nodes they make busy."""

from __future__ import annotations

import pytest

from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.offers import FailedOffers, OfferBook, OpenOffer
from linkwise.policies.registry import POLICIES
from linkwise.testing.nodes import ask

ONE = Query(ask(1), "w", POLICIES["whole-device"])


def offered(pod: str, *nodes: str, wanted: Query = ONE, expires: float = 2.0) -> OpenOffer:
    return OpenOffer(pod, wanted, nodes, expires)


def book(*entries: OpenOffer) -> OfferBook:
    made = OfferBook()
    for entry in entries:
        made.put(entry)
    return made


def test_a_pod_is_kept_in_mind_on_all_nodes_that_it_was_offered() -> None:
    found = book(offered("a", "n1", "n2"), offered("b", "n2"))
    assert [entry.pod for entry in found.on("n2")] == ["a", "b"]
    assert [entry.pod for entry in found.on("n2", but="a")] == ["b"]
    assert found.on("n3") == []


def test_a_node_that_was_offered_twice_is_kept_in_mind_once() -> None:
    found = book(offered("a", "n1", "n1"))
    assert found.remove("a") is not None
    assert found.on("n1") == []
    assert found.remove("a") is None


def test_the_next_offer_takes_the_place_of_the_last() -> None:
    found = book(offered("a", "n1"), offered("a", "n2"))
    assert (found.on("n1"), [entry.pod for entry in found.on("n2")]) == ([], ["a"])


def test_nodes_of_others_do_not_count_those_that_only_the_pod_itself_was_offered() -> None:
    found = book(offered("a", "n1", "n2"), offered("b", "n2", "n3"))
    names = ["n0", "n1", "n2", "n3"]
    assert found.shared(names, "a") == ["n2", "n3"]
    assert found.shared(names, "c") == ["n1", "n2", "n3"]


def test_a_node_is_busy_where_more_pods_than_on_the_average_were_offered_it() -> None:
    found = book(offered("a", "n1", "n2"), offered("b", "n2"), offered("c", "n2"))
    assert found.busy_but("x", nodes=9) == {"n1", "n2"}
    assert found.busy_but("x", nodes=3) == {"n2"}
    assert found.busy_but("a", nodes=9) == {"n2"}
    assert OfferBook().busy_but("x", nodes=0) == set()


def test_an_offer_is_over_after_its_time() -> None:
    found = book(offered("a", "n1", expires=2.0), offered("b", "n2", expires=3.0))
    assert found.next_expiry() == 2.0
    found.expire(2.0, longest=2.0)
    assert [entry.pod for entry in found.entries()] == ["b"]
    found.expire(3.0, longest=2.0)
    assert (found.entries(), found.next_expiry()) == ([], None)


@pytest.mark.parametrize("now", [-1e18, -3600.0, -0.1, float("nan"), 1e18, float("inf")])
def test_a_clock_that_is_set_back_or_far_ahead_keeps_no_offer_for_longer(now: float) -> None:
    found = book(offered("a", "n1", expires=2.0))
    found.expire(now, longest=2.0)
    assert found.entries() == []


def test_unneeded_nodes_are_reported_once() -> None:
    found = book(offered("a", "n1", "n2"))
    assert found.take_freed() == []
    found.put(offered("a", "n2", "n3"))
    assert found.take_freed() == ["n1"]
    found.bound("a")
    assert found.take_freed() == ["n2", "n3"]
    assert found.take_freed() == []


def test_who_asks_again_was_offered_the_last_nodes_in_vain() -> None:
    found = book(offered("a", "n1", "n2"))
    assert found.attempts("a") == FailedOffers()
    assert found.asks_again("a") == FailedOffers(frozenset({"n1", "n2"}), 1)
    assert found.asks_again("a").rounds == 1  # it was offered nothing in between
    found.put(offered("a", "n3"))
    found.expire(9.0, longest=2.0)
    assert found.asks_again("a") == FailedOffers(frozenset({"n1", "n2", "n3"}), 2)


def test_a_bind_under_way_is_no_failure_until_it_is_refused() -> None:
    found = book(offered("a", "n1", "n2"))
    found.bound("a")
    assert found.asks_again("a") == FailedOffers()
    found.failed("a", ["n1"])
    assert found.asks_again("a") == FailedOffers(frozenset({"n1"}), 1)


def test_nothing_is_remembered_of_a_pod_that_is_bound_or_gone() -> None:
    found = book(offered("a", "n1"))
    found.failed("a", ["n2"])
    found.forget("a")
    assert (found.entries(), found.all_attempts(), found.offered()) == ([], {}, {})


def test_a_book_becomes_what_a_snapshot_holds() -> None:
    found = book(offered("a", "n1"))
    found.failed("b", ["n2"])
    other = book(offered("x", "n9"))
    other.restore(found.entries(), found.all_attempts(), found.offered())
    assert (other.entries(), other.offered(), other.take_freed()) == (found.entries(), {"a": ("n1",)}, [])
    assert other.asks_again("b") == FailedOffers(frozenset({"n2"}), 1)
