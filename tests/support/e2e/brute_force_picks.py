"""Expected choice of a node for a request, found by trying every set; independent of the code under test."""

from __future__ import annotations

import re
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

from support.properties.enumeration import enumerate_best_partition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from linkwise.vendors.machines import MachineProfile

__all__ = ["by_bottleneck", "by_links", "mended", "pair_scores"]

Set = tuple[int, ...]
Matrix = list[list[float]]

PCIE: Final = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50}
NEAR: Final = 0.95
RESIDUAL: Final = (16, 8, 4, 2)


def pair_scores(machine: MachineProfile) -> Matrix:
    """100 for every NVLink and 10 to 50 for the PCIe path; an unknown one counts as the longest."""
    return [[_pair_score(str(cell)) for cell in row] for row in machine.topology.links]


def by_links(machine: MachineProfile, size: int, free: Collection[int]) -> tuple[int, Set]:
    """What the set scores that a machine would give, and which one it is."""
    scores, left = pair_scores(machine), sorted(free)
    if size == 1:
        cost = {one: sum(scores[one][other] for other in left if other != one) for one in left}
        return 0, (min(left, key=lambda one: (cost[one], one)),)
    best = enumerate_best_partition(scores, size, left)
    if best is None:
        raise AssertionError(f"there are no {size} of {left}")
    return int(best.score), best.devices


def mended(machine: MachineProfile) -> Matrix:
    """Of both directions the slower, or the faster where the slower is not half of it."""
    rows, count = machine.topology.bandwidth, machine.devices
    found = [[0.0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        slow, fast = sorted((rows[i][j], rows[j][i]))
        found[i][j] = found[j][i] = slow if slow >= fast / 2 else fast
    return found


def by_bottleneck(machine: MachineProfile, size: int, free: Collection[int]) -> tuple[float, Set]:
    """The first set within 5 % of the largest bottleneck that leaves most good sets to others; its bottleneck."""
    values, left = mended(machine), sorted(free)
    worth = {chosen: _slowest(values, chosen) for chosen in combinations(left, size)}
    near = [chosen for chosen, value in worth.items() if value >= NEAR * max(worth.values())]
    best = max(near, key=lambda chosen: _residual(values, [one for one in left if one not in chosen]))
    return worth[best], best


def _pair_score(cell: str) -> int:
    nvlinks, path = re.search(r"NV(\d+)", cell), next((word for word in PCIE if word in cell), "")
    return 100 * int(nvlinks[1] if nvlinks else 0) + (PCIE[path] if path else 10 if nvlinks else 0)


def _slowest(values: Matrix, chosen: Sequence[int]) -> float:
    return min((values[i][j] for i, j in combinations(chosen, 2)), default=inf)


def _residual(values: Matrix, left: Sequence[int]) -> tuple[int, ...]:
    """How many good sets of 16, 8, 4 and 2 can be made side by side of what is left."""
    return tuple(_most(_good(values, size), left, size) for size in RESIDUAL)


def _good(values: Matrix, size: int) -> set[Set]:
    worth = {chosen: _slowest(values, chosen) for chosen in combinations(range(len(values)), size)}
    enough = NEAR * max(worth.values(), default=inf)
    return {chosen for chosen, value in worth.items() if value >= enough}


def _most(good: set[Set], left: Sequence[int], size: int) -> int:
    if len(left) < size:
        return 0
    with_first = [chosen for chosen in combinations(left, size) if chosen[0] == left[0] and chosen in good]
    beside = [1 + _most(good, [one for one in left if one not in chosen], size) for chosen in with_first]
    return max([*beside, _most(good, left[1:], size)])
