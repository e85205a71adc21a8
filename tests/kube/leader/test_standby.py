"""A standby in virtual time: when it takes the Lease of a leader that was killed or stopped, with a watch and without."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import pytest

from linkwise.errors import ClusterError
from linkwise.kube.leader.election import LeaseTimes
from linkwise.kube.leader.elector import Elector, LeaseObject
from linkwise.net.timing import Timing
from support.fakes.lease_server import BadLine, LeaseServer, run_virtually
from support.fakes.scripted_api import Reply, ScriptedApi, line, play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from linkwise.kube.client.api import Connection
TIMES: Final = LeaseTimes(15.0, 10.0, 2.0)
WAY: Final = 0.01  # seconds
INTERVAL: Final = TIMES.retry_period * 1.2
"""the longest between two looks at the Lease"""
CRASHES: Final = [60.0, 60.3, 60.7, 61.0, 61.4, 61.8]
"""seconds, over all phases of a renewal"""


def elector(server: LeaseServer, name: str, delay: Callable[[], float] = lambda: WAY) -> Elector:
    lease = LeaseObject(BadLine(server, delay), "linkwise-system", "linkwise")
    timing = Timing(asyncio.get_running_loop().time, lambda: 0.0, asyncio.sleep, lambda: 1.0)
    return Elector(lease, name, TIMES, timing)


@asynccontextmanager
async def running(member: Elector) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(member.run())
    yield task
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def hand_over(server: LeaseServer, crash: float, delay: Callable[[], float] = lambda: WAY) -> float:
    """Seconds from the last renewal of a leader that is killed then until its standby has the Lease."""
    leader, standby = elector(server, "leader"), elector(server, "standby", delay)
    async with running(leader) as first:
        await asyncio.sleep(0.9)
        async with running(standby):
            await asyncio.sleep(crash)
            first.cancel()
            await asyncio.sleep(1.0)
            last = server.written[-1]
            while not standby.leads:  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(WAY)
            return asyncio.get_running_loop().time() - last


@pytest.mark.parametrize("crash", CRASHES)
def test_a_lease_is_taken_when_it_is_over_and_not_an_interval_later(crash: float) -> None:
    took = run_virtually(hand_over(LeaseServer(), crash))
    assert TIMES.duration <= took < TIMES.duration + 10 * WAY


def test_without_a_watch_a_lease_is_taken_an_interval_later_at_most() -> None:
    took = [run_virtually(hand_over(LeaseServer(watches=False), crash)) for crash in CRASHES]
    assert TIMES.duration <= min(took) < max(took) < TIMES.duration + INTERVAL + 10 * WAY
    assert max(took) > TIMES.duration + 10 * WAY


def test_a_watch_whose_events_are_lost_is_opened_again_and_does_no_harm_until_then() -> None:
    server, ways = LeaseServer(), iter(range(10_000))

    def every_twentieth_is_lost() -> float:
        return float("inf") if next(ways) % 20 == 19 else WAY

    took = run_virtually(hand_over(server, 200.0, every_twentieth_is_lost))
    assert TIMES.duration <= took < TIMES.duration + INTERVAL + TIMES.renew_deadline
    assert server.watched > 2


def test_a_watch_that_ends_is_opened_again() -> None:
    async def story() -> float:
        server = LeaseServer()
        ends = asyncio.get_running_loop().call_later(30.0, server.end_watches)
        took = await hand_over(server, 61.0)
        ends.cancel()
        assert server.watched == 2
        return took

    assert run_virtually(story()) < TIMES.duration + 10 * WAY


def test_a_released_lease_is_taken_at_once() -> None:
    async def story() -> None:
        server = LeaseServer()
        leader, standby = elector(server, "leader"), elector(server, "standby")
        async with running(leader) as first, running(standby):
            await asyncio.sleep(60.5)
            first.cancel()
            await leader.release()
            await asyncio.sleep(10 * WAY)
            assert standby.leads

    run_virtually(story())


def test_a_leader_watches_nothing() -> None:
    async def story() -> None:
        server = LeaseServer()
        async with running(elector(server, "leader")):
            await asyncio.sleep(60.0)
        assert server.watched == 0

    run_virtually(story())


def test_only_the_lease_of_the_election_is_watched_as_its_role_permits() -> None:
    path, seen = "/apis/coordination.k8s.io/v1/namespaces/linkwise-system/leases", list[str]()

    async def scenario(api: ScriptedApi, connection: Connection) -> None:
        lease = LeaseObject(connection, "linkwise-system", "linkwise")
        api.script(f"WATCH {path}", Reply(pieces=(line("ADDED", {}), line("MODIFIED", {}))), Reply(403, {}))
        await lease.watch(lambda: seen.append("changed"), 5.0)
        with pytest.raises(
            ClusterError, match="can't watch Lease linkwise-system/linkwise: the API server answered 403"
        ):
            await lease.watch(lambda: seen.append("changed"), 5.0)
        await lease.watch(lambda: seen.append("changed"), 5.0)  # it stays silent
        assert seen == ["changed"] * 2
        assert {request.query["fieldSelector"] for request in api.requests} == {"metadata.name=linkwise"}

    play(scenario)
