"""Effects that can wait: wakes, annotations, and what becomes of all of them at the end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.effects import Bind, Wake
from linkwise.kube.perform.performer import Performer
from linkwise.kube.settings import PerformSettings
from support.fakes.performed_effects import FINE, tell
from support.fakes.scripted_api import FakeTime, Reply, ScriptedApi, play, until

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

GONE = Reply(404, {"message": 'pods "a" not found'})
OTHER = Reply(422, {"message": 'Pod "a" is invalid: metadata.uid: Invalid value: "u-a": field is immutable'})
MODIFIED = Reply(409, {"message": 'Operation cannot be fulfilled on pods "a": the object has been modified'})


def wake(name: str) -> Wake:
    return Wake("team", name, f"u-{name}", "there is room")


def test_a_pod_is_woken_by_one_annotation_and_its_uid() -> None:
    (request,) = tell([wake("a")]).api.requests
    assert request.document["metadata"]["uid"] == "u-a"
    assert request.document["metadata"]["annotations"] == {"linkwise.dev/woken": "1970-01-01T00:16:40.000000Z"}
    assert request.headers["content-type"] == "application/merge-patch+json"


def test_pods_are_woken_in_the_order_of_the_effects() -> None:
    performed = tell([wake(name) for name in "cabed"], settings=PerformSettings(concurrent_wakes=1))
    assert performed.paths("PATCH") == list("cabed")


def test_a_pod_waits_in_line_once_and_keeps_its_place() -> None:
    performed = tell([wake("a"), wake("b"), wake("a")], settings=PerformSettings(concurrent_wakes=1))
    assert performed.paths("PATCH") == ["a", "b"]


def test_a_pod_that_was_woken_can_be_woken_again() -> None:
    assert tell([wake("a")], [wake("a")]).paths("PATCH") == ["a", "a"]


def test_wakes_keep_to_their_rate_after_the_first_few() -> None:
    performed = tell([wake(name) for name in "abcdef"], settings=PerformSettings(wakes=2.0, wakes_burst=3))
    assert sorted(performed.paths("PATCH")) == list("abcdef")
    assert performed.time.seconds - 1_000.0 == pytest.approx(1.5)


@pytest.mark.parametrize("said", [GONE, OTHER])
def test_a_pod_that_is_gone_or_another_one_needs_no_waking(said: Reply) -> None:
    performed = tell([wake("a"), wake("b")], scripts={"PATCH /api/v1/namespaces/team/pods/a": (said,)})
    assert performed.performer.stats["wake"] == {"gone": 1, "written": 1}
    assert performed.performer.problems == ()


def test_a_pod_that_others_write_at_the_same_time_is_written_nonetheless() -> None:
    performed = tell([wake("a")], scripts={"PATCH /api/v1/namespaces/team/pods/a": (MODIFIED, MODIFIED, FINE)})
    assert performed.paths("PATCH") == ["a", "a", "a"]
    assert (performed.performer.queued, performed.performer.problems) == (0, ())


def test_a_conflict_that_lasts_is_no_pod_that_is_gone() -> None:
    performed = tell(
        [wake("a")],
        scripts={"PATCH /api/v1/namespaces/team/pods/a": (MODIFIED,)},
        settings=PerformSettings(max_attempts=2),
    )
    assert performed.performer.stats["wake"] == {"failed": 1}


def test_a_wake_that_fails_is_tried_again() -> None:
    failing = (Reply(500, {}), Reply(ending="reset"), FINE)
    performed = tell([wake("a")], scripts={"PATCH /api/v1/namespaces/team/pods/a": failing})
    assert performed.paths("PATCH") == ["a", "a", "a"]
    assert performed.performer.stats["wake"] == {"written": 1}


def test_a_wake_that_hangs_holds_up_no_other_and_is_given_up_after_a_few_tries() -> None:
    hanging = Reply(ending="silence")
    performed = tell(
        [wake("a"), wake("b")],
        scripts={"PATCH /api/v1/namespaces/team/pods/a": (hanging,)},
        settings=PerformSettings(wait=0.2, max_attempts=3),
    )
    assert sorted(performed.paths("PATCH")) == ["a", "a", "a", "b"]
    assert list(performed.performer.stats["wake"].items()) == [("written", 1), ("failed", 1)]


def test_a_server_that_wants_to_be_left_alone_for_days_is_asked_again_today() -> None:
    later = Reply(429, {}, headers={"Retry-After": "86400"})
    performed = tell([wake("a")], scripts={"PATCH /api/v1/namespaces/team/pods/a": (later, FINE)})
    assert performed.time.slept == [30.0]


def test_one_pod_that_can_never_be_woken_does_not_hold_up_the_others() -> None:
    performed = tell(
        [wake("a"), wake("b")],
        scripts={"PATCH /api/v1/namespaces/team/pods/a": (Reply(500, {}),)},
        settings=PerformSettings(max_attempts=2),
    )
    assert sorted(performed.paths("PATCH")) == ["a", "a", "b"]
    assert performed.performer.stats["wake"] == {"failed": 1, "written": 1}


def test_what_may_not_be_done_is_a_problem_that_names_the_right() -> None:
    refused = Reply(403, {"message": "no you"})
    performed = tell([wake("a")], scripts={"PATCH /api/v1/namespaces/team/pods/a": (refused,)})
    assert performed.performer.problems == ("no you; grant patch on pods (`linkwise manifests rbac` prints the role)",)


def test_wakes_of_one_pod_that_wait_are_written_once() -> None:
    assert tell([wake("a"), wake("a")]).paths("PATCH") == ["a"]


def test_pods_are_all_woken_however_few_at_once() -> None:
    performed = tell([wake(name) for name in "abcdef"], settings=PerformSettings(concurrent_wakes=2))
    assert sorted(performed.paths("PATCH")) == list("abcdef")


def test_a_wake_is_tried_again_and_dropped_when_the_pod_is_gone() -> None:
    failing = (Reply(503, {}), Reply(ending="reset"), Reply(404, {}))
    performed = tell([wake("a")], scripts={"PATCH /api/v1/namespaces/team/pods/a": failing})
    assert (len(performed.api.requests), performed.performer.stats["wake"]) == (3, {"gone": 1})


def test_a_later_wake_of_one_pod_waits_for_the_earlier() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("PATCH /api/v1/namespaces/team/pods/a", Reply(ending="silence"), FINE)
        performer = Performer(connection, PerformSettings(wait=0.05), FakeTime().timing)
        running = asyncio.create_task(performer.run())
        performer.tell([wake("a")])
        await until(lambda: api.requests)
        performer.tell([wake("a")])
        await until(lambda: not performer.queued)
        await performer.close()
        await running
        return len(api.requests)

    assert play(scenario) == 3


def test_closing_sends_what_is_in_line_without_keeping_to_the_rate() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        for name in "abcdef":
            api.script(f"PATCH /api/v1/namespaces/team/pods/{name}", FINE)
        performer = Performer(connection, PerformSettings(wakes=1.0, wakes_burst=1))
        running = asyncio.create_task(performer.run())
        performer.tell([wake(name) for name in "abcdef"])
        await asyncio.sleep(0)
        await performer.close()
        await running
        return len(api.requests)

    assert play(scenario) == 6


def test_closing_does_not_wait_for_ever() -> None:
    async def scenario(api: ScriptedApi, connection: Connection) -> int:
        api.script("PATCH /api/v1/namespaces/team/pods/a", Reply(ending="silence"))
        performer = Performer(connection, PerformSettings(flush=0.05, concurrent_wakes=1))
        running = asyncio.create_task(performer.run())
        performer.tell([wake("a"), wake("b")])
        await performer.close()
        await running
        return len(api.requests)

    assert play(scenario) == 1


def test_effects_after_the_end_are_counted() -> None:
    async def scenario(_: ScriptedApi, connection: Connection) -> dict[str, int]:
        performer = Performer(connection)
        await performer.close()
        performer.tell([wake("a")])
        return dict(performer.stats["late"])

    assert play(scenario) == {"wake": 1}


def test_a_bind_is_no_effect_that_can_wait() -> None:
    async def scenario(_: ScriptedApi, connection: Connection) -> None:
        Performer(connection).tell([Bind("team", "p", "u", "n", None, 0)])  # type: ignore[list-item]  # the type rules it out

    with pytest.raises(TypeError, match="Bind"):
        play(scenario)


def test_a_performer_that_is_cancelled_stops() -> None:
    async def scenario(_: ScriptedApi, connection: Connection) -> bool:
        running = asyncio.create_task(Performer(connection).run())
        await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return running.cancelled()

    assert play(scenario)
