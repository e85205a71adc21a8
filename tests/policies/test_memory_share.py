from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from linkwise import Ask, Device, Node, Offer, Part, Reason, Reject, Use
from linkwise.engine.reasons.catalog import refusal
from linkwise.model.access_policy import ALONE, COMMON
from linkwise.model.settings import ShareSettings
from linkwise.policies.memory_share import MemoryShare
from linkwise.policies.whole_device import WholeDevice
from linkwise.testing.machines import DGX1
from linkwise.testing.nodes import ask, node, share_ask, share_node

POLICY = MemoryShare()
CARD = 16276  # MiB


def chosen(share: int, rooms: list[int], policy: MemoryShare = POLICY) -> str | Reason:
    found = policy.pick(share_ask(share), share_node(CARD, rooms))
    return found.devices[0] if isinstance(found, Offer) else found.reason


@pytest.mark.rule("004.filter")
def test_room_is_judged_card_by_card_never_by_the_sum() -> None:
    # Figure 2: three nodes of two cards; 4069 free in all, 4069 on each card, 8138 on one card.
    assert chosen(8138, [0, 4069]) == Reason("004.filter", asked=8138, found=((0, 0), (1, 4069)))
    assert chosen(8138, [4069, 4069]) == Reason("004.filter", asked=8138, found=((0, 4069), (1, 4069)))
    assert chosen(8138, [8138, 0]) == "d0"


def test_a_refusal_counts_in_the_unit_of_the_node() -> None:
    node = replace(share_node(22, [10, 4]), unit="GiB")
    larger, more = (POLICY.pick(share_ask(share), node) for share in (30, 12))
    assert isinstance(larger, Reject)
    assert refusal(larger.reason) == "30 GiB requested on one device, but the largest has 22 GiB"
    assert isinstance(more, Reject)
    assert refusal(more.reason).endswith("device 1 has 4 GiB free; 12 GiB is needed on one device")


@pytest.mark.rule("004.binpack")
def test_of_the_cards_that_fit_the_one_with_the_least_room() -> None:
    # Figure 3.
    assert chosen(8138, [12207, 8138, 4069, 16276]) == "d1"
    assert chosen(1, [5, 5, 5]) == "d0"
    assert chosen(8138, [12207, 8138, 4069, 16276], MemoryShare(ShareSettings(order="spread"))) == "d3"


@pytest.mark.rule("004.one-card")
def test_an_ask_fits_on_one_card_or_nowhere() -> None:
    refused = POLICY.pick(share_ask(CARD + 1), share_node(CARD, [CARD, CARD]))
    assert refused == Reject("n", Reason("004.one-card", asked=CARD + 1, found=CARD), final=True)


@pytest.mark.rule("004.one-card")
def test_all_containers_of_a_pod_share_one_card() -> None:
    offer = POLICY.pick(share_ask(10, 0, 20), share_node(100, [25, 30]))
    assert isinstance(offer, Offer)
    assert [(part.container, part.devices, part.share) for part in offer.parts] == [
        ("c0", ("d1",), 10),
        ("c2", ("d1",), 20),
    ]


@pytest.mark.rule("004.mode")
def test_a_node_is_shared_by_memory_or_given_by_card_never_both() -> None:
    assert WholeDevice().pick(ask(1), share_node(CARD, [CARD])) == Reject(
        "n", Reason("004.mode", asked="whole", found="share")
    )
    assert POLICY.pick(share_ask(1), share_node(CARD, [CARD], mode="whole")) == Reject(
        "n", Reason("004.mode", asked="share", found="whole")
    )


@pytest.mark.rule("002.segregate")
def test_sharing_is_kept_within_a_namespace_unless_set_otherwise() -> None:
    shared = share_node(100, [40, 30], owners={0: "team-a", 1: "team-b"})
    own = POLICY.pick(share_ask(10, namespace="team-a"), shared)
    assert isinstance(own, Offer)
    assert own.devices == ("d0",)
    foreign = POLICY.pick(share_ask(10, namespace="team-c"), shared)
    assert foreign == Reject("n", Reason("002.segregate", asked="team-c", found=("team-a", "team-b")))
    common = share_node(100, [40, 30], owners={0: "team-a", 1: COMMON})
    any_owner = POLICY.pick(replace(share_ask(10, namespace="team-c"), sharing=COMMON), common)
    assert isinstance(any_owner, Offer)
    assert any_owner.devices == ("d1",)


