"""Readers of NVIDIA device lists: `nvidia-smi -L` with MIG parts, `nvidia-smi nvlink -s`, and the tool's errors."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.vendors.inventory_text import inventory, left_out, refusals, whole_lines
from linkwise.vendors.nvidia import query
from linkwise.vendors.nvidia.query import REFUSALS
from linkwise.vendors.reader import DeviceFacts, Reader, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["READERS", "NvLinks", "nvlinks"]

_HEAD: Final = re.compile(r"[ \t>#|]*GPU ([0-9]{1,4}):(.*)")
_LISTED: Final = re.compile(r"^[ \t>#|]*GPU [0-9]{1,4}: [^\n]*\(UUID: ", re.MULTILINE)
_PART: Final = re.compile(r"[ \t>#|]*MIG (\S+)[ \t]+Device[ \t]+([0-9]{1,4}): \(UUID: ([^()\s]+)\)")
_LINK: Final = re.compile(
    r"^[ \t>#|]*Link ([0-9]{1,3}): (?:([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s|<inactive>)", re.MULTILINE
)
_CUT_LIST: Final = re.compile(r"[ \t>#|]*(?:GPU?$|GPU [0-9]*$|MIG)")
_CUT_LINK: Final = re.compile(r"[ \t>#|]*(?:GPU?$|GPU [0-9]*$|Link)")
# Messages instead of links, by driver, in lower case.
_ANSWERS: Final = {
    "information as all links are inactive": "all NVLinks are inactive",
    "supported for devices in mig mode": "NVLinks are not listed in MIG mode",
    "does not have or support nvlink": "there is no NVLink",
}


@dataclass(frozen=True, slots=True)
class NvLinks:
    """NVLinks of one device, as `nvlink -s` lists them."""

    device: str
    rates: tuple[float | None, ...]
    """GB/s of each link listed, by its number; None: inactive"""
    answer: str = ""
    """the message printed instead of a list"""

    @property
    def active(self) -> int:
        """Number of listed links that are active."""
        return sum(rate is not None for rate in self.rates)

    def __str__(self) -> str:
        rates = sorted({rate for rate in self.rates if rate is not None})
        speed = f", {' or '.join(f'{rate:g}' for rate in rates)} GB/s each" if rates else ""
        return f"{self.device}: {self.answer or f'{self.active} of {len(self.rates)} NVLinks are active{speed}'}"


@dataclass(slots=True)
class _Listed:
    name: str
    model: str
    uuid: str
    rest: str
    parts: dict[int, tuple[str, str]] = field(default_factory=dict)
    links: dict[int, float | None] = field(default_factory=dict)
    answer: str = ""


def nvlinks(text: str) -> tuple[NvLinks, ...]:
    """The NVLinks of each device, in the order listed, of a (cleaned) `nvlink -s` text."""
    return tuple(_links(device) for device in _linked(text)[0])


def _read_list(text: str) -> Reading:
    listed, problems, warnings = _walk(text, _CUT_LIST)
    problems += [f"{device.name}: the UUID is cut off" for device in listed if not device.uuid]
    warnings += [
        f"{device.name} is divided into {', '.join(profile for profile, _ in device.parts.values())}"
        for device in listed
        if device.parts
    ]
    return inventory("nvidia-smi -L", _facts(listed), problems, warnings, refusals(text, REFUSALS))


def _read_nvlinks(text: str) -> Reading:
    kind = "nvidia-smi nvlink -s"
    if not text.strip():
        # Driver 580 prints nothing at all for devices without NVLink.
        return Reading(kind, "no matrix", warnings=("nothing is printed: there may be no NVLink",))
    listed, problems, warnings = _linked(text)
    links = [str(_links(device)) for device in listed if device.links or device.answer]
    return inventory(
        kind, _facts(listed), problems, [*warnings, *links], refusals(text, (*REFUSALS, *_unnamed(listed)))
    )


def _read_refusal(text: str) -> Reading:
    return inventory("nvidia-smi", (), refused=refusals(text, REFUSALS))


def _walk(text: str, cut: re.Pattern[str]) -> tuple[list[_Listed], list[str], list[str]]:
    listed: dict[str, _Listed] = {}
    problems: list[str] = []
    warnings: list[str] = []
    current: _Listed | None = None
    for line, ended in whole_lines(text):
        if device := _head(line, ended=ended):
            current = listed.setdefault(device.name, device)
            if current.uuid != device.uuid:
                warnings.append(f"{device.name} is listed twice with different UUIDs; the first is used")
                current = None
            line = device.rest  # noqa: PLW2901 - some drivers answer on the line of the device
        if current and not _add(current, line) and (left_out(line) or (not ended and cut.match(line))):
            problems.append(f"{current.name}: lines are missing after it, at {line.strip()!r}")
    return list(listed.values()), problems, warnings


def _head(line: str, *, ended: bool) -> _Listed | None:
    found = _HEAD.match(line)
    if found is None:
        return None
    model, opened, tail = found[2].partition("(UUID: ")
    uuid, closed, rest = tail.partition(")")
    model = model.strip() if opened or ended else ""
    return _Listed(f"GPU{int(found[1])}", model, uuid if closed else "", rest)


def _add(device: _Listed, line: str) -> bool:
    """Add a line to its device; False if it has nothing about it."""
    if part := _PART.match(line):
        device.parts.setdefault(int(part[2]), (part[1], part[3]))
    elif link := _LINK.match(line):
        device.links.setdefault(int(link[1]), float(link[2]) if link[2] else None)
    elif answers := [answer for sign, answer in _ANSWERS.items() if sign in line.lower()]:
        device.answer = answers[0]
    else:
        return False
    return True


def _linked(text: str) -> tuple[list[_Listed], list[str], list[str]]:
    listed, problems, warnings = _walk(text, _CUT_LINK)
    most: dict[str, int] = defaultdict(int)
    for device in listed:
        most[device.model] = max(most[device.model], len(device.links))
    for device in listed:
        if not device.links and not device.answer:
            problems.append(f"{device.name}: its NVLinks are not listed")
        elif device.links and len(device.links) < most[device.model]:
            problems.append(f"{device.name}: {len(device.links)} NVLinks are listed, {most[device.model]} elsewhere")
    return listed, problems, warnings


def _links(device: _Listed) -> NvLinks:
    rates = tuple(rate for _, rate in sorted(device.links.items()))
    return NvLinks(device.name, rates, "" if rates else device.answer)


def _facts(listed: Iterable[_Listed]) -> list[DeviceFacts]:
    return [
        DeviceFacts(
            device.name,
            uuid=device.uuid,
            model=device.model,
            parts=tuple(uuid for _, uuid in device.parts.values()),
        )
        for device in listed
    ]


def _unnamed(listed: list[_Listed]) -> tuple[str, ...]:
    """Answers count as a refusal where no device is named beside them."""
    return () if listed else tuple(_ANSWERS)


def _is_nvlinks(text: str) -> bool:
    return _LINK.search(text) is not None or bool(refusals(text, tuple(_ANSWERS)))


READERS: Final = (
    Reader("nvidia-smi nvlink -s", _is_nvlinks, _read_nvlinks, "devices", yields="list of GPUs"),
    *query.READERS,
    Reader(
        "nvidia-smi -L", lambda text: _LISTED.search(text) is not None, _read_list, "devices", yields="list of GPUs"
    ),
    Reader("nvidia-smi", lambda text: bool(refusals(text, REFUSALS)), _read_refusal, "devices", yields="list of GPUs"),
)
"""The most detailed first: a text with links also names devices, and an error stands alone."""
