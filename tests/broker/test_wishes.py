"""What pods want, read once for all of one template: never another answer than reading each."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker import wishes as module
from linkwise.broker.wish import Wish, wish_of
from linkwise.broker.wishes import Wishes
from linkwise.dialects.groups import NAME, REPLICA
from linkwise.model.views import ContainerView, Owner, PodView

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU = "nvidia.com/gpu"
CONTAINERS = [(ContainerView("main", limits={GPU: count}),) for count in ("1", "2", "two", "0")]
LABELS = [{}, {"app": "a"}, {NAME: "g", REPLICA: "2"}, {NAME: "g"}]
ANNOTATIONS = [{}, {"linkwise.dev/policy": "whole-device"}, {"linkwise.dev/policy": "none such"}]


def test_pods_of_one_template_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(pod: PodView, by_resource: Mapping[str, str], *, by_owner: bool) -> Wish:
        read.append(pod.name)
        return wish_of(pod, by_resource, by_owner=by_owner)

    monkeypatch.setattr(module, "wish_of", reading)
    wishes = Wishes({}, by_owner=False)
    pods = [PodView("team", f"p{number}", f"u{number}", CONTAINERS[0], LABELS[1]) for number in range(3)]
    found = [wishes.of(pod) for pod in pods]
    assert read == ["p0"]
    assert found[1] is found[0]
    assert wishes.of(replace(pods[1], annotations=ANNOTATIONS[1])).policy == "whole-device"
    assert wishes.of(replace(pods[1], namespace="other")).ask != found[0].ask


def test_what_is_wrong_is_told_of_the_pod_that_has_it() -> None:
    wishes = Wishes({}, by_owner=False)
    for name in ("a", "b", "a"):
        (problem,) = wishes.of(PodView("team", name, name, CONTAINERS[2])).problems
        assert problem.where == f"pod team/{name}"


@pytest.mark.parametrize("by_owner", [False, True])
@pytest.mark.parametrize("templates", [1, 3, module.TEMPLATES])
def test_memory_changes_no_answer(monkeypatch: pytest.MonkeyPatch, templates: int, by_owner: bool) -> None:  # noqa: FBT001 - a case
    monkeypatch.setattr(module, "TEMPLATES", templates)
    chance = random.Random(7)
    wishes = Wishes({GPU: "bandwidth"}, by_owner=by_owner)
    for number in range(2_000):
        pod = PodView(
            chance.choice(["team", "other"]),
            f"p{number % 5}",
            f"u{number}",
            chance.choice(CONTAINERS),
            chance.choice(LABELS),
            chance.choice(ANNOTATIONS),
            owner=chance.choice([None, Owner("Job", "j", "1"), Owner("Job", "j", "2")]),
            claims=chance.choice([(), ("claim",)]),
            hosted_by_claims=chance.choice([(), (GPU,)]),
            overhead=chance.choice([{}, {GPU: "1"}]),
            scheduling_group=chance.choice(["", "group"]),
        )
        assert wishes.of(pod) == wish_of(pod, {GPU: "bandwidth"}, by_owner=by_owner)
