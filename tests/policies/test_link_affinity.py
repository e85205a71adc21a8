from __future__ import annotations

from functools import partial

import pytest

from linkwise import Offer, Reason, Reject, Topology
from linkwise.model.topology import numbered
from linkwise.policies.link_affinity import LinkAffinity, link_class
from linkwise.testing import nodes
from linkwise.testing.machines import BRIDGED, DGX1
from linkwise.testing.nodes import ask, node
from linkwise.topology.canonical import inferred_links
from linkwise.vendors.machines import profile
from support.builders.seed_machines import M1, STORY_000

POLICY = LinkAffinity()
offered, score = partial(nodes.offered, POLICY), partial(nodes.score, POLICY)


@pytest.mark.rule("000.story")
def test_two_devices_come_from_the_node_with_nvlinks() -> None:
    for linked in (DGX1, STORY_000):
        assert score(2, topology=linked) > score(2, topology=profile("v100-pcie").topology)
        pair = [int(device[1:]) for device in offered(2, topology=linked).devices]
        assert linked.links[pair[0]][pair[1]].direct == 2


@pytest.mark.rule("000.score")
def test_nodes_are_ordered_by_the_set_they_would_give() -> None:
    whole, broken = score(4, topology=DGX1), score(4, topology=DGX1, free=[0, 1, 4, 5, 6])
    assert (whole[-1], broken[-1]) == (1120, 740)
    assert whole[:2] > broken[:2]


@pytest.mark.rule("000.score")
def test_sets_whose_scores_are_nearly_equal_are_of_one_class() -> None:
    behind_a_bridge, behind_a_switch = score(2, topology=DGX1, free=[0, 3]), score(2, topology=DGX1, free=[2, 3])
    assert (behind_a_bridge[-1], behind_a_switch[-1]) == (230, 250)  # the traffic takes two NVLinks in both
    assert behind_a_bridge[:2] == behind_a_switch[:2]
    assert link_class([200] * 28) == link_class([200] * 27 + [150]) > link_class([200] * 21 + [10] * 7)
    kinds = [link_class([points]) for points in (10, 20, 30, 40, 50, 60, 110, 210, 1810)]
    assert kinds == sorted(set(kinds))


@pytest.mark.rule("002.pack")
def test_nearly_equal_sets_come_from_the_node_where_others_lose_least() -> None:
    odd, whole = score(2, topology=DGX1, free=[0, 3, 7]), score(2, topology=DGX1)
    assert odd[:2] == whole[:2]
    assert odd > whole


@pytest.mark.rule("000.unknown")
def test_a_node_without_link_data_is_feasible_and_comes_last() -> None:
    offer = offered(2)
    assert offer.devices == ("d0", "d1")
    assert offer.notes == ("link data is incomplete",)
    assert score(2) < score(2, topology=profile("v100-pcie").topology)


@pytest.mark.rule("000.unknown")
def test_devices_that_the_matrix_does_not_know_are_used_last() -> None:
    six = Topology(numbered(6), links=tuple(row[:6] for row in DGX1.links[:6]))
    assert offered(4, topology=six).devices == ("d0", "d1", "d2", "d3")
    assert offered(8, topology=six).devices == tuple(f"d{i}" for i in range(8))


@pytest.mark.rule("000.one", "002.pack")
def test_one_device_is_taken_where_others_lose_least_and_then_packed() -> None:
    assert offered(1, topology=BRIDGED, free=[0, 1, 2, 3, 7]).devices == ("d7",)
    last, odd = score(1, topology=BRIDGED, free=[7]), score(1, topology=BRIDGED, free=[0, 1, 7])
    pair, empty = score(1, topology=BRIDGED, free=[0, 1]), score(1, topology=BRIDGED)
    assert last > odd > pair > empty
    assert score(1, free=[7]) == last


@pytest.mark.rule("000.one")
def test_one_device_breaks_no_pair_if_another_has_no_partner() -> None:
    pcie = profile("v100-pcie").topology  # 6 alone of these has no partner behind its switch, but more links to others
    assert offered(1, topology=pcie, free=[0, 1, 4, 5, 6]).devices == ("d6",)


@pytest.mark.rule("002.pack")
def test_one_device_comes_from_slow_machines_before_fast_ones_and_from_used_ones_before_empty_ones() -> None:
    machines = [None, *(profile(name).topology for name in ("v100-pcie", "dgx1-v100", "dgx-a100"))]
    empty = [score(1, topology=topology) for topology in machines]
    assert empty == sorted(empty, reverse=True)
    used = score(1, topology=profile("dgx-a100").topology, free=range(7))
    assert used > max(empty)


def test_link_kinds_are_inferred_from_a_bare_matrix_and_said_so() -> None:
    offer = offered(2, topology=Topology(numbered(8), bandwidth=M1))
    assert offer.devices == ("d0", "d3")
    assert offer.notes == ("link kinds are inferred from bandwidth",)
    links = inferred_links(M1)
    assert [str(links[0][other]) for other in (3, 1, 5)] == ["NV2+SYS", "NV1+SYS", "SYS"]


def test_a_faster_class_always_infers_a_faster_kind() -> None:
    speeds = [0.0, 1.0, 2.0, 4.0, 900.0, 2000.0, 5000.0]
    matrix = [[0.0] * 8 for _ in range(8)]
    for other, speed in enumerate(speeds, 1):
        matrix[0][other] = matrix[other][0] = speed
    links = inferred_links(tuple(map(tuple, matrix)))[0][1:]
    assert list(links) == sorted(links)
    assert len(set(links)) == len(speeds)


def test_containers_get_the_best_of_what_the_pod_got() -> None:
    offer = POLICY.pick(ask(2, 2), node(topology=DGX1))
    assert isinstance(offer, Offer)
    assert [(part.container, part.devices) for part in offer.parts] == [("c0", ("d0", "d3")), ("c1", ("d1", "d2"))]


@pytest.mark.rule("002.whole")
def test_too_few_free_devices_are_a_reject_that_other_pods_may_resolve() -> None:
    assert POLICY.pick(ask(2), node(free=[0])) == Reject("n", Reason("002.whole", asked=2, found=(1, 8)))


@pytest.mark.rule("002.whole")
def test_a_request_for_more_devices_than_the_node_has_is_a_final_reject_with_a_reason_of_its_own() -> None:
    expected = Reason("002.whole", asked=9, found=(8, 8), kind="too small")
    assert POLICY.pick(ask(9), node(free=range(8))) == Reject("n", expected, final=True)


def test_an_unhealthy_device_is_never_offered() -> None:
    assert "d0" not in offered(7, topology=DGX1, faulty=[0]).devices
    assert isinstance(POLICY.pick(ask(8), node(topology=DGX1, faulty=[0])), Reject)


def test_an_ask_for_nothing_is_refused() -> None:
    assert POLICY.admit(ask(0)) == Reason("002.whole", asked=0, kind="no size")
