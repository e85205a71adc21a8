"""Compares two plans of a group and says in one sentence why the other one lost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING, Final

from linkwise.model.link_data import NO_LINK_DATA
from linkwise.topology.fabric import NEAR, SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkwise.engine.planning.planner import Level

__all__ = ["Compared", "best_of", "compared"]

SAME: Final = "tie broken by node name"
SPEEDS: Final = ("bottleneck", "per pod")


@dataclass(frozen=True, slots=True)
class Compared:
    """The first level in which two plans differ; empty if node names break the tie."""

    level: str
    sentence: str
    better: bool = False
    """whether the other plan is better there: the cluster changed, or the search was incomplete"""


def compared(chosen: Sequence[Level], other: Sequence[Level], network: Sequence[str] = ()) -> Compared:
    """Compare a chosen plan with another; `network` names the network levels, the broadest first."""
    values = {level.name: level.value for level in other}
    known = [level for level in chosen if level.name in values]
    for place, level in enumerate(known):
        here, there = level.value, values[level.name]
        step = _step(level.name, here, there)
        if not step:
            continue
        faster = [before for before in known[:place] if before.name in SPEEDS and before.value > values[before.name]]
        if step > 0 and faster and level.proven:
            # It is better here only because its slowest pair was allowed to be slower.
            return Compared(faster[0].name, _too_slow(faster))
        return Compared(level.name, _WORDS[level.name](here, there, network), better=step > 0)
    return Compared("", SAME)


def best_of(plans: Sequence[Sequence[Level]]) -> int:
    """Return the index of the best plan: level by level only the best stay, then the first wins."""
    left = list(range(len(plans)))
    for number, level in enumerate(plans[0]):
        values = {place: plans[place][number].value for place in left}
        best = left[0]
        for place in left[1:]:
            best = place if _order(level.name, values[place]) < _order(level.name, values[best]) else best
        left = [place for place in left if not _step(level.name, values[best], values[place])]
    return left[0]


def _order(name: str, value: tuple[float, ...]) -> tuple[float, ...]:
    """Return a sort key; smaller is better."""
    if name == "placed":
        return (-sum(value),)
    if name == "network" and all(count == 1 for count in value):
        return ()  # plans made before and after levels came or went are in one domain all the same
    return tuple(-part for part in value) if name in SPEEDS else value


def _step(name: str, here: tuple[float, ...], there: tuple[float, ...]) -> int:
    """Return whether the other is worse (-1), better (1) or equal (0)."""
    if name in SPEEDS:
        slower, faster = sorted((here[0], there[0]))
        if slower == faster or slower >= NEAR * faster:
            return 0
    one, other = _order(name, here), _order(name, there)
    return (one > other) - (one < other)


def _network(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
    pairs = list(zip_longest(here, there, fillvalue=1.0))
    place = next(number for number, (own, its) in enumerate(pairs) if own != its)
    own, its = pairs[place]
    level = f" of {network[place]}" if place < len(network) else ""
    return f"spans {its:g} domain{'' if its == 1 else 's'}{level} instead of {own:g}"


def _speed(whose: str, here: float, there: float) -> str:
    if not there:
        return NO_LINK_DATA
    if not isfinite(there):
        return "no pair of devices would be a bottleneck"
    return f"{whose} has {there:g} GB/s" + (
        f" instead of {here:g} GB/s" if isfinite(here) else "; the plan has no pairs"
    )


def _residual(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
    del network
    size, own, its = next((size, *pair) for size, *pair in zip(SIZES, here, there, strict=True) if pair[0] != pair[1])
    sets = abs(its - own)
    return (
        f"leaves {sets:g} {'fewer' if its > own else 'more'} good set{'' if sets == 1 else 's'} of {size} to other pods"
    )


def _too_slow(faster: Sequence[Level]) -> str:
    if len(faster) > 1:
        return "its slowest pair, or that of a member, is more than 5% slower than the best"
    whose = "its slowest pair" if faster[0].name == "bottleneck" else "the slowest pair of a member"
    return f"{whose} has less than {NEAR * faster[0].value[0]:g} GB/s, more than 5% below the best"


def _counted(verb: str, noun: str, after: str = "") -> Callable[..., str]:
    def sentence(here: tuple[float, ...], there: tuple[float, ...], network: Sequence[str]) -> str:
        del network
        count = sum(there)
        return f"{verb} {count:g} {noun}{'' if count == 1 else 's'}{after} instead of {sum(here):g}"

    return sentence


_WORDS: Final[dict[str, Callable[..., str]]] = {
    "placed": _counted("places", "member"),
    "nodes": _counted("uses", "node"),
    "network": _network,
    "bottleneck": lambda here, there, _: _speed("its slowest pair", here[0], there[0]),
    "per pod": lambda here, there, _: _speed("the slowest pair of a member", here[0], there[0]),
    "residual": _residual,
    "left-over": _counted("leaves", "device", " free on its nodes"),
}
