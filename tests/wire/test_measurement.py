"""The state file of measurements: what is written is read, and anything else is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from linkwise.errors import InputError
from linkwise.model.inventory import Measurement
from linkwise.wire.measurement import decode_measurements, encode_measurements

ONE = Measurement("nvbandwidth", 1_000_000.0, ("a", "b"), ((0.0, 4.64), (16.81, 0.0)), ((0, 1),), ("odd",))


def test_what_is_written_is_read() -> None:
    assert decode_measurements(encode_measurements([ONE, ONE])) == (ONE, ONE)


def test_suspect_pairs_are_written_with_their_uuids() -> None:
    document = json.loads(encode_measurements([ONE]))
    assert document["measurements"][0]["suspects"] == [["a", "b"]]
    assert document["measurements"][0]["time"] == "1970-01-12T13:46:40Z"


@pytest.mark.parametrize(
    "change",
    [
        {"devices": ["a"]},
        {"devices": ["a", "a"]},
        {"devices": ["a", ""]},
        {"devices": ["a", "b\n"]},
        {"bandwidth": [[0, 1]]},
        {"bandwidth": [[0, -1], [1, 0]]},
        {"bandwidth": [[0, "x"], [1, 0]]},
        {"bandwidth": [[0, 1e300], [1, 0]]},
        {"suspects": [["a", "c"]]},
        {"suspects": [["a"]]},
        {"time": "yesterday"},
        {"time": 5},
        {"more": 1},
    ],
)
def test_an_invalid_field_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(encode_measurements([ONE]))
    document["measurements"][0] |= change
    with pytest.raises(InputError):
        decode_measurements(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"version": 2, "measurements": []}', b"[" * 100_000])
def test_any_other_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        decode_measurements(data)
