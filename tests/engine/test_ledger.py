"""Transitions of the ledger: those in the table happen, all others are errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from linkwise.engine.ledger import TABLE, Entry, Ledger, State, Transition
from linkwise.errors import LedgerError
from linkwise.model.verdict import Grant, Offer, Part, ReservedKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.verdict import Outcome

STATES: list[State | None] = [None, *get_args(State)]
TRANSITIONS: tuple[Transition, ...] = get_args(Transition)
OUTCOMES: tuple[Outcome, ...] = ("written", "refused", "unknown")
BY_UID = (*OUTCOMES, "unbook", "gone")  # verbs that take the UID of a pod can't name what is kept free for it
MISSING = [
    (s, h)
    for s in STATES
    for h in TRANSITIONS
    if (s, h) not in TABLE and h not in (BY_UID if s == "RESERVED" else OUTCOMES)
]
HELD = ReservedKey("a", "reservation")


def entry(pod: str = "a", *devices: str, node: str = "n", share: int = 0, created: float = 0.0) -> Entry:
    part = Part("main", devices or ("d0",), share)
    return Entry(Grant(pod, "link-affinity", Offer(node, (part,))), "PLANNED", created=created, expires=9.0)


def held_entry(*devices: str) -> Entry:
    """What is kept free for pod `a`."""
    return replace(entry("a", *devices), state="RESERVED", purpose="reservation")


def ledger_in(state: State | None) -> Ledger:
    """A ledger in which pod `a` has come so far."""
    ledger = Ledger()
    if state == "OFFERED":
        ledger.offer(entry())
    elif state == "RESERVED":
        ledger.reserve(held_entry())
    elif state == "PLANNED":
        ledger.plan([entry()])
    elif state == "CLAIMED":
        ledger.claim(entry(), ())
    elif state == "BOOKED":
        ledger.book(entry())
    elif state == "ASSUMED":
        ledger.assume(entry())
    elif state is not None:
        ledger.observe(entry(), deleting=state == "RELEASING")
    return ledger


def happens(ledger: Ledger, transition: Transition) -> object:
    serial, one = ledger.serial, held_entry() if transition == "reserve" or ledger.get(HELD) else entry()
    acts: dict[Transition, Callable[[], object]] = {
        "offer": lambda: ledger.offer(one),
        "reserve": lambda: ledger.reserve(one),
        "plan": lambda: ledger.plan([one]),
        "drop": lambda: ledger.drop([one.key]),
        "claim": lambda: ledger.claim(one, ()),
        "book": lambda: ledger.book(one),
        "unbook": lambda: ledger.unbook("a"),
        "assume": lambda: ledger.assume(one),
        "observed": lambda: ledger.observe(one, deleting=False),
        "deleting": lambda: ledger.observe(one, deleting=True),
        "gone": lambda: ledger.release("a"),
    }
    outcome = next((found for found in OUTCOMES if found == transition), None)
    return ledger.outcome("a", serial, outcome) if outcome else acts[transition]()


def state_of(ledger: Ledger) -> State | None:
    found = ledger.get("a") or ledger.get(HELD)
    return found.state if found else None


@pytest.mark.parametrize(("state", "transition"), TABLE)
def test_what_the_table_lists_happens(state: State | None, transition: Transition) -> None:
    ledger = ledger_in(state)
    happens(ledger, transition)
    assert state_of(ledger) == TABLE[state, transition]


def test_a_node_is_touched_by_what_is_held_and_not_by_how_far_that_has_come() -> None:
    ledger = ledger_in("ASSUMED")
    assert ledger.touched == {"n"}
    ledger.touched.clear()
    ledger.outcome("a", ledger.serial, "written")
    ledger.observe(entry(), deleting=False)
    ledger.observe(entry(), deleting=True)
    assert (ledger.touched, state_of(ledger)) == (set(), "RELEASING")
    ledger.observe(entry("a", "d1"), deleting=True)
    assert ledger.touched == {"n"}
    ledger.observe(entry("a", "d1", node="m"), deleting=True)
    assert (ledger.touched, [found.pod for found in ledger.on("m")], ledger.on("n")) == ({"n", "m"}, ["a"], [])


@pytest.mark.parametrize(("state", "transition"), MISSING)
def test_what_it_does_not_list_is_an_error_and_changes_nothing(state: State | None, transition: Transition) -> None:
    ledger = ledger_in(state)
    before, serial = list(ledger.entries()), ledger.serial
    with pytest.raises(LedgerError):
        happens(ledger, transition)
    assert (list(ledger.entries()), ledger.serial) == (before, serial)


@pytest.mark.parametrize("state", [None, "OFFERED", "PLANNED", "CLAIMED", "BOOKED"])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_of_a_settled_bind_is_ignored(state: State | None, outcome: Outcome) -> None:
    ledger = ledger_in(state)
    before = list(ledger.entries())
    assert not ledger.outcome("a", 1, outcome)
    assert not ledger.outcome("a", 0, outcome)
    assert list(ledger.entries()) == before


@pytest.mark.parametrize("transition", ["observed", "deleting", "gone"])
@pytest.mark.parametrize("state", [state for state in STATES if state != "RESERVED"])
def test_what_the_watch_shows_twice_changes_nothing_the_second_time(
    state: State | None, transition: Transition
) -> None:
    ledger = ledger_in(state)
    happens(ledger, transition)
    before = list(ledger.entries())
    happens(ledger, transition)
    assert list(ledger.entries()) == before


def test_a_plan_is_promised_whole_or_not_at_all() -> None:
    ledger = Ledger()
    ledger.observe(entry("other", "d2"), deleting=False)
    with pytest.raises(LedgerError, match="d2 of n would be allocated to other and c"):
        ledger.plan([entry("a", "d0"), entry("b", "d1"), entry("c", "d2")])
    assert [found.pod for found in ledger.entries()] == ["other"]
    ledger.plan([entry("a", "d0"), entry("b", "d1")])
    assert {found.pod for found in ledger.on("n")} == {"other", "a", "b"}


def test_two_members_of_a_plan_do_not_get_one_device() -> None:
    ledger = Ledger()
    with pytest.raises(LedgerError, match="a and b"):
        ledger.plan([entry("a", "d0"), entry("b", "d1", "d0")])
    with pytest.raises(LedgerError, match="one pod"):
        ledger.plan([entry("a", "d0"), entry("a", "d1")])
    assert list(ledger.entries()) == []


def test_a_plan_or_an_offer_without_an_end_is_refused() -> None:
    ledger = Ledger()
    with pytest.raises(LedgerError, match="no deadline"):
        ledger.plan([Entry(entry().grant, "PLANNED")])
    with pytest.raises(LedgerError, match="no deadline"):
        ledger.offer(Entry(entry().grant, "OFFERED"))
    assert ledger.get("a") is None


def test_the_devices_of_an_offer_are_offered_to_no_other_pod() -> None:
    ledger = ledger_in("OFFERED")
    with pytest.raises(LedgerError, match="d0 of n would be allocated to a and b"):
        ledger.offer(entry("b"))
    ledger.offer(entry("a", "d1"))
    ledger.offer(entry("b"))
    assert sorted(ledger.offers) == ["a", "b"]


def test_a_bind_on_the_offered_devices_touches_no_node() -> None:
    ledger = ledger_in("OFFERED")
    ledger.touched.clear()
    ledger.assume(entry())
    assert (ledger.touched, list(ledger.offers)) == (set(), [])


def test_offers_end_in_the_order_of_their_deadlines() -> None:
    ledger = Ledger()
    for number, pod in enumerate("abc"):
        ledger.offer(replace(entry(pod, f"d{number}"), expires=2.0 + number))
    assert ledger.next_expiry() == 2.0
    assert ledger.expired_offers(1.9, longest=9.0) == []
    assert ledger.expired_offers(3.0, longest=9.0) == ["a", "b"]
    ledger.offer(replace(entry("a"), expires=5.0))
    assert (ledger.next_expiry(), ledger.expired_offers(4.0, longest=9.0)) == (3.0, ["b", "c"])


@pytest.mark.parametrize("now", [-1e18, -3600.0, -0.1, float("nan"), 1e18, float("inf")])
def test_a_clock_that_is_set_back_or_far_ahead_keeps_no_offer_for_longer(now: float) -> None:
    ledger = Ledger()
    ledger.offer(replace(entry(), expires=2.0))
    assert ledger.expired_offers(now, longest=2.0) == ["a"]


def test_a_plan_made_again_releases_the_old_devices() -> None:
    ledger = ledger_in("PLANNED")
    ledger.plan([entry("a", "d1", node="m")])
    assert ledger.on("n") == []
    ledger.assume(entry("b", "d0"))
    assert state_of(ledger) == "PLANNED"


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_no_bind_of_ours_has_begun_for_ends_by_the_clock(state: State) -> None:
    (found,) = ledger_in(state).entries()
    assert found.expires == (9.0 if found.tentative else None)
    assert found.tentative == (state in {"OFFERED", "RESERVED", "PLANNED", "CLAIMED", "BOOKED"})


@pytest.mark.parametrize("state", ["OFFERED", "PLANNED"])
def test_a_promise_ends_the_time_limit_of_its_offer_or_plan(state: State) -> None:
    ledger = ledger_in(state)
    assert ledger.assume(entry()).expires is None


def test_a_whole_device_is_promised_once_however_it_is_held() -> None:
    for first, second in ((0, 0), (0, 4), (4, 0)):
        ledger = Ledger()
        ledger.assume(entry("a", "d0", share=first))
        with pytest.raises(LedgerError, match="d0 of n would be allocated to a and b"):
            ledger.assume(entry("b", "d0", share=second))
        assert ledger.get("b") is None


def test_parts_of_a_device_are_promised_to_several() -> None:
    ledger = Ledger()
    ledger.assume(entry("a", "d0", share=4))
    ledger.assume(entry("b", "d0", share=4))
    assert [found.pod for found in ledger.on("n")] == ["a", "b"]


def test_devices_of_one_name_on_two_nodes_are_two_devices() -> None:
    ledger = Ledger()
    ledger.assume(entry("a", "#0", node="n"))
    ledger.assume(entry("b", "#0", node="m"))
    assert len(ledger.on("n")) == len(ledger.on("m")) == 1


def test_a_record_that_the_agent_contradicts_reserves_no_device() -> None:
    ledger = Ledger()
    ledger.observe(entry("a", "d0"), deleting=False)
    ledger.assume(entry("b", "d0"), agent_reported={"a"})
    assert {found.pod for found in ledger.on("n")} == {"a", "b"}


def test_a_promise_under_way_is_kept_and_never_moved() -> None:
    ledger = ledger_in("ASSUMED")
    with pytest.raises(LedgerError, match="other devices"):
        ledger.assume(entry("a", "d1"))
    with pytest.raises(LedgerError, match="other devices"):
        ledger.assume(entry("a", "d0", node="m"))
    assert [found.node for found in ledger.entries()] == ["n"]


def test_a_refused_bind_gives_the_devices_back() -> None:
    ledger = ledger_in("ASSUMED")
    assert ledger.outcome("a", ledger.serial, "refused")
    ledger.assume(entry("b", "d0"))
    assert ledger.get("a") is None


def test_late_news_of_an_earlier_promise_change_nothing() -> None:
    ledger = ledger_in("ASSUMED")
    first = ledger.serial
    ledger.outcome("a", first, "refused")
    ledger.assume(entry("a", "d1"))
    for outcome in OUTCOMES:
        assert not ledger.outcome("a", first, outcome)
    found = ledger.get("a")
    assert found is not None
    assert (found.state, found.outcome, found.open) == ("ASSUMED", None, (2,))


def test_a_bind_asked_for_twice_ends_only_when_both_were_refused() -> None:
    ledger = ledger_in("ASSUMED")
    first, second = ledger.serial, ledger.assume(entry()).serial
    assert not ledger.outcome("a", second, "refused")
    assert state_of(ledger) == "ASSUMED"
    assert ledger.outcome("a", first, "refused")
    assert state_of(ledger) is None


def test_a_conflict_after_a_bind_of_unknown_end_frees_nothing() -> None:
    ledger = ledger_in("ASSUMED")
    first = ledger.serial
    ledger.outcome("a", first, "unknown")
    second = ledger.assume(entry()).serial
    ledger.outcome("a", second, "refused")  # a conflict: the first one had been written
    assert state_of(ledger) == "ASSUMED"
    assert ledger.outcome("a", first, "refused")  # a read says that it was not
    assert state_of(ledger) is None


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_a_bind_that_was_written_stays_written(outcome: Outcome) -> None:
    ledger = ledger_in("ASSUMED")
    second = ledger.assume(entry()).serial
    assert ledger.outcome("a", 1, "written")
    assert not ledger.outcome("a", second, outcome)
    found = ledger.get("a")
    assert found is not None
    assert (found.state, found.outcome) == ("ASSUMED", "written")


def test_a_plan_is_taken_back_for_all_pods_or_for_none() -> None:
    ledger = Ledger()
    ledger.plan([entry("a", "d0"), entry("b", "d1")])
    ledger.assume(entry("b", "d1"))
    with pytest.raises(LedgerError):
        ledger.drop(["a", "b"])
    assert {found.pod for found in ledger.entries()} == {"a", "b"}


def test_entries_of_a_node_are_sorted_by_age_whatever_came_first() -> None:
    ledger = Ledger()
    for pod, created in (("b", 2.0), ("a", 2.0), ("c", 1.0)):
        ledger.observe(entry(pod, f"d{pod}", created=created), deleting=False)
    assert [found.pod for found in ledger.on("n")] == ["c", "a", "b"]


def test_nodes_whose_entries_changed_are_named() -> None:
    ledger = ledger_in("ASSUMED")
    assert ledger.touched == {"n"}
    ledger.touched.clear()
    ledger.observe(entry("a", "d0", node="m"), deleting=False)
    assert ledger.touched == {"n", "m"}


def test_a_ledger_becomes_what_a_snapshot_holds() -> None:
    ledger = ledger_in("PLANNED")
    ledger.assume(entry("b", "d1"))
    other = ledger_in("RELEASING")
    other.restore(list(ledger.entries()), ledger.serial)
    assert list(other.entries()) == list(ledger.entries())
    assert other.serial == ledger.serial
    assert other.outcome("b", 1, "refused")


def test_a_claim_may_name_devices_of_leaving_pods_and_of_no_others() -> None:
    ledger = ledger_in("RELEASING")
    with pytest.raises(LedgerError, match="d0 of n would be allocated to a and b"):
        ledger.claim(entry("b"), ())
    ledger.claim(entry("b"), {"a"})
    assert list(ledger.claims) == ["b"]
    with pytest.raises(LedgerError, match="d0 of n would be allocated"):
        ledger.book(entry("b"))
    with pytest.raises(LedgerError, match="d0 of n would be allocated"):
        ledger.claim(entry("c"), {"a"})
    ledger.release("a")
    with pytest.raises(LedgerError, match="b and c"):
        ledger.offer(entry("c"))
    ledger.book(entry("b"))
    assert (list(ledger.claims), list(ledger.bookings)) == ([], ["b"])


def test_a_booking_ends_at_its_deadline_and_when_the_clock_is_set_back() -> None:
    ledger = ledger_in("BOOKED")
    assert ledger.next_expiry() == 9.0
    assert ledger.expired_bookings(8.9, 60.0) == []
    assert ledger.expired_bookings(9.0, 60.0) == ["a"]
    assert ledger.expired_bookings(-100.0, 60.0) == ["a"]
    with pytest.raises(LedgerError, match="no deadline"):
        ledger.book(replace(entry("b", "d1"), expires=None))


def test_what_ends_offers_does_not_end_a_booking() -> None:
    ledger = ledger_in("BOOKED")
    assert ledger.expired_offers(100.0, 2.0) == []
    with pytest.raises(LedgerError, match="BOOKED: 'drop' is not allowed"):
        ledger.drop(["a"])


def test_what_is_kept_free_for_a_pod_is_beside_its_own_entry_and_ends_by_itself() -> None:
    ledger = ledger_in("OFFERED")
    ledger.reserve(held_entry("d1"))
    ledger.plan([replace(entry("a", "d2"), purpose="preemption")])
    assert [found.key for found in ledger.on("n")] == ["a", ReservedKey("a", "preemption"), HELD]
    with pytest.raises(LedgerError, match=r"d1 of n would be allocated to a \(reservation\) and b"):
        ledger.offer(entry("b", "d1"))
    assert ledger.drop_reserved(["a", "b"], "reservation") == ["n"]
    assert (ledger.expired_offers(9.0, 9.0), ledger.get(HELD)) == (["a"], None)
    ledger.release("a")
    assert [found.key for found in ledger.entries()] == [ReservedKey("a", "preemption")]


def test_the_deadline_of_an_offer_stays_when_what_is_kept_free_for_its_pod_changes() -> None:
    ledger = ledger_in("OFFERED")
    ledger.reserve(held_entry("d1"))
    ledger.reserve(held_entry("d1", "d2"))
    ledger.drop([HELD])
    assert ledger.next_expiry() == 9.0


@pytest.mark.parametrize("state", [None, "PLANNED"])
@pytest.mark.parametrize("transition", ["offer", "claim", "book", "assume", "observed", "deleting"])
def test_what_is_kept_free_for_a_pod_is_never_offered_bound_or_observed(
    state: State | None, transition: Transition
) -> None:
    ledger, held = Ledger(), replace(entry(), purpose="preemption")
    if state:
        ledger.plan([held])
    before = list(ledger.entries())
    verbs: dict[Transition, Callable[[], object]] = {
        "offer": lambda: ledger.offer(held),
        "claim": lambda: ledger.claim(held, ()),
        "book": lambda: ledger.book(held),
        "assume": lambda: ledger.assume(held),
        "observed": lambda: ledger.observe(held, deleting=False),
        "deleting": lambda: ledger.observe(held, deleting=True),
    }
    with pytest.raises(LedgerError, match=f"{transition!r} is not allowed"):
        verbs[transition]()
    assert list(ledger.entries()) == before


def test_only_what_is_beside_the_own_entry_of_a_pod_is_reserved() -> None:
    with pytest.raises(LedgerError, match="'reserve' is not allowed"):
        Ledger().reserve(replace(entry(), state="RESERVED"))
