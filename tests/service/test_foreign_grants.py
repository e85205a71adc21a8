"""Two services that decide for one cluster notice each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.linkwise.dialect import GRANT
from linkwise.serve.service import NOTE_SECONDS, STARTUP_GRACE, ForeignGrants
from linkwise.testing.cluster import FakeNode, binds, broker_of, device_pod, seen_bound

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker
    from linkwise.model.views import PodView

LATER = STARTUP_GRACE + 1.0


def bound_by(broker: Broker, pod: PodView) -> PodView:
    """The pod as the watch shows it when this broker has bound it."""
    broker.observe([pod], 0.0)
    (bound,) = binds(broker.bind(pod.uid, "n", 0.0).effects)
    return seen_bound(pod, bound)


def note_about(broker: Broker, *pods: PodView, now: float = LATER) -> str:
    elsewhere = ForeignGrants(0.0)
    elsewhere.look(broker, pods, now)
    return elsewhere.note(now)


def test_devices_allocated_by_another_service_are_reported() -> None:
    ours, other = broker_of(FakeNode("n")), broker_of(FakeNode("n"))
    note = note_about(ours, bound_by(other, device_pod("a")))
    assert note.startswith("devices of pod default/a were allocated by another Linkwise service")


def test_our_own_grants_are_not_reported() -> None:
    ours = broker_of(FakeNode("n"))
    assert note_about(ours, bound_by(ours, device_pod("a"))) == ""


def test_a_pod_known_as_bound_is_not_reported_again() -> None:
    ours, other = broker_of(FakeNode("n")), broker_of(FakeNode("n"))
    pod = bound_by(other, device_pod("a"))
    ours.observe([pod], 1.0)
    assert note_about(ours, pod) == ""


def test_binds_of_a_killed_service_are_not_reported_as_foreign() -> None:
    ours, other = broker_of(FakeNode("n")), broker_of(FakeNode("n"))
    assert note_about(ours, bound_by(other, device_pod("a")), now=STARTUP_GRACE - 1.0) == ""


def test_the_note_about_foreign_grants_expires() -> None:
    ours, other = broker_of(FakeNode("n")), broker_of(FakeNode("n"))
    elsewhere = ForeignGrants(0.0)
    elsewhere.look(ours, [bound_by(other, device_pod("a"))], LATER)
    assert elsewhere.note(LATER + NOTE_SECONDS - 1.0)
    assert elsewhere.note(LATER + NOTE_SECONDS) == ""


@pytest.mark.parametrize("text", ["garbage", "{}", "[" * 100_000, '{"version": 1}', "copy"])
def test_a_grant_that_a_user_wrote_is_not_taken_for_another_service(text: str) -> None:
    ours, other = broker_of(FakeNode("n")), broker_of(FakeNode("n"))
    copied = bound_by(other, device_pod("a")).annotations[GRANT]
    pod = replace(device_pod("b"), node="n", annotations={GRANT: copied if text == "copy" else text})
    assert note_about(ours, pod) == ""
