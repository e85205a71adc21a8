"""The order in which pods are woken: by priority and age, with single pods that fit never behind many others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Wake
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.performed_effects import tell
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.kube.client.api import Connection

ONE_BY_ONE = PerformSettings(concurrent_wakes=1)
MANY = 1280


def wake(name: str, priority: int = 0, *, fits: bool = False) -> Wake:
    return Wake("team", name, f"u-{name}", "there is room", priority, fits)


def names(api: ScriptedApi) -> list[str]:
    return [request.path.rpartition("/")[2] for request in api.requests]


def single_behind(
    others: Sequence[Wake], *, silent: bool = False, holds: Callable[[ScriptedApi, Performer], object]
) -> tuple[float, int]:
    """Seconds, at the rate of wake-ups, until a single pod is woken that fits; and the wake-ups queued after it."""

    async def scenario(api: ScriptedApi, connection: Connection) -> tuple[float, int]:
        for other in others if silent else ():
            api.script(f"PATCH /api/v1/namespaces/team/pods/{other.name}", Reply(ending="silence"))
        performer = Performer(connection, PerformSettings(), FakeTime().timing)
        running = asyncio.create_task(performer.run())
        performer.tell(others)
        await until(lambda: holds(api, performer))
        asked = len(api.requests)
        performer.tell([wake("single", fits=True)])
        await until(lambda: "single" in names(api))
        queued = performer.queued
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return names(api)[asked:].index("single") / PerformSettings().wakes, queued

    return play(scenario)


@pytest.mark.parametrize("priority", [0, 1_000_000])
def test_a_single_pod_that_fits_is_woken_within_200_ms_behind_1280_others(priority: int) -> None:
    members = [wake(f"m{number}", priority) for number in range(MANY)]
    waited, queued = single_behind(members, holds=lambda api, _: len(api.requests) > 300)  # the burst is used up
    assert waited <= 0.2
    assert queued > MANY // 2


def test_a_single_pod_that_fits_does_not_wait_for_writes_that_hang_in_the_namespace_of_a_group() -> None:
    members = [wake(f"m{number}") for number in range(MANY)]
    waited, _ = single_behind(members, silent=True, holds=lambda api, _: len(api.requests) >= 4)
    assert waited <= 0.2


def test_pods_of_higher_priority_are_woken_first_and_equal_ones_in_the_order_of_the_effects() -> None:
    ran = tell([wake("a"), wake("b", 5), wake("c", 9), wake("d", 5), wake("e")], settings=ONE_BY_ONE)
    assert ran.paths("PATCH") == ["c", "b", "d", "a", "e"]


def test_single_pods_that_fit_take_turns_with_the_others_and_begin() -> None:
    others, singles = [wake(name) for name in "abc"], [wake(name, fits=True) for name in "de"]
    assert tell([*others, *singles], settings=ONE_BY_ONE).paths("PATCH") == ["d", "a", "e", "b", "c"]


def test_a_pod_that_is_queued_again_keeps_its_place_and_its_last_effect() -> None:
    again = [wake("a"), wake("b"), wake("a"), wake("c"), wake("c", fits=True)]
    assert tell(again, settings=ONE_BY_ONE).paths("PATCH") == ["c", "a", "b"]
