"""Messages of `linkwise pick --batch`: one JSON object per line in, one per line out."""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import describe_error

__all__ = [
    "Answer",
    "BandwidthAnswer",
    "BandwidthLine",
    "BrokenLine",
    "DevicesAnswer",
    "GroupAnswer",
    "Line",
    "LinkAffinityAnswer",
    "LinkAffinityLine",
    "MemoryShareLine",
    "Refused",
    "RingAffinityLine",
    "WholeDeviceLine",
    "decode_line",
    "encode_answer",
]

Number = int | float
Cell = int | float | str | None
"""cells on the diagonal are ignored"""


class _Line(msgspec.Struct, tag_field="policy", forbid_unknown_fields=True, kw_only=True):
    size: int
    available: list[int] | None = None
    required: list[int] = []


class LinkAffinityLine(_Line, tag="link-affinity"):
    """Choose by pair scores."""

    scores: list[list[Cell]]


class BandwidthLine(_Line, tag="bandwidth"):
    """Choose by measured bandwidth, GB/s from row to column."""

    bandwidth: list[list[Cell]]


class WholeDeviceLine(_Line, tag="whole-device"):
    """Choose by count alone."""

    available: list[int]


class RingAffinityLine(msgspec.Struct, tag_field="policy", tag="ring-affinity", forbid_unknown_fields=True):
    """Choose by the rings that devices form."""

    size: int
    idle: list[int]
    profile: str = ""
    healthy: list[int] | None = None


class MemoryShareLine(msgspec.Struct, tag_field="policy", tag="memory-share", forbid_unknown_fields=True):
    """Choose one device with enough free memory, in the unit of the share."""

    room: dict[int, int]
    share: int


class LinkAffinityAnswer(msgspec.Struct, omit_defaults=True):
    """The chosen set with its score, and the partition it was chosen from with its total."""

    devices: tuple[int, ...]
    score: Number
    total: Number
    partition: tuple[tuple[int, ...], ...]
    proven: bool = True
    problems: tuple[str, ...] = ()
    """what the machine's description lacks"""
    normalized: float | None = None
    """the score from 0 to 100 of the largest possible, where link kinds were scored"""


class BandwidthAnswer(msgspec.Struct, omit_defaults=True):
    """The chosen set and its slowest pair; null for a single device."""

    devices: tuple[int, ...]
    bottleneck: float | None
    suspects: tuple[tuple[int, int], ...]
    proven: bool = True
    problems: tuple[str, ...] = ()
    """what the machine's description lacks"""


class GroupAnswer(msgspec.Struct):
    """The chosen devices, their priority group, and a score to order nodes by: higher is better."""

    devices: tuple[int, ...]
    group: str
    score: int


class DevicesAnswer(msgspec.Struct):
    """The chosen devices."""

    devices: tuple[int, ...]


class Refused(msgspec.Struct):
    """The reason why no set can be chosen."""

    reject: str


class BrokenLine(msgspec.Struct):
    """The reason why the line is invalid."""

    error: str


Line = LinkAffinityLine | BandwidthLine | WholeDeviceLine | RingAffinityLine | MemoryShareLine
Answer = LinkAffinityAnswer | BandwidthAnswer | GroupAnswer | DevicesAnswer | Refused | BrokenLine
_TAGS: Final = [str(kind.__struct_config__.tag) for kind in get_args(Line)]
_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)
encode_answer: Final = msgspec.json.Encoder().encode


def decode_line(line: bytes) -> Line:
    """Decode one request; InputError names the invalid field."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        sentence = describe_error(error)
        hint = f": {', '.join(_TAGS)}" if sentence.startswith("policy: ") else ""
        raise InputError(sentence + hint) from error
    except RecursionError as error:
        raise InputError("nested too deeply") from error