@pytest.mark.rule("002.segregate")
def test_a_pod_that_shares_with_none_gets_an_unused_device() -> None:
    alone = replace(share_ask(10), sharing=ALONE)
    used = POLICY.pick(alone, share_node(100, [40, 30], owners={0: ALONE, 1: COMMON}))
    assert used == Reject("n", Reason("002.segregate", ALONE, (ALONE, COMMON), "domain"))
    offer = POLICY.pick(alone, share_node(100, [40, 100], owners={0: ALONE}))
    assert isinstance(offer, Offer)
    assert offer.devices == ("d1",)


def test_compute_is_a_second_dimension() -> None:
    busy = share_node(100, [50, 60], cores={0: 80, 1: 30}, mode="percent")
    part = share_ask(40, core=50)
    percent = type(part)(part.resource, part.containers, mode="percent")
    offer = POLICY.pick(percent, busy)
    assert isinstance(offer, Offer)
    assert (offer.devices, offer.parts[0].core) == (("d1",), 50)
    more = type(part)(part.resource, share_ask(40, core=90).containers, mode="percent")
    assert POLICY.pick(more, busy) == Reject("n", Reason("004.filter", asked=90, found=((0, 20), (1, 70)), kind="core"))


def test_a_used_up_or_faulty_card_has_no_room() -> None:
    assert POLICY.pick(share_ask(1), share_node(10, [0, 10], faulty=[1])) == Reject(
        "n", Reason("004.filter", asked=1, found=((0, 0),))
    )
    assert POLICY.pick(share_ask(1), share_node(10, [10], faulty=[0])) == Reject(
        "n", Reason("004.filter", asked=1, found=())
    )
    assert isinstance(POLICY.pick(share_ask(1), share_node(10, [10], faulty=[0])), Reject)


def in_bytes(*shares: int) -> Ask:
    return replace(share_ask(*shares), in_bytes=True)


def sized(sizes: list[int], rooms: list[int]) -> Node:
    """Devices of so many bytes, counted in percent."""
    made = share_node(100, rooms)
    devices = tuple(replace(device, bytes=size) for device, size in zip(made.devices, sizes, strict=True))
    return replace(made, devices=devices)


def test_bytes_are_percents_of_each_device_rounded_up() -> None:
    offer = POLICY.pick(in_bytes(3, 0, 3), sized([16, 80], [100, 100]))
    assert isinstance(offer, Offer)
    assert [(part.container, part.devices, part.share) for part in offer.parts] == [
        ("c0", ("d0",), 19),
        ("c2", ("d0",), 19),
    ]
    tight = POLICY.pick(in_bytes(3, 3), sized([16, 80], [37, 50]))
    assert isinstance(tight, Offer)
    assert [part.share for part in tight.parts] == [4, 4]


@pytest.mark.rule("004.filter")
def test_the_sum_of_the_rounded_percents_must_fit() -> None:
    # Three sixths are a half, and three times 17 percent are not.
    assert POLICY.pick(in_bytes(1, 1, 1), sized([6], [50])) == Reject("n", Reason("004.filter", 51, ((0, 50),)))
    assert isinstance(POLICY.pick(in_bytes(1, 1, 1), sized([6], [51])), Offer)


@pytest.mark.rule("004.one-card")
def test_more_bytes_than_any_device_has_are_refused_for_good() -> None:
    refused = POLICY.pick(in_bytes(90), sized([16, 80], [100, 100]))
    assert refused == Reject("n", Reason("004.one-card", asked=113, found=100), final=True)
    assert POLICY.pick(in_bytes(1), Node("n", ())) == Reject("n", Reason("004.one-card", asked=1, found=0), final=True)


@pytest.mark.rule("004.one-card")
def test_a_device_that_does_not_report_its_bytes_serves_no_ask_for_bytes() -> None:
    refused = POLICY.pick(in_bytes(8), sized([0, 0], [100, 100]))
    assert refused == Reject("n", Reason("004.one-card", asked=8, kind="bytes unknown"), final=True)
    assert refusal(refused.reason).startswith("8 bytes of device memory requested")
    offer = POLICY.pick(in_bytes(8), sized([0, 16], [100, 100]))
    assert isinstance(offer, Offer)
    assert offer.devices == ("d1",)


def test_a_device_of_bytes_but_no_units_is_not_given_for_nothing() -> None:
    empty = Node("n", (Device("d0", 0, memory=0, bytes=16),), mode="share")
    assert isinstance(POLICY.pick(in_bytes(8), empty), Reject)


