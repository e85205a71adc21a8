from __future__ import annotations

from math import nan

import pytest
import yaml

from linkwise import Link, TopologyError
from linkwise.wire.topology_json import FORMAT, read_topology


def test_the_format_shown_to_users_is_read() -> None:
    topology = read_topology(yaml.safe_load(FORMAT))
    assert topology.devices == ("GPU-aaaa", "GPU-bbbb")
    assert topology.links[0][1] == Link.parse("NV2+PHB")
    assert topology.bandwidth[1][0] == 48.3


def test_devices_are_numbered_where_they_have_no_names() -> None:
    assert read_topology({"links": [["X", "SYS"], ["SYS", "X"]]}).devices == ("#0", "#1")


def test_whatever_stands_on_a_diagonal_is_not_read() -> None:
    assert read_topology({"bandwidth": [["X", 1], [1, None]]}).bandwidth[0][1] == 1


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (None, "expected an object"),
        ([], "expected an object"),
        ({}, "links or bandwidth is required"),
        ({"link": []}, "field 'link' is not known"),
        ({"links": [["X", "NVX"], ["SYS", "X"]]}, "links row 0 column 1: link 'NVX' is unknown"),
        ({"links": [["X", "SYS"]]}, "links row 0 has 2 values, expected 1"),
        ({"links": [["X"], "SYS"]}, "expected a list"),
        ({"bandwidth": [[0, "fast"], [1, 0]]}, r"bandwidth\[0\]\[1\]: expected a number, got text"),
        ({"bandwidth": [[0, nan], [1, 0]]}, "bandwidth row 0 column 1 is nan"),
        ({"bandwidth": [[0, 1], [1, 0]], "devices": ["a"]}, "bandwidth has 2 rows for 1 devices"),
        ({"bandwidth": [[0]], "links": [["X", "SYS"], ["SYS", "X"]]}, "bandwidth has 1 rows for 2 devices"),
        ({"bandwidth": [[0]], "rings": [[4]]}, "ring 0 names device 4 of 1"),
    ],
)
def test_a_description_that_makes_no_sense_names_the_place(document: object, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        read_topology(document)
