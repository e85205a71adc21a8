from __future__ import annotations

from linkwise import Topology
from linkwise.model.topology import numbered
from linkwise.testing.machines import DGX1
from linkwise.topology.canonical import canonical, classes
from support.builders.seed_machines import M1, M2


def pair_values(matrix: tuple[tuple[float, ...], ...]) -> set[float]:
    return {value for i, row in enumerate(matrix) for j, value in enumerate(row) if i != j}


def test_noise_disappears_and_classes_stay() -> None:
    assert pair_values(canonical(Topology(numbered(8), bandwidth=M1))) == {100.0, 46.4, 14.7}
    assert pair_values(canonical(Topology(numbered(8), bandwidth=M2))) == {100.0, 46.4, 17.8}


def test_machines_that_differ_by_noise_are_equal() -> None:
    noisy = tuple(tuple(value * (1 + (i * 7 + j) % 5 / 500) for j, value in enumerate(row)) for i, row in enumerate(M2))
    assert canonical(Topology(numbered(8), bandwidth=noisy)) == canonical(Topology(numbered(8), bandwidth=M2))


def test_link_kinds_go_before_samples() -> None:
    both = Topology(numbered(8), links=DGX1.links, bandwidth=M1)
    assert canonical(both) == canonical(DGX1)
    assert canonical(DGX1)[0][3] == 96.0


def test_a_class_begins_below_four_fifths_of_the_value_before() -> None:
    assert set(classes([100.0, 80.0, 64.0, 51.2]).values()) == {classes([64.0])[64.0]}
    assert len(set(classes([100.0, 79.0]).values())) == 2


def test_nothing_stays_nothing() -> None:
    assert classes([0.0, 50.0])[0.0] == 0.0
    assert canonical(Topology(numbered(4))) == ()


def test_a_canonical_matrix_is_symmetric() -> None:
    values = canonical(Topology(numbered(8), bandwidth=M1))
    assert values == tuple(zip(*values, strict=True))
