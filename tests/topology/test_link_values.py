from __future__ import annotations

import pytest

from linkwise import InputError, Link, Topology, pair_score, score_matrix
from linkwise.model.link import SELF
from linkwise.model.topology import numbered
from linkwise.testing.machines import topology_of
from linkwise.topology.link_values import MAX_PAIR, LinkGeneration, display_score, weight
from linkwise.vendors.machines import profile
from support.builders.seed_machines import MATRIX_000


@pytest.mark.rule("000.scores")
@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("SYS", 10),
        ("NODE", 20),
        ("PHB", 30),
        ("PXB", 40),
        ("PIX", 50),
        ("BOARD", 60),
        ("NV2+PHB", 230),
        ("NV18+NODE", 1820),
        ("NV18+BOARD", 1860),
        ("NV20+BOARD", 1860),
        ("NV1", 110),
        ("?", 0),
    ],
)
def test_a_pair_scores_by_its_path_and_its_nvlinks(text: str, score: int) -> None:
    assert pair_score(Link.parse(text)) == score


@pytest.mark.rule("000.nvswitch")
def test_a_switched_machine_scores_what_the_tool_prints() -> None:
    scores = score_matrix(profile("hgx-h100").topology)
    assert {scores[i][j] for i in range(8) for j in range(8) if i != j} == {1810}


def test_of_two_directions_the_fewer_points_count() -> None:
    links = ((SELF, Link.parse("NV2")), (Link.parse("PHB"), SELF))
    assert score_matrix(Topology(numbered(2), links=links))[0][1] == 30


@pytest.mark.rule("000.normalise")
@pytest.mark.parametrize(
    ("score", "size", "shown"),
    [(10, 2, 0.5), (230, 2, 12.4), (1860, 2, 100.0), (6 * 1860, 4, 100.0), (0, 1, 0.0)],
)
def test_scores_are_shown_out_of_the_most_possible(score: int, size: int, shown: float) -> None:
    assert round(display_score(score, size), 1) == shown


@pytest.mark.rule("000.generation")
def test_a_generation_weighs_links_by_what_they_carry() -> None:
    a100, b200 = LinkGeneration(nvlink=3, pcie=4), LinkGeneration(nvlink=5, pcie=5)
    assert weight(Link.parse("NV12+SYS"), a100) < weight(Link.parse("NV12+SYS"), b200)
    assert weight(Link.parse("PHB"), a100) < weight(Link.parse("PIX"), a100) < weight(Link.parse("NV1"), a100)
    assert max(max(row) for row in score_matrix(MATRIX_000)) <= MAX_PAIR  # the default stays points by kind


def test_an_unknown_generation_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="NVLink generation 9 is unknown; use one of 1, 2, 3, 4, 5"):
        LinkGeneration(nvlink=9)


def test_the_order_of_kinds_is_the_order_of_their_values() -> None:
    machine = topology_of("X SYS\nSYS X")
    assert score_matrix(machine, lambda link: weight(link, LinkGeneration()))[0][1] == 16
