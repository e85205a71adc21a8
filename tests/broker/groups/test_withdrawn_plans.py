"""Plans that hold no more are taken off their members, so that nobody who starts anew believes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.broker.broker import Broker
from linkwise.broker.effects import Annotate
from linkwise.dialects.linkwise.dialect import PLAN
from linkwise.explain.pod import explain_pod
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.broker.effects import Effect
    from linkwise.model.views import PodView

WRITING = PlacingSettings(group=GroupSettings(write_plans=True))
GONE = {"uid-a": [{PLAN: None}], "uid-b": [{PLAN: None}]}


def notes(effects: Iterable[Effect]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for effect in effects:
        if isinstance(effect, Annotate):
            found.setdefault(effect.uid, []).append(effect.annotations)
    return found


def written(*, write: bool = True) -> tuple[Broker, list[PodView]]:
    """A broker that holds a plan, and the members as they carry it."""
    settings = PlacingSettings(group=GroupSettings(write_plans=write))
    broker, pods = broker_of(FakeNode("n0"), settings=settings), in_group(device_pod("a"), device_pod("b"))
    broker.observe(pods, 0.0)
    effects = broker.filter(pods[0], ["n0"], 0.0).effects
    words = {effect.uid: effect for effect in effects if isinstance(effect, Annotate)}
    carried = [
        replace(pod, annotations=words[pod.uid].applied({}) if pod.uid in words else {}, version=2) for pod in pods
    ]
    broker.observe(carried, 1.0)
    return broker, carried


def test_a_plan_that_expires_is_taken_off_its_members() -> None:
    broker, _ = written()
    assert notes(broker.step(100.0)) == GONE
    assert notes(broker.step(100.0)) == {}


def test_a_plan_that_breaks_is_taken_off_its_members() -> None:
    broker, _ = written()
    assert notes(broker.observe([FakeNode("n0", ready=False, version=2).view()], 2.0)) == GONE


def test_nothing_is_taken_away_where_nothing_is_written() -> None:
    broker, _ = written(write=False)
    assert notes(broker.step(100.0)) == {}


def test_a_withdrawal_noticed_by_a_query_is_written_after_a_restore() -> None:
    broker, _ = written()
    explain_pod(broker, "uid-a", 100.0)
    restored = Broker.restore(broker.snapshot(100.0))
    assert notes(restored.step(100.0)) == GONE


def test_a_plan_that_is_written_late_is_taken_away_again() -> None:
    broker, pods = written()
    broker.step(100.0)
    assert notes(broker.observe([replace(pods[0], version=3)], 101.0)) == {"uid-a": [{PLAN: None}]}


def test_a_written_plan_that_can_not_hold_again_is_taken_away() -> None:
    _, pods = written()
    broker = Broker(WRITING)
    effects = broker.observe([*FakeNode("n0", ready=False).events(), *pods], 0.0)
    assert notes(effects) == GONE


def test_a_pod_that_leaves_its_group_loses_the_plan() -> None:
    broker, pods = written()
    alone = replace(pods[1], labels={}, version=3)
    assert notes(broker.observe([alone], 2.0))["uid-b"] == [{PLAN: None}]
