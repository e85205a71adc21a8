"""Example manifests; the comment at the top of each describes it."""

from __future__ import annotations

from importlib.resources import files
from itertools import takewhile
from typing import Final

from linkwise.errors import InputError

__all__ = ["NAMES", "example", "examples"]

NAMES: Final = (
    "link-pair",
    "group",
    "whole-device",
    "ascend-pair",
    "volcano-job",
    "gpu-mem",
    "three-chips",
    "amd-four",
    "too-many",
)
"""in the order in which they are listed"""


def example(name: str) -> str:
    """Return the manifest of that name; InputError suggests a similar name if there is none."""
    if name not in NAMES:
        from difflib import get_close_matches  # noqa: PLC0415 - only needed for a typo

        near = get_close_matches(name, NAMES, n=1)
        raise InputError(
            f"unknown example {name!r}; " + (f"did you mean {near[0]}?" if near else f"examples: {', '.join(NAMES)}")
        )
    return files(__package__ or "").joinpath(f"{name}.yaml").read_text("utf-8")


def examples() -> dict[str, str]:
    """Return all names with their summary, the first sentence of the comment."""
    return {name: _summary(example(name)) for name in NAMES}


def _summary(text: str) -> str:
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    sentence = " ".join(line.removeprefix("#").strip() for line in comment)
    return sentence.partition(". ")[0].rstrip(".") + "."
