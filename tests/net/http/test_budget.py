"""The budget of bytes that connections hold: what exceeds it is taken from the caller that holds the most."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from linkwise.net.http.budget import Budget


@dataclass(eq=False, slots=True)
class Client:
    """A connection."""

    budget: Budget
    client: str
    certified: bool = False
    held: int = 0

    def hold(self, size: int) -> None:
        self.held = size
        self.budget.hold(self, size)

    def shed(self) -> None:
        self.hold(0)


def budget() -> Budget:
    return Budget(most=100, most_uncertified=60)


def test_what_is_given_back_counts_no_more() -> None:
    counted = budget()
    one, other = Client(counted, "10.0.0.1"), Client(counted, "10.0.0.2")
    for size in (10, 50, 0):
        one.hold(size)
    other.hold(20)
    assert (counted.held, other.held) == (20, 20)


def test_the_largest_request_of_the_address_that_holds_the_most_is_given_up() -> None:
    counted = budget()
    many = [Client(counted, "10.0.0.9") for _ in range(3)]
    for client, size in zip(many, (8, 16, 12), strict=True):
        client.hold(size)
    single = Client(counted, "10.0.0.1")
    single.hold(25)
    assert [client.held for client in (*many, single)] == [8, 0, 12, 25]


def test_callers_with_a_certificate_keep_their_part_whatever_others_send() -> None:
    counted = budget()
    scheduler = Client(counted, "10.0.0.1", certified=True)
    scheduler.hold(40)
    strangers = [Client(counted, f"10.0.1.{number}") for number in range(20)]
    for stranger in strangers:
        stranger.hold(10)
    assert scheduler.held == 40
    assert sum(stranger.held for stranger in strangers) == 60


def test_callers_with_a_certificate_take_what_others_hold() -> None:
    counted = budget()
    stranger, scheduler = Client(counted, "10.0.0.9"), Client(counted, "10.0.0.1", certified=True)
    stranger.hold(50)
    scheduler.hold(90)
    assert (stranger.held, scheduler.held) == (0, 90)


def test_a_request_above_the_whole_budget_is_given_up_itself() -> None:
    counted = budget()
    scheduler = Client(counted, "10.0.0.1", certified=True)
    scheduler.hold(101)
    assert counted.held == 0


def test_memory_of_large_requests_is_returned_to_the_system_once() -> None:
    async def scenario() -> int:
        counted = Budget()
        loop, client = asyncio.get_running_loop(), Client(counted, "10.0.0.1")
        before = len(loop._scheduled)  # type: ignore[attr-defined]  # noqa: SLF001 - the timers of the loop
        for size in (1 << 20, 0, 9 << 20, 0, 1 << 20, 0):
            client.hold(size)
        return len(loop._scheduled) - before  # type: ignore[attr-defined]  # noqa: SLF001 - the timers of the loop

    assert asyncio.run(scenario()) == 1
