"""`linkwise pick --batch`: many questions, one a line; an answer a line."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from linkwise.engine.explain import refusal
from linkwise.errors import InputError
from linkwise.model.verdict import Reason
from linkwise.topology.bottleneck import best_bottleneck
from linkwise.topology.partition import best_partition
from linkwise.wire.pick import (
    BandwidthAnswer,
    BandwidthLine,
    BrokenLine,
    LinkAffinityAnswer,
    LinkAffinityLine,
    Refused,
    decode_line,
    encode_answer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

__all__ = ["answer_lines"]


def answer_lines(lines: Iterable[bytes], out: BinaryIO) -> bool:
    """Answer every line that is not blank, each as soon as it is read; False if any of them made no sense."""
    whole = True
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        answer = _answer_line(number, line)
        whole = whole and not isinstance(answer, BrokenLine)
        out.write(encode_answer(answer) + b"\n")
        out.flush()
    return whole


def _answer_line(number: int, line: bytes) -> LinkAffinityAnswer | BandwidthAnswer | Refused | BrokenLine:
    try:
        asked = decode_line(line)
        return _by_links(asked) if isinstance(asked, LinkAffinityLine) else _by_bandwidth(asked)
    except InputError as error:
        return BrokenLine(f"line {number}: {error}")


def _by_links(asked: LinkAffinityLine) -> LinkAffinityAnswer | Refused:
    found = best_partition(asked.scores, asked.size, asked.available, asked.required)
    if isinstance(found, Reason):
        return Refused(refusal(found))
    return LinkAffinityAnswer(found.devices, found.score, found.total, found.sets, found.proven)


def _by_bandwidth(asked: BandwidthLine) -> BandwidthAnswer | Refused:
    found = best_bottleneck(asked.bandwidth, asked.size, asked.available, asked.required)
    if isinstance(found, Reason):
        return Refused(refusal(found))
    value = found.value if isfinite(found.value) else None
    return BandwidthAnswer(found.devices, value, found.suspects, found.proven)
