from __future__ import annotations

from functools import partial

import pytest

from linkwise import Offer, Reason, Reject, Topology
from linkwise.model.settings import BandwidthSettings
from linkwise.model.topology import numbered
from linkwise.policies.bandwidth import Bandwidth
from linkwise.testing import nodes
from linkwise.testing.machines import DGX1
from linkwise.testing.nodes import ask, node
from support.builders.seed_machines import M1, M2

POLICY = Bandwidth()
FIRST, SECOND = (Topology(numbered(8), bandwidth=samples) for samples in (M1, M2))
offered, score = partial(nodes.offered, POLICY), partial(nodes.score, POLICY)


@pytest.mark.rule("001.single")
def test_one_pod_gets_the_largest_bottleneck_of_what_is_free() -> None:
    assert offered(4, topology=FIRST).devices == ("d0", "d1", "d2", "d3")
    assert offered(4, topology=FIRST, free=[0, 4, 5, 6, 7]).devices == ("d4", "d5", "d6", "d7")


@pytest.mark.rule("001.near-ties")
def test_a_pair_is_chosen_by_what_it_leaves() -> None:
    assert offered(2, topology=FIRST).devices == ("d0", "d3")


@pytest.mark.rule("001.best-effort")
def test_a_poor_set_is_given_unless_a_floor_is_set() -> None:
    poor = node(topology=FIRST, free=[0, 5])
    assert isinstance(POLICY.pick(ask(2), poor), Offer)
    refused = Bandwidth(BandwidthSettings(floor=40.0)).pick(ask(2), poor)
    assert refused == Reject("n", Reason("001.best-effort", asked=40.0, found=15.52))
    assert isinstance(Bandwidth(BandwidthSettings(floor=40.0)).pick(ask(1), poor), Offer)


def test_nodes_that_differ_by_noise_are_equally_good() -> None:
    assert score(2, topology=FIRST)[:2] == score(2, topology=SECOND)[:2]
    assert score(4, topology=FIRST) > score(4, topology=FIRST, free=[0, 1, 4, 5, 6])


def test_link_kinds_stand_in_where_nothing_was_measured() -> None:
    assert offered(4, topology=DGX1).devices == ("d0", "d1", "d2", "d3")
    assert score(4, topology=DGX1)[:2] == (1, 480)


def test_a_node_without_link_data_is_feasible_and_comes_last() -> None:
    assert offered(2).notes == ("link data is incomplete",)
    assert score(2) < score(2, topology=FIRST, free=[0, 5])


def test_one_device_is_scored_by_what_it_harms_and_then_by_packing() -> None:
    assert score(1, topology=FIRST, free=[0]) > score(1, topology=FIRST)


def test_among_equal_sets_the_fuller_node_is_better() -> None:
    whole = score(4, topology=FIRST)
    fuller = score(4, topology=FIRST, free=[0, 1, 2, 3])
    assert fuller[:2] == whole[:2]
    assert fuller[-1] > whole[-1]


def test_containers_get_the_best_of_what_the_pod_got() -> None:
    offer = POLICY.pick(ask(2, 2), node(topology=FIRST))
    assert isinstance(offer, Offer)
    assert [part.devices for part in offer.parts] == [("d0", "d3"), ("d1", "d2")]
