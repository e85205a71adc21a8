"""What users write behind the options of `linkwise pick`, read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.errors import InputError
from linkwise.topology.link_bandwidth import LinkGeneration

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["read_devices", "read_generation", "read_room"]

_SPAN: Final = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


def read_devices(text: str | None, names: Sequence[str], option: str) -> list[int] | None:
    """Devices as a list of positions, spans of positions, or ids: `0,4-7,GPU-aaaa`."""
    if text is None:
        return None
    by_id = {device: position for position, device in enumerate(names)}
    found: list[int] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word in by_id:
            found.append(by_id[word])
        elif span := _SPAN.fullmatch(word):
            first, last = int(span[1]), int(span[2] or span[1])
            if last < first:
                raise InputError(f"{option}: {word!r} runs backwards; write {last}-{first}")
            found += range(first, last + 1)
        else:
            ids = f" or ids: {', '.join(names)}" if names else ""
            raise InputError(f"{option}: {word!r} is no device of this machine; write positions (0,1 or 0-3){ids}")
    return found


def read_room(text: str) -> dict[int, int]:
    """What is left of each device: `0=12207,1=8138`."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part.strip()]
        room = {int(device): int(left) for device, left in pairs}
    except ValueError as error:
        raise InputError(f"--room {text!r}: write it as 0=12207,1=8138") from error
    if len(room) < len(pairs):
        raise InputError(f"--room {text!r} names a device twice")
    return room


def read_generation(text: str | None) -> LinkGeneration | None:
    """Generations of links: `nvlink=4,pcie=5`."""
    if text is None:
        return None
    words = dict(re.findall(r"(nvlink|pcie)=(\d+)(?:,|$)", text))
    if ",".join(f"{key}={value}" for key, value in words.items()) != text:
        raise InputError(f"--generation {text!r}: write it as nvlink=4,pcie=5")
    return LinkGeneration(**{key: int(value) for key, value in words.items()})
