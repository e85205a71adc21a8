from __future__ import annotations

import pytest

from linkwise import InputError
from linkwise.wire.pick_batch import BandwidthAnswer, BandwidthLine, LinkAffinityLine, decode_line, encode_answer


def test_a_line_is_read_by_its_policy() -> None:
    assert isinstance(decode_line(b'{"policy":"link-affinity","scores":[[0]],"size":1}'), LinkAffinityLine)
    assert isinstance(decode_line(b'{"policy":"bandwidth","bandwidth":[[0]],"size":1}'), BandwidthLine)


def test_whole_numbers_stay_whole() -> None:
    line = decode_line(b'{"policy":"link-affinity","scores":[[0,10],[10.5,0]],"size":1}')
    assert isinstance(line, LinkAffinityLine)
    assert [type(value) for value in (line.scores[0][1], line.scores[1][0])] == [int, float]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"not json", "malformed"),
        (b"[]", "expected an object"),
        (b"{}", "field 'policy' is missing"),
        (b'{"policy":"luck","size":1}', "policy: 'luck' is not known: link-affinity, bandwidth"),
        (b'{"policy":"bandwidth","size":1}', "field 'bandwidth' is missing"),
        (b'{"policy":"bandwidth","bandwidth":[[0]],"size":"1"}', "size: expected a whole number, got text"),
        (b'{"policy":"bandwidth","bandwidth":[[NaN]],"size":1}', "malformed"),
        (b'{"policy":"bandwidth","bandwidth":[[0]],"size":1,"availble":[0]}', "field 'availble' is not known"),
        (b'{"policy":"bandwidth","bandwidth":[[0]],"size":1,"available":[0.5]}', r"available\[0\]: "),
        (b"\xff\xfe", "malformed"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_makes_no_sense_names_the_field(line: bytes, text: str) -> None:
    with pytest.raises(InputError, match=text):
        decode_line(line)


def test_one_device_has_no_bottleneck() -> None:
    assert encode_answer(BandwidthAnswer((3,), None, ())) == b'{"devices":[3],"bottleneck":null,"suspects":[]}'
