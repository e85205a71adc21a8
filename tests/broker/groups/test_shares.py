"""Groups whose members get shares of devices leave unused devices to others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.testing.cluster import KOORDINATOR, FakeNode, broker_of, device_pod, in_group

if TYPE_CHECKING:
    from linkwise.broker.broker import Broker

NODE = FakeNode("n", "percent", count=4)


def used(*cards: tuple[int, int]) -> Broker:
    """A node with a percentage used of some cards."""
    broker = broker_of(NODE)
    for card, percent in cards:
        grant = Grant(f"u{card}", "memory-share", Offer("n", (Part("main", (NODE.device(card),), percent, percent),)))
        pod = device_pod(f"p{card}", percent, KOORDINATOR, uid=f"u{card}")
        keys = {GRANT: grant_text(replace(grant, mode="percent"))}
        broker.observe([replace(pod, node="n", phase="Running", annotations=keys)], 0.0)
    return broker


def cards_of_group(broker: Broker, *percents: int) -> list[int]:
    pods = in_group(*(device_pod(f"m{number}", percent, KOORDINATOR) for number, percent in enumerate(percents)))
    plan = broker.dry_plan(pods, 1.0)
    assert plan is not None
    names = NODE.devices(*range(NODE.count))
    offers = [placement.offer for placement in plan.placements.values()]
    return sorted(names.index(device) for offer in offers if offer for device in offer.devices)


def card_of_pod(broker: Broker, percent: int) -> int:
    answer = broker.dry_run(device_pod("single", percent, KOORDINATOR), 1.0)
    assert answer.offer is not None
    return NODE.devices(*range(NODE.count)).index(answer.offer.devices[0])


def test_a_group_of_shares_uses_cards_that_are_in_use_already() -> None:
    """The pairs 0, 1 and 2, 3 are equally fast; only 2 and 3 are used in part."""
    assert cards_of_group(used((2, 50), (3, 50)), 50, 50) == [2, 3]


@pytest.mark.parametrize("cards", [((2, 50), (3, 50)), ((1, 20), (3, 40)), ((3, 10),), ((0, 80), (2, 30))])
def test_a_group_of_one_takes_the_card_that_a_single_pod_would(cards: tuple[tuple[int, int], ...]) -> None:
    broker = used(*cards)
    assert cards_of_group(broker, 50) == [card_of_pod(broker, 50)]


def test_a_free_card_is_used_if_the_others_are_too_slow_or_too_full() -> None:
    assert cards_of_group(used((1, 50), (3, 50)), 50, 50) == [0, 1]
    assert cards_of_group(used((2, 80), (3, 50)), 50) == [3]
