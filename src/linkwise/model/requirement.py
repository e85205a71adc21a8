"""Requirements: what a pod demands of devices beyond their number, as comparisons with facts of nodes and devices.

A fact has one name for all vendors. Some are of the machine (driver, cuda), others of each device (model, memory); a
machine's devices may differ in the latter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

__all__ = ["FACTS", "KINDS", "OPERATORS", "Clause", "Comparison", "FactKind", "FactName", "Operator", "Requirement"]

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
