"""Whatever happens to replicas, clocks and the line to the API server, no two replicas may write at the same time."""

from __future__ import annotations

import asyncio
import math
from random import Random

from hypothesis import given, settings, strategies as st

from linkwise.errors import LostLeaseError
from linkwise.kube.leader.election import LeaseTimes
from linkwise.kube.leader.elector import Elector, LeaseObject
from linkwise.net.timing import Timing
from support.fakes.lease_server import BadLine, LeaseServer, run_virtually
from support.profile import examples

TIMES = LeaseTimes(15.0, 10.0, 2.0)
BAD_SECONDS = 300.0
LOOK = 0.25


class Replica:
    """A replica that is paused, killed and restarted at random; its clocks run wrong, and that on the wall jumps."""

    def __init__(self, server: LeaseServer, chance: Random, name: str) -> None:
        self._server, self._chance, self._name = server, chance, name
        self._starts = 0
        self._rate, self._offset = chance.uniform(0.92, 1.08), chance.uniform(-1e6, 1e6)
        self.bad = True
        self.elector: Elector | None = None
        self.led = 0

    def clock(self) -> float:
        return asyncio.get_running_loop().time() * self._rate + self._offset

    def may_write(self) -> bool:
        return self.elector is not None and self.elector.may_write()

    async def live(self) -> None:
        """Run, and start again after every end, for ever."""
        while True:
            line = BadLine(self._server, self._delay)
            self._starts += 1
            lease = LeaseObject(line, "linkwise-system", "linkwise")
            self.elector = Elector(lease, f"{self._name}-{self._starts}", TIMES, self._timing())
            self.elector.fence.open = True
            running = asyncio.create_task(self.elector.run())
            await asyncio.wait({running}, timeout=self._life())
            if not running.done() and self._chance.random() < 0.5:
                await self.elector.release()
            running.cancel()
            (ended,) = await asyncio.gather(running, return_exceptions=True)
            assert ended is None or isinstance(ended, asyncio.CancelledError | LostLeaseError), ended
            self.elector = None  # what it sent may still arrive
            await asyncio.sleep(self._chance.uniform(0.0, 3.0))

    def _timing(self) -> Timing:
        chance = self._chance
        wall = asyncio.get_running_loop().time()

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds / self._rate)
            if self.bad and chance.random() < 0.05:
                await asyncio.sleep(chance.uniform(0.0, 60.0))  # stopped, and continued

        return Timing(self.clock, lambda: wall + chance.choice([0.0, -3600.0, 3600.0]), sleep, chance.random)

    def _delay(self) -> float:
        """Of a request, or of an answer: the sender may have given up, or be paused, when it arrives."""
        if not self.bad or self._chance.random() < 0.8:
            return self._chance.uniform(0.0, 0.05)
        return self._chance.choice([math.inf, self._chance.uniform(0.0, 4.0), self._chance.uniform(5.0, 40.0)])

    def _life(self) -> float | None:
        return self._chance.uniform(1.0, 120.0) if self.bad else None


async def story(chance: Random, count: int) -> tuple[LeaseServer, int, list[str]]:
    """Bad times, then good ones: the server, how often a leader was seen, and who leads in the end."""
    loop, server = asyncio.get_running_loop(), LeaseServer()
    replicas = [Replica(server, chance, f"r{number}") for number in range(count)]
    lives = [asyncio.create_task(replica.live()) for replica in replicas]
    seen = 0
    while loop.time() < BAD_SECONDS:
        writers = [replica for replica in replicas if replica.may_write()]
        assert len(writers) <= 1, [replica.elector and replica.elector.identity for replica in writers]
        seen += len(writers)
        await asyncio.sleep(LOOK * chance.uniform(0.1, 1.0))
    for replica in replicas:
        replica.bad = False
    await asyncio.sleep(240.0)
    leaders = [replica.elector.identity for replica in replicas if replica.elector and replica.may_write()]
    for life in lives:
        life.cancel()
    for ended in await asyncio.gather(*lives, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended
    return server, seen, leaders


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3))
def test_two_replicas_never_may_write_at_the_same_time_and_in_the_end_one_of_them_does(seed: int, count: int) -> None:
    _, _, leaders = run_virtually(story(Random(seed), count))
    assert len(leaders) == 1


def test_the_bad_times_are_bad_enough_for_many_leaders_and_good_enough_for_some_to_lead() -> None:
    server, seen, _ = run_virtually(story(Random(7), 3))
    assert len(set(server.holders)) > 3
    assert seen > 50
