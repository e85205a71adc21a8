"""Long explanations run in slices: the loop answers other calls meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from linkwise.serve.explanations.explainer import Slices

if TYPE_CHECKING:
    from collections.abc import Callable


def busy(slices: Slices, seconds: float, result: str = "done") -> Callable[[], str]:
    """Work in pieces of a fifth of a millisecond."""

    def work() -> str:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            piece = time.thread_time() + 0.0002
            while time.thread_time() < piece:
                pass
            slices.pause()
        return result

    return work


async def turns_until(until: asyncio.Task[str]) -> int:
    """How often the loop got its turn before the task ended."""
    turns = 0
    while not until.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_the_loop_has_its_turn_after_every_slice() -> None:
    async def story() -> None:
        slices = Slices(0.002)
        task = asyncio.create_task(slices.run(busy(slices, 0.1)))
        assert await turns_until(task) >= 10
        assert await task == "done"

    asyncio.run(story())


def test_work_and_loop_never_run_at_the_same_time() -> None:
    async def story() -> None:
        slices, inside = Slices(0.001), list[bool]()
        running = False

        def work() -> None:
            nonlocal running
            for _ in range(200):
                running = True
                time.sleep(0.0001)
                running = False
                slices.pause()

        task = asyncio.create_task(slices.run(work))
        while not task.done():
            inside.append(running)
            await asyncio.sleep(0)
        assert len(inside) > 5
        assert not any(inside)

    asyncio.run(story())


def test_several_computations_run_one_after_the_other() -> None:
    async def story() -> None:
        slices = Slices(0.001)
        results = await asyncio.gather(*(slices.run(busy(slices, 0.01, str(number))) for number in range(5)))
        assert results == ["0", "1", "2", "3", "4"]

    asyncio.run(story())


def test_an_error_reaches_the_caller_and_the_next_computation_runs() -> None:
    async def story() -> None:
        slices = Slices(0.001)

        def fails() -> None:
            slices.pause()
            raise KeyError("gone")

        with pytest.raises(KeyError, match="gone"):
            await slices.run(fails)
        assert await slices.run(busy(slices, 0.0)) == "done"

    asyncio.run(story())


def test_a_caller_that_hangs_up_leaves_no_thread_behind() -> None:
    async def story() -> None:
        slices, before = Slices(0.001), threading.active_count()
        task = asyncio.create_task(slices.run(busy(slices, 60.0)))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert threading.active_count() == before
        assert await slices.run(busy(slices, 0.0)) == "done"

    asyncio.run(story())


def test_outside_of_a_computation_a_pause_does_nothing() -> None:
    async def story() -> None:
        slices = Slices(0.0)
        slices.pause()
        task = asyncio.create_task(slices.run(busy(slices, 0.01)))
        await asyncio.sleep(0)
        slices.pause()
        assert await task == "done"

    asyncio.run(story())
