from __future__ import annotations

from math import inf, nan

import pytest

from linkwise import Link, Topology, TopologyError
from linkwise.model.topology import MAX_DEVICES, numbered, whole_matrix


def test_a_matrix_with_a_short_row_is_refused_with_the_row() -> None:
    with pytest.raises(TopologyError, match="bandwidth row 1 has 1 values, expected 2"):
        Topology(numbered(2), bandwidth=((0, 1), (1,)))


def test_a_matrix_of_another_size_than_the_devices_is_refused() -> None:
    with pytest.raises(TopologyError, match="links has 1 rows for 2 devices"):
        Topology(numbered(2), links=((Link("X"),),))


@pytest.mark.parametrize("bad", [nan, inf, -1, -inf, 1e300, 10**400, -(10**400)])
def test_a_value_that_is_no_quantity_is_refused_with_its_place(bad: float) -> None:
    with pytest.raises(TopologyError, match="scores row 0 column 1"):
        whole_matrix([[0, bad], [1, 0]], "scores")


@pytest.mark.parametrize("bad", ["48", None, [1]])
def test_what_is_no_number_is_refused_with_its_place(bad: object) -> None:
    with pytest.raises(TopologyError, match=r"row 1 column 0 is .* expected a number"):
        whole_matrix([[0, 1], [bad, 0]], "scores")


def test_whatever_stands_on_the_diagonal_is_not_read() -> None:
    assert whole_matrix([[-1, 2], [2, nan]], "scores") == ((0, 2), (2, 0))
    assert whole_matrix([["X", 2], [2, None]], "scores") == ((0, 2), (2, 0))


def test_more_devices_than_any_machine_has_are_refused() -> None:
    with pytest.raises(TopologyError, match="at most 64"):
        Topology(numbered(MAX_DEVICES + 1))
    with pytest.raises(TopologyError, match="at most 64"):
        whole_matrix([[0] * 65] * 65, "scores")


@pytest.mark.parametrize("rows", [3, [3, 4], None])
def test_what_is_no_list_of_rows_is_refused(rows: object) -> None:
    with pytest.raises(TopologyError, match="scores is not a list of rows"):
        whole_matrix(rows, "scores")  # type: ignore[arg-type]  # what users may write


@pytest.mark.parametrize("name", ["", "GPU-\x1b[31m", "\ud800", "a\nb"])
def test_a_device_whose_name_can_not_be_printed_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="no printable name"):
        Topology((name,))


def test_a_device_named_twice_is_refused() -> None:
    with pytest.raises(TopologyError, match="'GPU-1' is listed twice"):
        Topology(("GPU-1", "GPU-1"))


def test_rings_must_be_of_devices_that_exist_once() -> None:
    with pytest.raises(TopologyError, match="ring 0 names device 2 of 2"):
        Topology(numbered(2), rings=((0, 2),))
    with pytest.raises(TopologyError, match="device 0 is in two rings"):
        Topology(numbered(2), rings=((0,), (0, 1)))
