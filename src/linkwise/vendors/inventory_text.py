"""Shared by readers of device lists: values that a cut text can't have changed, and the Reading of a list."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Final

from linkwise.vendors.reader import DeviceFacts, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "BUS_ID",
    "amount",
    "believed",
    "free_numbers",
    "inventory",
    "left_out",
    "prompt",
    "refusals",
    "value_or_empty",
    "whole_lines",
]

BUS_ID: Final = re.compile(r"(?:[0-9a-fA-F]{4}){1,2}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")
_UUID: Final = r"(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_CLOSED: Final = re.compile(rf"{_UUID}|{BUS_ID.pattern}|[0-9]{{1,9}} [MG]i?B|\[[^\[\]]*\]")
_AMOUNT: Final = re.compile(r"([0-9]{1,9}) ?([MG]i?B)?")
_LOST: Final = re.compile(r"device handle for GPU ?([0-9]{1,3}):")
_NOTHING: Final = {"", "N/A", "NA", "-", "ERR!"}
_GAPS: Final = {"...", "[...]", "…", "......"}


def whole_lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines, each with whether it ends with a newline; a last line without one may be cut."""
    lines = text.split("\n")
    for line in lines[:-1]:
        yield line, True
    if lines[-1]:
        yield lines[-1], False


def believed(value: str, *, ended: bool) -> str | None:
    """The value, or None at the end of a cut text, where it may be the beginning of a longer one."""
    return value if ended or _CLOSED.fullmatch(value) else None


def value_or_empty(value: str) -> str:
    """The value, or an empty string for the words that tools print instead of one."""
    return "" if value in _NOTHING or value.startswith("[") else value


def amount(value: str) -> int | None:
    """Memory in MiB; a number without a unit is MiB."""
    match = _AMOUNT.fullmatch(value)
    if match is None:
        return None
    return int(match[1]) * (1024 if (match[2] or "M").startswith("G") else 1)


def left_out(line: str) -> bool:
    """Whether the line replaces lines that were left out: `...`."""
    return line.strip(" \t|>#") in _GAPS


def prompt(line: str) -> bool:
    """Whether the line is a shell's prompt behind the text."""
    return line.endswith(("$", "#", "%", ">"))


def refusals(text: str, signs: Sequence[str]) -> tuple[str, ...]:
    """The tool's error messages, each line once; signs are in lower case."""
    small = text.lower()
    present = [sign for sign in signs if sign in small]
    if not present:
        return ()
    lines = (line.strip() for line in text.split("\n") if any(sign in line.lower() for sign in present))
    return tuple(dict.fromkeys(lines))


def free_numbers(lost: Iterable[str]) -> Iterator[int]:
    """Numbers for devices listed without one, in order, without those that the tool reports as lost."""
    gone = {int(match[1]) for line in lost if (match := _LOST.search(line))}
    return (number for number in count() if number not in gone)


def inventory(
    kind: str,
    facts: Sequence[DeviceFacts],
    problems: Sequence[str] = (),
    warnings: Sequence[str] = (),
    refused: Sequence[str] = (),
) -> Reading:
    """Reading of a list of devices; a message of the tool is an error if it is all there is, else a problem."""
    if refused and not facts:
        return Reading(kind, "error", problems=tuple(refused), warnings=tuple(warnings))
    faults = (*problems, *refused) if facts else (*problems, "no device is listed")
    return Reading(
        kind,
        "incomplete" if faults else "no matrix",
        devices=tuple(device.name for device in facts),
        facts=tuple(facts),
        problems=faults,
        warnings=tuple(warnings),
    )
