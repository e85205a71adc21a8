"""What the readers of inventory texts share: values that a cut can't have changed, and one way to a Reading."""

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
    "told",
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
    """The lines, each with whether it is ended; only the last may not be, and a cut may have shortened it."""
    lines = text.split("\n")
    for line in lines[:-1]:
        yield line, True
    if lines[-1]:
        yield lines[-1], False


def believed(value: str, *, ended: bool) -> str | None:
    """The value, or None where it stands at the end of a cut text and a longer one may have been meant."""
    return value if ended or _CLOSED.fullmatch(value) else None


def told(value: str) -> str:
    """The value, or an empty string for the words by which tools say that there is none."""
    return "" if value in _NOTHING or value.startswith("[") else value


def amount(value: str) -> int | None:
    """Memory in MiB; a number without a unit is MiB."""
    found = _AMOUNT.fullmatch(value)
    if found is None:
        return None
    return int(found[1]) * (1024 if (found[2] or "M").startswith("G") else 1)


def left_out(line: str) -> bool:
    """Whether the line stands for lines that a writer left out: `...`."""
    return line.strip(" \t|>#") in _GAPS


def prompt(line: str) -> bool:
    """Whether the line is a shell's prompt behind the text."""
    return line.endswith(("$", "#", "%", ">"))


def refusals(text: str, signs: Sequence[str]) -> tuple[str, ...]:
    """The lines, each once, in which the tool says why it can't answer; signs are in lower case."""
    small = text.lower()
    present = [sign for sign in signs if sign in small]
    if not present:
        return ()
    lines = (line.strip() for line in text.split("\n") if any(sign in line.lower() for sign in present))
    return tuple(dict.fromkeys(lines))


def free_numbers(lost: Iterable[str]) -> Iterator[int]:
    """Numbers for devices listed without one, in order, past those that the tool says it has lost."""
    gone = {int(found[1]) for line in lost if (found := _LOST.search(line))}
    return (number for number in count() if number not in gone)


def inventory(
    kind: str,
    facts: Sequence[DeviceFacts],
    problems: Sequence[str] = (),
    warnings: Sequence[str] = (),
    refused: Sequence[str] = (),
) -> Reading:
    """The reading of a list of devices; a refusal is an error where it stands alone, a problem beside devices."""
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
