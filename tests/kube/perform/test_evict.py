"""Evictions as they are asked for: once per pod, at a rate, and only as long as they are wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Evict
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Connection
    from support.fakes.scripted_api import Request

MADE = Reply(201, {})
BUDGET = Reply(429, {"message": "Cannot evict pod as it would violate the pod's disruption budget."})
CHANGED = Reply(409, {"message": "Precondition failed: ResourceVersion in precondition: 7, ..."})
OTHER = Reply(409, {"message": "Precondition failed: UID in precondition: u-a, UID in object meta: u-b"})
DENIED = Reply(403, {"message": 'pods "a" is forbidden: User "linkwise" cannot create resource "pods/eviction"'})


class Evictions:
    """A performer after all of its evictions are done."""

    def __init__(self, api: ScriptedApi, performer: Performer, time: FakeTime, given_up: list[str]) -> None:
        self.requests: list[Request] = api.asked("POST")
        self.stats = performer.stats["evict"]
        self.problems = performer.problems
        self.slept = time.slept
        self.given_up = given_up


def evict(
    *replies: Reply,
    names: str = "a",
    version_of: Callable[[str], int | None] = lambda _: 7,
    settings: PerformSettings | None = None,
) -> Evictions:
    """Perform evictions of pods, with these replies to the first one."""

    async def scenario(api: ScriptedApi, connection: Connection) -> Evictions:
        for name in dict.fromkeys(names):
            api.script(
                f"POST /api/v1/namespaces/team/pods/{name}/eviction", *(replies if name == names[0] else (MADE,))
            )
        time = FakeTime()
        given_up: list[str] = []
        performer = Performer(
            connection,
            settings or PerformSettings(),
            time.timing,
            evictable=version_of,
            not_evicted=given_up.append,
        )
        running = asyncio.create_task(performer.run())
        performer.tell([Evict("team", name, f"u-{name}", "it is bound in vain") for name in names])
        await until(lambda: not performer.queued)
        await performer.close()
        await running
        return Evictions(api, performer, time, given_up)

    return play(scenario)


def test_an_eviction_names_the_pod_its_uid_and_the_version_that_is_known() -> None:
    (request,) = evict(MADE).requests
    assert request.document == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "team", "name": "a"},
        "deleteOptions": {"preconditions": {"uid": "u-a", "resourceVersion": "7"}},
    }


def test_a_pod_without_a_version_is_guarded_by_its_uid() -> None:
    (request,) = evict(MADE, version_of=lambda _: 0).requests
    assert request.document["deleteOptions"] == {"preconditions": {"uid": "u-a"}}


def test_a_pod_waits_in_line_once() -> None:
    assert len(evict(MADE, names="aa", settings=PerformSettings(concurrent_evictions=1)).requests) == 1


def test_a_budget_that_allows_nothing_now_is_asked_again_later_and_less_often_each_time() -> None:
    evictions = evict(BUDGET, BUDGET, BUDGET, MADE)
    assert evictions.stats == {"written": 1}
    assert evictions.slept == sorted(evictions.slept)
    assert len(evictions.slept) == 3
    assert evictions.problems == ()


def test_a_budget_that_never_allows_it_is_given_up_and_said() -> None:
    evictions = evict(BUDGET, settings=PerformSettings(evict_attempts=4))
    assert len(evictions.requests) == 4
    assert evictions.stats == {"failed": 1}
    assert "disruption budget" in evictions.problems[0]


@pytest.mark.parametrize("reply", [Reply(404, {}), OTHER])
def test_a_pod_that_is_gone_or_another_one_needs_no_eviction(reply: Reply) -> None:
    evictions = evict(reply)
    assert (len(evictions.requests), evictions.stats, evictions.problems) == (1, {"gone": 1}, ())


def test_a_pod_that_changed_is_evicted_as_it_is_known_then() -> None:
    versions = iter([7, 9])
    evictions = evict(CHANGED, MADE, version_of=lambda _: next(versions))
    asked = [request.document["deleteOptions"]["preconditions"]["resourceVersion"] for request in evictions.requests]
    assert asked == ["7", "9"]
    assert evictions.stats == {"written": 1}


def test_a_pod_that_begins_to_run_meanwhile_is_not_evicted() -> None:
    versions = iter([7, None])
    evictions = evict(CHANGED, MADE, version_of=lambda _: next(versions))
    assert (len(evictions.requests), evictions.stats) == (1, {"kept": 1})


def test_an_eviction_that_is_not_wanted_any_more_is_not_asked_for() -> None:
    evictions = evict(MADE, version_of=lambda _: None)
    assert (evictions.requests, evictions.stats, evictions.problems) == ([], {"kept": 1}, ())


def test_a_conflict_that_lasts_is_no_pod_that_is_gone() -> None:
    assert evict(CHANGED, settings=PerformSettings(evict_attempts=2)).stats == {"failed": 1}


def test_an_eviction_that_is_not_allowed_says_what_to_grant_and_is_not_tried_again() -> None:
    evictions = evict(DENIED)
    assert len(evictions.requests) == 1
    assert evictions.problems[0].endswith("; grant create on pods/eviction (`linkwise manifests rbac` prints the role)")


def test_an_eviction_that_is_given_up_is_reported() -> None:
    assert evict(DENIED).given_up == ["u-a"]
    assert evict(BUDGET, settings=PerformSettings(evict_attempts=1)).given_up == ["u-a"]
    assert evict(MADE, version_of=lambda _: None).given_up == ["u-a"]


@pytest.mark.parametrize("reply", [MADE, Reply(404, {}), OTHER])
def test_who_is_evicted_or_gone_is_not_given_up(reply: Reply) -> None:
    assert evict(reply).given_up == []


def test_a_server_that_fails_is_asked_again() -> None:
    evictions = evict(Reply(500, {}), Reply(ending="reset"), MADE)
    assert (len(evictions.requests), evictions.stats) == (3, {"written": 1})


def test_evictions_keep_to_their_rate() -> None:
    evictions = evict(MADE, names="abcd", settings=PerformSettings(evictions=2.0, evictions_burst=2))
    assert len(evictions.requests) == 4
    assert sum(evictions.slept) == pytest.approx(1.0)


def test_a_budget_holds_up_no_other_pod() -> None:
    evictions = evict(BUDGET, BUDGET, MADE, names="ab")
    assert evictions.stats == {"written": 2}
    assert [request.path.split("/")[-2] for request in evictions.requests][:2] == ["a", "b"]


def test_closing_does_not_wait_for_budgets() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("POST /api/v1/namespaces/team/pods/a/eviction", BUDGET)
        performer = Performer(connection, PerformSettings(flush=5.0))
        running = asyncio.create_task(performer.run())
        performer.tell([Evict("team", "a", "u-a", "it is bound in vain")])
        await asyncio.sleep(0)
        await asyncio.wait_for(performer.close(), 1.0)
        await running
        return len(api.asked("POST"))

    assert play(scenario) == 1
