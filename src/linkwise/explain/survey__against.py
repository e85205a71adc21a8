"""What speaks against many nodes, gathered by reason, with the node that is nearest to serving the ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.catalog import refusal, short_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.model.verdict import Fact, Reason

__all__ = ["Against", "gathered", "nearness"]

_ABSENT: Final = ("002.inventory", "")
"""the reason of nodes that have no such devices"""


@dataclass(frozen=True, slots=True)
class Against:
    """One reason, on so many nodes."""

    rule: str
    kind: str
    short: str
    """equal on all of them"""
    nodes: int
    nearest: str
    """the node where least is missing; the first by name where that can't be told"""
    sentence: str
    """what was asked and found there"""
    final: bool
    """whether nothing that other pods do can change it"""


def gathered(refused: Mapping[str, tuple[Reason, bool]], exact: Callable[[str, Reason], Reason]) -> tuple[Against, ...]:
    """The reasons by node, each with whether it is final, put together; `exact` gives the numbers of one node.

    What may pass comes first, then what stops most nodes. Nodes that never had such devices are the last anybody asks
    about, however many they are.
    """
    groups: dict[tuple[str, bool], list[tuple[float, str, Reason]]] = {}
    for name, (reason, final) in refused.items():
        groups.setdefault((short_refusal(reason), final), []).append((-nearness(reason), name, reason))
    found = []
    for (short, final), members in groups.items():
        _, name, known = min(members, key=lambda member: member[:2])
        reason = exact(name, known)
        found.append(Against(reason.rule, reason.kind, short, len(members), name, refusal(reason), final))
    return tuple(
        sorted(found, key=lambda group: ((group.rule, group.kind) == _ABSENT, group.final, -group.nodes, group.short))
    )


def nearness(reason: Reason) -> float:
    """How little is missing, larger is nearer; comparable among reasons of one rule and kind only."""
    measure = _MEASURES.get((reason.rule, reason.kind))
    return measure(reason) if measure else 0.0


def _first(fact: Fact) -> float:
    return float(fact[0]) if isinstance(fact, tuple) and fact and isinstance(fact[0], int) else 0.0


def _largest(fact: Fact) -> float:
    """Of numbers, or of what devices have left."""
    if not isinstance(fact, tuple):
        return 0.0
    return float(max((entry[1] if isinstance(entry, tuple) else int(entry) for entry in fact), default=0))


def _left(reason: Reason) -> float:
    return _first(reason.found)


def _in_one_place(reason: Reason) -> float:
    return _largest(reason.found)


_MEASURES: Final[dict[tuple[str, str], Callable[[Reason], float]]] = {
    ("001.best-effort", ""): lambda reason: float(reason.found) if isinstance(reason.found, float) else 0.0,
    ("001.filters", "cpu"): _left,
    ("001.filters", "memory"): _left,
    ("001.filters", "ephemeral"): _left,
    ("002.whole", ""): _left,
    ("003.predicate", "one group"): _in_one_place,
    ("003.predicate", "whole groups"): _in_one_place,
    ("003.predicate", "even split"): _in_one_place,
    ("004.filter", ""): _in_one_place,
    ("004.filter", "core"): _in_one_place,
}
