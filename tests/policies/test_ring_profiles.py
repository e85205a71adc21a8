"""Later generations: the counts of each profile and their layouts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise import InputError, Offer, Reason, Reject
from linkwise.model.device import HardwareProfile
from linkwise.policies.ring_affinity import SPANS, RingAffinity, place_in_rings, single_number
from linkwise.policies.ring_profiles import ALSO_CALLED, RING_PROFILES, ring_profile
from linkwise.testing.nodes import ask, node

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = RingAffinity()


def devices(profile: str, size: int, idle: Iterable[int], count: int = 16) -> tuple[int, ...] | None:
    found = POLICY.pick(ask(size), node(count, free=idle, profile=profile))
    return tuple(int(device[1:]) for device in found.devices) if isinstance(found, Offer) else None


def score(profile: str, size: int, idle: Iterable[int], count: int = 16) -> tuple[int, ...]:
    found = node(count, free=idle, profile=profile)
    offer = POLICY.pick(ask(size), found)
    assert isinstance(offer, Offer)
    return POLICY.score(ask(size), found, offer)


@pytest.mark.parametrize(
    ("profile", "counts"),
    [
        ("ascend-910", (1, 2, 4, 8)),
        ("ascend-910-half", (1, 2, 4)),
        ("ascend-300t", tuple(range(1, 9))),
        ("ascend-910b", tuple(range(1, 9))),
        ("ascend-910b-16", (*range(1, 9), 10, 12, 14, 16)),
        ("ascend-910c-16", (1, *range(2, 17, 2))),
        ("ascend-910c-8", (1, 2, 4, 6, 8)),
        ("atlas-350-mesh-8", tuple(range(1, 9))),
        ("atlas-350-mesh-16", tuple(range(1, 17))),
        ("atlas-350-8", tuple(range(1, 9))),
        ("atlas-350-16", tuple(range(1, 17))),
        ("ascend-310p-duo-card", (1, 2)),
        ("ascend-310-card", (1, 2, 3, 4)),
    ],
)
def test_the_counts_that_a_profile_allows(profile: str, counts: tuple[int, ...]) -> None:
    assert ring_profile(profile).counts() == counts
    assert [size for size in range(-1, 70) if POLICY.admit(ask(size, profile=profile)) is None] == list(counts)


def test_a2_counts_and_packs() -> None:
    assert devices("ascend-910b", 3, [1, 4, 7], 8) == (1, 4, 7)
    assert score("ascend-910b", 1, [0], 8) > score("ascend-910b", 1, [0, 1], 8)


def test_box16_takes_up_to_eight_from_the_ring_that_fits_best() -> None:
    assert devices("ascend-910b-16", 3, [0, 1, 2, 3, 8, 9, 10]) == (8, 9, 10)
    assert devices("ascend-910b-16", 3, [0, 1, 8, 9]) is None


def test_box16_takes_half_of_ten_in_each_ring_at_matching_positions() -> None:
    idle = [*range(7), *range(9, 16)]
    assert devices("ascend-910b-16", 10, idle) == (1, 2, 3, 4, 5, 9, 10, 11, 12, 13)
    assert devices("ascend-910b-16", 14, idle) is None  # seven are idle in each, but only six match
    assert devices("ascend-910b-16", 16, range(16)) == tuple(range(16))
    assert score("ascend-910b-16", 10, [*range(5), *range(8, 13)]) > score("ascend-910b-16", 10, range(16))


def test_box16_weighs_health_against_fit() -> None:
    sound_and_loose = node(16, free=range(8), profile="ascend-910b-16")
    faulty_and_tight = node(16, free=range(1), faulty=[14, 15], profile="ascend-910b-16")
    scores = []
    for found in (sound_and_loose, faulty_and_tight):
        offer = POLICY.pick(ask(1), found)
        assert isinstance(offer, Offer)
        scores.append(POLICY.score(ask(1), found, offer))
    assert scores == [(16 - 7, 0, -8), (14 - 0, 0, -1)]


def test_a3_gives_whole_modules_and_breaks_none_for_one() -> None:
    assert devices("ascend-910c-16", 1, [0, 1, 5, 6, 7]) == (5,)
    assert devices("ascend-910c-16", 4, [0, 1, 3, 4, 5]) == (0, 1, 4, 5)
    assert devices("ascend-910c-16", 2, [1, 2]) is None
    assert score("ascend-910c-16", 1, [5, 6, 7]) > score("ascend-910c-16", 1, [4, 5, 6, 7])


def test_atlas_350_keeps_three_in_one_mesh_and_four_to_a_whole_one() -> None:
    assert devices("atlas-350-mesh-8", 3, [0, 1, 4, 5, 6], 8) == (4, 5, 6)
    assert devices("atlas-350-mesh-8", 4, [0, 1, 2, 4, 5, 6, 7], 8) == (4, 5, 6, 7)
    assert devices("atlas-350-mesh-8", 4, [0, 1, 2, 4, 5, 6], 8) is None
    assert devices("atlas-350-mesh-8", 5, [0, 1, 2, 4, 5, 6], 8) == (0, 1, 2, 4, 5)
    assert devices("atlas-350-mesh-16", 12, range(3, 16)) == tuple(range(4, 16))


def test_310p_takes_whole_cards_and_the_odd_one_from_a_broken_card() -> None:
    assert devices("ascend-310p-duo", 3, [0, 1, 2, 3, 5]) == (0, 1, 5)
    assert devices("ascend-310p-duo", 2, [1, 3, 4, 5]) == (4, 5)
    assert devices("ascend-310p-duo", 2, [1, 3]) == (1, 3)
    assert score("ascend-310p-duo", 1, [1, 2, 3]) > score("ascend-310p-duo", 1, [0, 1, 2, 3])
    assert score("ascend-310p-duo", 2, [0, 1]) > score("ascend-310p-duo", 2, [0, 2])
    assert score("ascend-310p-duo", 3, [0, 1, 2]) > score("ascend-310p-duo", 3, [0, 2, 4])
    assert devices("ascend-310p-duo-card", 2, [1, 2]) is None


def test_310_cards_fit_best() -> None:
    assert devices("ascend-310-card", 2, [0, 1, 2, 4, 5]) == (4, 5)
    assert devices("ascend-310-card", 3, [0, 1, 4, 5]) is None


def test_the_vendors_own_names_are_known() -> None:
    assert ring_profile("module-910b-16").name == "ascend-910b-16"
    assert ring_profile("").name == "ascend-910"
    assert set(ALSO_CALLED.values()) <= set(RING_PROFILES)


def test_a_pod_for_one_generation_is_not_put_on_another() -> None:
    refused = POLICY.pick(ask(2, profile="ascend-910b"), node(8, profile="ascend-910"))
    reason = Reason("003.predicate", asked="ascend-910b", found="ascend-910", kind="profile")
    assert refused == Reject("n", reason, final=True)
    assert isinstance(POLICY.pick(ask(2, profile="module"), node(8, profile="ascend-910")), Offer)


def test_a_node_or_a_pod_of_unknown_hardware_is_refused_and_nothing_raises() -> None:
    reason = Reason("003.predicate", asked="board-9", kind="unknown profile")
    assert POLICY.pick(ask(1), node(8, profile="board-9")) == Reject("n", reason, final=True)
    assert POLICY.admit(ask(1, profile="board-9")) == replace(reason, found=tuple(RING_PROFILES))


def test_an_unknown_profile_is_an_error_with_the_names_there_are() -> None:
    with pytest.raises(InputError, match="'ascend-999' is unknown; use one of ascend-910, "):
        ring_profile("ascend-999")


def test_a_new_profile_needs_no_code() -> None:
    duo = HardwareProfile("boxes-of-three", devices=9, group=3, spans={"one group": (1, 2), "whole groups": (3, 6, 9)})
    lying = place_in_rings(duo, node(9, free=[0, 1, 2, 4, 5, 6, 7, 8]), 6)
    assert lying is not None
    assert lying.devices == (0, 1, 2, 6, 7, 8)


@pytest.mark.parametrize("profile", RING_PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize("size", [1, 2])
def test_one_number_orders_nodes_as_the_tuple_does(profile: HardwareProfile, size: int) -> None:
    chooser, count = random.Random(1), profile.devices or 16
    scores = []
    for _ in range(40):
        found = node(
            count,
            free=chooser.sample(range(count), chooser.randint(size, count)),
            faulty=chooser.sample(range(count), chooser.randint(0, 1)),
            profile=profile.name,
        )
        offer = POLICY.pick(ask(size), found)
        if isinstance(offer, Offer):
            scores.append(POLICY.score(ask(size), found, offer))
    assert len(scores) > 5
    assert sorted(scores) == sorted(scores, key=lambda score: single_number(profile, score))


@pytest.mark.parametrize("profile", RING_PROFILES.values(), ids=lambda profile: profile.name)
def test_a_profile_makes_sense(profile: HardwareProfile) -> None:
    counts = [count for found in profile.spans.values() for count in found]
    assert len(counts) == len(set(counts)), "a count lies in one way only"
    assert set(profile.spans) <= set(SPANS)
    assert profile.devices % profile.group == 0
    for count in profile.spans.get("whole groups", ()):
        assert count % profile.group == 0
    size = profile.devices or 16
    for count in counts:
        if count <= size:
            assert isinstance(POLICY.pick(ask(count), node(size, profile=profile.name)), Offer)
        else:
            assert isinstance(POLICY.pick(ask(count), node(size, profile=profile.name)), Reject)
