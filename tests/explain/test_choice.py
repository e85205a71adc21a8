from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.engine.index.node_index import Query
from linkwise.explain.choice.devices import why_chosen
from linkwise.model.topology import Topology
from linkwise.model.verdict import Offer
from linkwise.policies.registry import POLICIES
from linkwise.testing.machines import DGX1
from linkwise.testing.nodes import ask, node, share_ask, share_node
from linkwise.vendors.machines import profile
from support.builders.seed_machines import M1

if TYPE_CHECKING:
    from linkwise.explain.reports import Choice
    from linkwise.model.ask import Ask
    from linkwise.model.node import Node


def why(policy: str, wish: Ask, where: Node, devices: tuple[str, ...] = ()) -> Choice:
    wanted = Query(wish, "", POLICIES[policy])
    offer = wanted.policy.pick(wish, where)
    assert isinstance(offer, Offer)
    found = why_chosen(wanted, where, devices or offer.devices)
    assert found is not None
    return found


MEASURED = Topology(tuple(f"#{index}" for index in range(8)), bandwidth=M1)


def test_a_near_tie_is_explained_with_what_it_would_leave() -> None:
    found = why("bandwidth", ask(2), node(topology=MEASURED))
    assert (found.devices, found.worth) == ((0, 3), "slowest pair 96.25 GB/s")
    assert found.because == (
        "of the fastest sets (within 5%), the one that leaves most for other pods: 1 good set of 4 and 3 good pairs"
    )
    assert found.lost.startswith("equal within 5%")


def test_a_slower_set_that_a_pod_has_is_reported_beside_what_would_be_chosen_now() -> None:
    found = why("bandwidth", ask(2), node(topology=MEASURED), ("d0", "d5"))
    assert (found.devices, found.now) == ((0, 5), (0, 3))
    assert found.lost == "its slowest pair has 15.52 GB/s instead of 96.25 GB/s"


def test_links_that_were_inferred_are_called_so() -> None:
    assert why("link-affinity", ask(2), node(topology=MEASURED)).worth.endswith(
        "link kinds are inferred from bandwidth"
    )


@pytest.mark.parametrize("policy", ["link-affinity", "bandwidth"])
def test_a_node_without_link_data_gives_its_lowest_devices(policy: str) -> None:
    found = why(policy, ask(2), node(free=(2, 5, 7)))
    assert (found.devices, found.because) == (
        (2, 5),
        "no link data for these devices; the lowest free devices are taken",
    )


def test_the_only_device_of_a_node_needs_no_link_data() -> None:
    assert why("link-affinity", ask(1), node(1)).because == "the only device of its node"


def test_a_single_device_costs_the_others_least() -> None:
    found = why("link-affinity", ask(1), node(topology=DGX1, free=(0, 1, 5)))
    assert (found.devices, found.other) == ((0,), (5,))
    assert found.lost == "other pods would lose a good pair"


def test_the_second_best_of_very_many_sets_is_not_looked_for() -> None:
    large = profile("dgx2-v100").topology
    found = why("link-affinity", ask(4), node(16, topology=large))
    assert (found.other, found.lost) == ((), "too many other sets to determine the second best")


def test_a_ring_is_reported_with_its_idle_devices_and_the_order_of_groups() -> None:
    found = why("ring-affinity", ask(2), node(free=(0, 1, 4, 5, 6), profile="ascend-910"))
    assert (found.devices, found.worth) == ((0, 1), "in ring 0 (2 idle before)")
    assert found.because == "for 2, a ring with 2 idle is best, then 4, 3; this is group A"
    assert (found.other, found.lost) == ((4, 5), "ring 1 has 3 idle, which is group C")


def test_complete_rings_and_single_devices_have_their_own_explanations() -> None:
    whole = why("ring-affinity", ask(8), node(profile="ascend-910"))
    assert whole.worth == "in ring 0 (4 idle before) and ring 1 (4 idle before)"
    assert whole.because == "this number requires fully idle rings"
    assert why("ring-affinity", ask(3), node(profile="atlas-350-8")).because.startswith("any free devices")


def test_a_ring_that_would_not_be_taken_now_says_which_would() -> None:
    assert why("ring-affinity", ask(1), node(free=(0, 1, 4), profile="ascend-910"), ("d0",)).now == (4,)


def test_the_tightest_device_is_reported_with_its_room() -> None:
    found = why("memory-share", share_ask(8138), share_node(16276, (12207, 8138, 4069, 16276)))
    assert (found.devices, found.worth) == ((1,), "8138 free before, 0 after")
    assert found.because == "the feasible device with the least free memory"
    assert (found.other, found.lost) == ((0,), "it has 12207 free, more")


def test_by_count_alone_the_lowest_are_taken() -> None:
    assert why("whole-device", ask(2), node()).because == "the lowest free devices; only their number counts"
    assert why("whole-device", ask(2), node(), ("d4", "d5")).now == (0, 1)


def test_devices_that_the_node_does_not_have_are_not_explained() -> None:
    assert why_chosen(Query(ask(1), "", POLICIES["whole-device"]), node(), ("elsewhere",)) is None
