"""Option types for machines: profiles, and the values that `linkwise pick` takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from linkwise.errors import InputError
from linkwise.policies.ring_profiles import RING_PROFILES
from linkwise.topology.link_values import LinkGeneration
from linkwise.vendors.machines import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProfileName", "read_devices", "read_free_memory", "read_generation"]

_SPAN: Final = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")


class ProfileName(click.Choice[str]):
    """Profile name; the error for an unknown one suggests a similar name and lists all."""

    def __init__(self, names: Sequence[str] = (*PROFILES, *RING_PROFILES)) -> None:
        super().__init__(list(names))

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401 - click's own signature
        """Return the error message for an unknown profile."""
        del ctx
        known = f"Profiles: {', '.join(self.choices)}."
        if value in RING_PROFILES:
            return (
                f"{value!r} is a hardware profile without a link matrix; it can be used with `linkwise pick`. {known}"
            )
        near = self._near(str(value).casefold())
        return f"{value!r} is not a known profile{f'; did you mean {near}?' if near else '.'} {known}"

    def _near(self, word: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

        completions = [name for name in self.choices if word and name.startswith(word)]
        return next(iter(completions or get_close_matches(word, self.choices, n=1)), "")


def read_devices(text: str | None, names: Sequence[str], option: str) -> list[int] | None:
    """Parse a list of positions, ranges of positions or IDs: `0,4-7,GPU-aaaa`."""
    if text is None:
        return None
    by_id = {device: position for position, device in enumerate(names)}
    devices: list[int] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word in by_id:
            devices.append(by_id[word])
        elif span := _SPAN.fullmatch(word):
            first, last = int(span[1]), int(span[2] or span[1])
            if last < first:
                raise InputError(f"{option}: {word!r} is reversed; write {last}-{first}")
            devices += range(first, last + 1)
        else:
            ids = f" or IDs: {', '.join(names)}" if names else ""
            raise InputError(f"{option}: {word!r} is not a device of this machine; use positions (0,1 or 0-3){ids}")
    return devices


def read_free_memory(text: str) -> dict[int, int]:
    """Parse the free memory of each device: `0=12207,1=8138`."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part.strip()]
        free = {int(device): int(left) for device, left in pairs}
    except ValueError as error:
        raise InputError(f"--room {text!r}: expected a list such as 0=12207,1=8138") from error
    if len(free) < len(pairs):
        raise InputError(f"--room {text!r} names a device twice")
    return free


def read_generation(text: str | None) -> LinkGeneration | None:
    """Parse link generations: `nvlink=4,pcie=5`."""
    if text is None:
        return None
    generations = dict(re.findall(r"(nvlink|pcie)=(\d+)(?:,|$)", text))
    if ",".join(f"{key}={value}" for key, value in generations.items()) != text:
        raise InputError(f"--generation {text!r}: expected nvlink=4,pcie=5")
    return LinkGeneration(**{key: int(value) for key, value in generations.items()})
