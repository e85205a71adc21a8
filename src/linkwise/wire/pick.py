"""Questions to `linkwise pick --batch`, one JSON object a line, and the answers to them."""

from __future__ import annotations

from typing import Final

import msgspec

from linkwise.errors import InputError
from linkwise.wire.words import plain_words

__all__ = [
    "BandwidthAnswer",
    "BandwidthLine",
    "BrokenLine",
    "LinkAffinityAnswer",
    "LinkAffinityLine",
    "Refused",
    "decode_line",
    "encode_answer",
]

Number = int | float


class _Line(msgspec.Struct, tag_field="policy", forbid_unknown_fields=True, kw_only=True):
    size: int
    available: list[int] | None = None
    required: list[int] = []


class LinkAffinityLine(_Line, tag="link-affinity"):
    """Choose by pair scores."""

    scores: list[list[Number]]


class BandwidthLine(_Line, tag="bandwidth"):
    """Choose by measured bandwidth, GB/s from row to column."""

    bandwidth: list[list[Number]]


class LinkAffinityAnswer(msgspec.Struct, omit_defaults=True):
    """The chosen set with its score, and the partition it was chosen from with its total."""

    devices: tuple[int, ...]
    score: Number
    total: Number
    partition: tuple[tuple[int, ...], ...]
    proven: bool = True


class BandwidthAnswer(msgspec.Struct, omit_defaults=True):
    """The chosen set and its slowest pair; one device has no pair: null."""

    devices: tuple[int, ...]
    bottleneck: float | None
    suspects: tuple[tuple[int, int], ...]
    proven: bool = True


class Refused(msgspec.Struct):
    """No set can be chosen, and why."""

    reject: str


class BrokenLine(msgspec.Struct):
    """The line makes no sense, and why."""

    error: str


Line = LinkAffinityLine | BandwidthLine
_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)
encode_answer: Final = msgspec.json.Encoder().encode


def decode_line(line: bytes) -> Line:
    """One question; InputError says which field is wrong and how."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(plain_words(error)) from error
