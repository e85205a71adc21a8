"""`linkwise pick --batch`: many questions, one a line; an answer a line."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING

from linkwise.cli.pick.batch import answer
from linkwise.errors import InputError
from linkwise.wire.pick_batch import BrokenLine, decode_line, encode_answer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from linkwise.wire.pick_batch import Answer

__all__ = ["answer_lines"]


def answer_lines(lines: Iterable[bytes], out: BinaryIO) -> bool:
    """Answer every line that is not blank, each as soon as it is read; False if any of them made no sense."""
    whole = True
    for number, line in enumerate(lines, start=1):
        question = line.removeprefix(BOM_UTF8) if number == 1 else line
        if question.isspace():
            continue
        found = _answer_line(number, question)
        whole = whole and not isinstance(found, BrokenLine)
        out.write(encode_answer(found) + b"\n")
        out.flush()
    return whole


def _answer_line(number: int, line: bytes) -> Answer:
    try:
        return answer(decode_line(line))
    except InputError as error:
        return BrokenLine(f"line {number}: {error}")
