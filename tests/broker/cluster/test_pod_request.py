"""What pods want, read once for all of one template: never another answer than reading each."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from linkwise.broker.cluster.pod_request import (
    ANNOTATION_BYTES,
    LONGEST,
    NO_OWNERS,
    RESERVED_BYTES,
    TEMPLATES,
    RequestCache,
    read_request,
)
from linkwise.dialects.groups.membership import NAME, REPLICA
from linkwise.dialects.groups.owners import OwnerRules
from linkwise.model.views import ContainerView, Owner, PodView

GPU = "nvidia.com/gpu"
CONTAINERS = [(ContainerView("main", limits={GPU: count}),) for count in ("1", "2", "two", "0")]
LABELS = [{}, {"app": "a"}, {NAME: "g", REPLICA: "2"}, {NAME: "g"}]
ANNOTATIONS = [{}, {"linkwise.dev/policy": "whole-device"}, {"linkwise.dev/policy": "none such"}]


def test_pods_of_one_template_are_read_once() -> None:
    wishes = RequestCache({})
    one, other = (PodView("team", name, name, CONTAINERS[0], LABELS[1]) for name in ("a", "b"))
    assert wishes.of(other) is wishes.of(one)


def test_pods_that_say_something_else_are_read_themselves() -> None:
    wishes = RequestCache({})
    pod = PodView("team", "a", "a", CONTAINERS[0], LABELS[1])
    found = wishes.of(pod)
    assert wishes.of(replace(pod, annotations=ANNOTATIONS[1])).policy == "whole-device"
    assert wishes.of(replace(pod, namespace="other")).ask != found.ask


def test_pods_with_long_texts_are_not_kept_in_mind() -> None:
    wishes = RequestCache({})
    long = PodView("team", "a", "a", CONTAINERS[0], annotations={"text": "x" * (LONGEST + 1)})
    assert wishes.of(long) == wishes.of(long)
    assert wishes.of(long) is not wishes.of(long)


def test_problems_are_reported_for_the_pod_that_has_them() -> None:
    wishes = RequestCache({})
    for name in ("", "a", "b", "a"):
        (problem,) = wishes.of(PodView("team", name, name, CONTAINERS[2])).problems
        assert problem.where == f"pod team/{name}"


@pytest.mark.parametrize("by_owner", [NO_OWNERS, OwnerRules(everywhere=True)])
@pytest.mark.parametrize("most", [1, 3, TEMPLATES])
def test_memory_changes_no_answer(most: int, by_owner: OwnerRules) -> None:
    chance = random.Random(7)
    wishes = RequestCache({GPU: "bandwidth"}, by_owner=by_owner, most=most)
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
        assert wishes.of(pod) == read_request(pod, {GPU: "bandwidth"}, by_owner=by_owner)


@pytest.mark.parametrize(
    "annotations",
    [
        {"text": "x" * (ANNOTATION_BYTES - RESERVED_BYTES)},
        {"text": "é" * (ANNOTATION_BYTES // 2 - 1000)},
        {f"example.com/{number:0>50}": "" for number in range(4100)},
    ],
)
def test_annotations_that_leave_no_space_for_the_record_are_refused_until_the_pod_is_bound(
    annotations: dict[str, str],
) -> None:
    cache = RequestCache({})
    pod = PodView("team", "a", "a", CONTAINERS[0], annotations=annotations)
    broken = cache.of(pod).broken
    assert broken is not None
    assert broken.sentence.endswith("shorten them to 245760 bytes at most")
    assert cache.of(replace(pod, node="n")).ask is not None
    shorter = {"text": "x" * (ANNOTATION_BYTES - RESERVED_BYTES - 4)}
    assert cache.of(replace(pod, annotations=shorter)).ask is not None
    assert cache.of(replace(pod, containers=())).problems == ()
