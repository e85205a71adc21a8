"""Requirements: what a pod demands of devices beyond their number, as comparisons with facts, versions and sizes.

A fact has one name for all vendors. Some are of the machine (driver, cuda), others of each device (model, memory); a
machine's devices may differ in the latter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, get_args

__all__ = [
    "FACTS",
    "KINDS",
    "OPERATORS",
    "SIZE",
    "VERSION",
    "Clause",
    "Comparison",
    "FactKind",
    "FactName",
    "Operator",
    "Requirement",
    "bytes_of",
    "version_key",
]

FactName = Literal["vendor", "brand", "model", "memory", "compute", "driver", "firmware", "cuda", "rocm", "cann"]
FactKind = Literal["text", "version", "bytes"]
Operator = Literal["=", "!=", ">=", "<=", ">", "<"]

FACTS: Final[tuple[FactName, ...]] = get_args(FactName)
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

KINDS: Final[dict[FactName, FactKind]] = {
    "vendor": "text",
    "brand": "text",
    "model": "text",
    "memory": "bytes",
    "compute": "version",
    "driver": "version",
    "firmware": "version",
    "cuda": "version",
    "rocm": "version",
    "cann": "version",
}
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """A fact compared with values: it must equal one of them, none of them, or be above or below the only one."""

    fact: FactName
    operator: Operator
    values: tuple[str, ...]
    """as the pod has them; several only for `=` (in) and `!=` (not in)"""

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.fact}{self.operator}{self.values[0]}"
        return f"{self.fact} {'in' if self.operator == '=' else 'not in'} ({', '.join(self.values)})"


@dataclass(frozen=True, slots=True)
class Clause:
    """Alternatives of which one must hold, each a list of comparisons that must all hold."""

    source: str
    """the annotation or variable that it was read from, or a policy of the administrator"""
    alternatives: tuple[tuple[Comparison, ...], ...]
    who: str = field(default="", compare=False)
    """if it is not the pod's own: to whom the AcceleratorPolicy applies that demands it, whose name is the source"""

    def __str__(self) -> str:
        return " or ".join(", ".join(map(str, every)) for every in self.alternatives)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Clauses that must all hold for every device that a pod gets."""

    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return "; ".join(f"{source}: {text}" for source, text in self.by_source().items())

    def by_source(self) -> dict[str, str]:
        """The text of the clauses of each annotation or variable."""
        texts: dict[str, str] = {}
        for clause in self.clauses:
            before = texts.get(clause.source)
            texts[clause.source] = f"{before}, {clause}" if before else str(clause)
        return texts


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
