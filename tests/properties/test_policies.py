"""Over generated nodes, for every policy: sound, never oversold, whole or not at all, always the same."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise import Ask, Node, Offer, Reject, refusal
from linkwise.engine.reasons.catalog import short_refusal
from linkwise.model.node import FREE
from linkwise.policies.memory_share import MemoryShare
from linkwise.policies.registry import POLICIES
from linkwise.policies.ring_affinity import place_in_rings
from linkwise.policies.ring_profiles import RING_PROFILES, ring_profile
from linkwise.testing.nodes import node
from support.profile import examples
from support.properties.strategies import asks, nodes

if TYPE_CHECKING:
    from linkwise.model.node import AskMode, Mode
    from linkwise.policies.policy import Policy

WORLD = settings(max_examples=examples(150), deadline=None)


@pytest.fixture(params=POLICIES.values(), ids=lambda policy: policy.name, scope="session")
def policy(request: pytest.FixtureRequest) -> Policy:
    found: Policy = request.param
    return found


def mode_of(policy: Policy) -> AskMode:
    return "share" if policy.name == "memory-share" else "whole"


def world(policy: Policy, data: st.DataObject) -> tuple[Ask, Node]:
    mode = mode_of(policy)
    ask = data.draw(asks(mode).filter(lambda ask: policy.admit(ask) is None), "ask")
    return ask, data.draw(nodes(mode), "node")


@WORLD
@given(data=st.data())
def test_what_is_offered_is_sound_free_and_as_much_as_asked(policy: Policy, data: st.DataObject) -> None:
    ask, node = world(policy, data)
    offer = policy.pick(ask, node)
    if isinstance(offer, Reject):
        return
    healthy = {device.id for device in node.healthy()}
    assert set(offer.devices) <= healthy
    if policy.name == "memory-share":
        (device,) = offer.devices
        assert sum(part.share for part in offer.parts) == ask.share <= node.room()[device]
        assert node.used.get(device, FREE) == FREE or node.used[device].domains == {ask.domain}
    else:
        assert set(offer.devices) <= {device.id for device in node.free()}
        wanted = {container.container: container.devices for container in ask.containers if container.devices}
        assert {part.container: len(part.devices) for part in offer.parts} == wanted
        assert len(offer.devices) == ask.devices


@WORLD
@given(data=st.data())
def test_the_same_question_has_the_same_answer(policy: Policy, data: st.DataObject) -> None:
    ask, node = world(policy, data)
    first = policy.pick(ask, node)
    assert policy.pick(ask, node) == first
    shuffled = data.draw(st.permutations(node.devices), "order")
    other = Node(node.name, tuple(shuffled), node.used, node.topology, node.profile, node.mode)
    assert policy.pick(ask, other) == first


@WORLD
@given(data=st.data())
def test_a_score_is_as_many_integers_as_it_has_terms(policy: Policy, data: st.DataObject) -> None:
    ask, node = world(policy, data)
    offer = policy.pick(ask, node)
    if isinstance(offer, Offer):
        score = policy.score(ask, node, offer)
        assert len(score) == len(policy.terms)
        assert all(type(term) is int for term in score)


@WORLD
@given(data=st.data())
def test_every_refusal_is_a_sentence(policy: Policy, data: st.DataObject) -> None:
    modes: list[Mode] = ["any", "whole", "share", "percent"]
    ask, node = data.draw(asks(mode_of(policy))), data.draw(nodes(data.draw(st.sampled_from(modes))))
    admitted = policy.admit(ask)
    verdict = admitted or policy.pick(ask, node)
    reason = verdict.reason if isinstance(verdict, Reject) else verdict
    if not isinstance(reason, Offer):
        assert len(refusal(reason)) > 10
        assert not any(letter.isdigit() for letter in short_refusal(reason))


@WORLD
@given(data=st.data())
def test_whole_devices_are_refused_only_where_too_few_are_free(data: st.DataObject) -> None:
    for name in ("link-affinity", "bandwidth", "whole-device"):
        ask, node = world(POLICIES[name], data)
        fits = len(node.free()) >= ask.devices
        assert isinstance(POLICIES[name].pick(ask, node), Offer) == fits


@WORLD
@given(data=st.data())
def test_the_chosen_card_is_the_tightest_that_fits(data: st.DataObject) -> None:
    policy = MemoryShare()
    ask, node = world(policy, data)
    fitting = [
        (room, device.index)
        for device in node.healthy()
        for room in (node.room()[device.id],)
        if room >= ask.share
        and (not node.use(device).whole and max(0, 100 - node.use(device).core) >= ask.core)
        and (node.use(device) == FREE or node.use(device).domains == {ask.domain})
    ]
    offer = policy.pick(ask, node)
    assert isinstance(offer, Offer) == bool(fitting)
    if isinstance(offer, Offer):
        (chosen,) = offer.devices
        assert node.room()[chosen] == min(fitting)[0]


@pytest.mark.rule("003.ring")
@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(sorted(RING_PROFILES)),
    st.integers(1, 16),
    st.sets(st.integers(0, 15)),
    st.sets(st.integers(0, 15), max_size=3),
)
def test_devices_lie_as_their_profile_demands(name: str, size: int, free: set[int], faulty: set[int]) -> None:
    profile = ring_profile(name)
    found = node(profile.devices or 16, free=free, faulty=faulty, profile=name)
    lying, span = place_in_rings(profile, found, size), profile.span(size)
    idle = [{device.index for device in found.free()} & set(ring) for ring in profile.groups(len(found.devices))]
    whole = [ring for ring in idle if len(ring) == profile.group]
    possible = {
        None: False,
        "count": sum(map(len, idle)) >= size,
        "one group": any(len(ring) >= size for ring in idle),
        "whole groups": len(whole) * profile.group >= size,
        "whole groups first": sum(map(len, idle)) >= size,
        "even split": any(
            len({device + (b - a) * profile.group for device in idle[a]} & idle[b]) * 2 >= size
            for a, b in combinations(range(len(idle)), 2)
        ),
    }
    assert (lying is not None) == possible[span]
    if lying is not None:
        assert len(set(lying.devices)) == size
        assert set(lying.devices) <= set().union(*idle)
        if span == "one group":
            assert len({device // profile.group for device in lying.devices}) == 1
