"""Versions and sizes as texts, and the keys that order them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["SIZE", "VERSION", "bytes_of", "version_key"]

VERSION: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}(?:[.-]?rc\.?[0-9]{0,4})?", re.IGNORECASE)
"""a version as requirements may name it: 12.2, 535.104.05, 8.0.RC1"""
SIZE: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([KMGTPE]i|[kMGTPE]|)")
"""an amount of memory, as in Kubernetes: 40Gi, 80G, 1024Mi, 1.5Ti"""

_READ: Final = re.compile(
    r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:[.\-+_ ~]?(rc|alpha|beta|dev|a|b)(?![a-z])[.-]?([0-9]{0,9}))?", re.IGNORECASE
)
_FACTORS: Final[dict[str, int]] = {
    "": 1,
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
}


@lru_cache(maxsize=4096)
def version_key(text: str) -> tuple[tuple[int, ...], bool, int] | None:
    """The order of a version: missing components are zero, and release candidates come before the release.

    What follows the numbers, such as the name of a build, does not count. None if the text does not begin with a number.
    """
    match = _READ.match(text.strip())
    if match is None:
        return None
    numbers = [int(number) for number in match[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), match[2] is None, int(match[3] or 0)


@lru_cache(maxsize=4096)
def bytes_of(text: str) -> int | None:
    """The bytes of an amount of memory; None if the text is not one."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        return None
    unit, fraction = match[3], match[2] or ""
    scale: int = 10 ** len(fraction)
    return int(match[1] + fraction) * _FACTORS[unit] // scale
