"""Groups whose members get shares of devices leave unused devices to others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.dialects.linkwise.dialect import DISTINCT_DEVICES, GRANT, grant_text
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.testing.cluster import KOORDINATOR, FakeNode, broker_of, device_pod, in_gang, in_group

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


def cards_of_group(broker: Broker, *percents: int, least: int = 0, distinct: bool = False) -> list[int] | None:
    """The card of each member, in their order, without those that are left out; None if too few of them fit."""
    pods = [device_pod(f"m{number}", percent, KOORDINATOR) for number, percent in enumerate(percents)]
    pods = in_gang(*pods, least=least) if least else in_group(*pods)
    if distinct:
        pods = [replace(pod, annotations={**pod.annotations, DISTINCT_DEVICES: "true"}) for pod in pods]
    plan = broker.dry_plan(pods, 1.0)
    if plan is None:
        return None
    names = NODE.devices(*range(NODE.count))
    offers = [plan.placements[pod.uid].offer for pod in pods if pod.uid in plan.placements]
    return [names.index(device) for offer in offers if offer for device in offer.devices]


def card_of_pod(broker: Broker, percent: int) -> int:
    answer = broker.dry_run(device_pod("single", percent, KOORDINATOR), 1.0)
    assert answer.offer is not None
    return NODE.devices(*range(NODE.count)).index(answer.offer.devices[0])


def test_members_share_a_card() -> None:
    assert cards_of_group(used(), 50, 50) == [0, 0]
    assert cards_of_group(used((1, 95), (2, 95), (3, 95)), 50, 50, least=2) == [0, 0]


def test_members_with_distinct_devices_do_not_share_a_card() -> None:
    full = used((1, 95), (2, 95), (3, 95))
    assert cards_of_group(used(), 50, 50, distinct=True) in ([0, 1], [2, 3])
    assert cards_of_group(full, 50, 50, least=2, distinct=True) is None
    assert cards_of_group(full, 50, 50, distinct=True) == [0]


def test_a_group_with_distinct_devices_uses_cards_that_are_in_use_already() -> None:
    """The pairs 0, 1 and 2, 3 are equally fast; only 2 and 3 are used in part."""
    assert cards_of_group(used((2, 50), (3, 50)), 50, 50, distinct=True) == [2, 3]


@pytest.mark.parametrize("percents", [(50, 70), (70, 50)])
def test_unequal_members_fit_cards_of_which_only_some_fit_each_of_them(percents: tuple[int, int]) -> None:
    broker = used((0, 20), (1, 50), (2, 95), (3, 95))
    assert cards_of_group(broker, *percents, least=2) == [0 if percent == 70 else 1 for percent in percents]


@pytest.mark.parametrize("taken", [0, 10])
def test_a_gang_that_fits_less_room_fits_more(taken: int) -> None:
    parts = [(0, 30), (1, 30), (2, 50)]
    cards = cards_of_group(used(*parts, *([(3, taken)] if taken else [])), 100, 70, 70, 50, least=3)
    assert cards is not None
    assert len(cards) == 4 - bool(taken)


@pytest.mark.parametrize("cards", [((2, 50), (3, 50)), ((1, 20), (3, 40)), ((3, 10),), ((0, 80), (2, 30))])
def test_a_group_of_one_takes_the_card_that_a_single_pod_would(cards: tuple[tuple[int, int], ...]) -> None:
    broker = used(*cards)
    assert cards_of_group(broker, 50) == [card_of_pod(broker, 50)]


def test_a_free_card_is_used_if_the_others_are_too_slow_or_too_full() -> None:
    assert sorted(cards_of_group(used((1, 50), (3, 50)), 50, 50, distinct=True) or []) == [0, 1]
    assert cards_of_group(used((2, 80), (3, 50)), 50) == [3]