def test_bytes_are_scored_by_the_percents_they_take() -> None:
    small, large = sized([16], [50]), sized([80], [50])
    scores = [POLICY.score(in_bytes(8), found, Offer("n", (Part("c0", ("d0",)),))) for found in (small, large)]
    assert [(score[0], score[-1]) for score in scores] == [(0, 0), (-40, 0)]


@given(st.lists(st.integers(1, 2**37), min_size=1, max_size=4), st.lists(st.integers(1, 2**37), min_size=1, max_size=4))
def test_no_container_gets_fewer_bytes_than_it_asks_for_and_nothing_is_oversold(
    shares: list[int], sizes: list[int]
) -> None:
    rooms = [100 - 20 * place for place, _ in enumerate(sizes)]
    offer = POLICY.pick(in_bytes(*shares), sized(sizes, rooms))
    if isinstance(offer, Offer):
        place = int(offer.devices[0][1:])
        assert sum(part.share for part in offer.parts) <= rooms[place]
        assert all(part.share * sizes[place] >= 100 * share for part, share in zip(offer.parts, shares, strict=True))
    else:
        assert offer.reason.rule in {"004.one-card", "004.filter"}


@pytest.mark.parametrize("share", [0, -5])
def test_an_ask_for_nothing_is_refused(share: int) -> None:
    assert POLICY.admit(share_ask(share)) == Reason("004.one-card", asked=share, kind="no size")


@pytest.mark.parametrize("core", [-1, 101, 10**9])
def test_more_compute_than_a_device_has_is_refused(core: int) -> None:
    assert POLICY.admit(share_ask(1, core=core)) == Reason("001.percent", asked=core, found=100)


def test_the_tightest_card_of_all_nodes_is_best() -> None:
    tight, loose = share_node(100, [12, 100]), share_node(100, [50, 10])
    scores = []
    for found in (tight, loose):
        offer = POLICY.pick(share_ask(10), found)
        assert isinstance(offer, Offer)
        scores.append(POLICY.score(share_ask(10), found, offer))
    assert scores[1] > scores[0]
    spread = MemoryShare(ShareSettings(order="spread"))
    assert spread.score(share_ask(10), tight, Offer("n", (Part("c0", ("d1",)),))) > spread.score(
        share_ask(10), loose, Offer("n", (Part("c0", ("d0",)),))
    )


def test_a_card_whose_owner_is_not_known_is_not_shared() -> None:
    unknown = Node("n", (Device("d0", 0, memory=10),), {"d0": Use(share=3)}, mode="share")
    assert POLICY.pick(share_ask(1), unknown) == Reject("n", Reason("002.segregate", asked="default", found=()))


def test_a_card_given_whole_has_no_compute_left() -> None:
    whole = Node("n", (Device("d0", 0, memory=10),), {"d0": Use(whole=True)}, mode="any")
    assert isinstance(POLICY.pick(share_ask(1, core=1), whole), Reject)


@pytest.mark.parametrize("shares", [(-2, 5), (5, -2)])
def test_a_container_that_asks_for_less_than_nothing_is_refused(shares: tuple[int, ...]) -> None:
    assert POLICY.admit(share_ask(*shares)) is not None
    assert WholeDevice().admit(ask(*shares)) is not None


@pytest.mark.rule("002.pack")
def test_a_share_of_an_unused_device_takes_one_that_others_need_least() -> None:
    machine = replace(node(topology=DGX1, free=[0, 3, 7]), mode="percent")
    sized = replace(machine, devices=tuple(replace(device, memory=100) for device in machine.devices))
    half = replace(share_ask(50), mode="percent")
    offer = POLICY.pick(half, sized)
    assert isinstance(offer, Offer)
    assert offer.devices == ("d7",)
    assert POLICY.score(half, sized, offer) > POLICY.score(half, sized, Offer("n", (Part("c0", ("d0",)),)))


def test_on_a_node_that_allocates_memory_no_sets_are_lost() -> None:
    machine = replace(node(topology=DGX1, free=[0, 3, 7]), mode="share")
    sized = replace(machine, devices=tuple(replace(device, memory=100) for device in machine.devices))
    offer = POLICY.pick(share_ask(50), sized)
    assert isinstance(offer, Offer)
    assert offer.devices == ("d0",)
    assert POLICY.score(share_ask(50), sized, offer) == (-50, 0, 0, 0, 0, -3)
