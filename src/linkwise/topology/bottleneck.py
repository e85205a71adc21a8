"""Choice by bandwidth: the set with the largest bottleneck, leaving good sets to other pods.

Samples are noisy, so sets within 5% of the best count as equal, and the one that leaves the most good sets is taken:
{0,6} of the seed's matrix is 0.15 GB/s faster than {0,3}, but would halve the bandwidth of the next four devices.
Source: seed 001, "Pick GPUs of Node".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, cast

from linkwise.model.verdict import Reason
from linkwise.topology.device_sets import Question, mask_of, positions, question, sets_with
from linkwise.topology.fabric import NEAR, SIZES, Fabric, fabric_of
from linkwise.topology.machine import LARGEST_EXACT
from linkwise.topology.numa import NO_LOCALITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.link import Link
    from linkwise.topology.numa import Locality

__all__ = ["Bottleneck", "best_bottleneck", "most_left", "near_ties"]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The chosen devices and their slowest pair."""

    devices: tuple[int, ...]
    value: float  # GB/s; infinite for one device
    suspects: tuple[tuple[int, int], ...] = ()
    """pairs of the machine whose two directions differ too much to be plausible"""
    proven: bool = True
    """whether the search was exact; false on machines with too many devices"""


def best_bottleneck(  # noqa: PLR0913 - the question that a machine is asked
    bandwidth: Sequence[Sequence[object]],
    size: int,
    available: Iterable[int] | None = None,
    required: Iterable[int] = (),
    *,
    links: Sequence[Sequence[Link]] = (),
    near: Locality = NO_LOCALITY,
) -> Bottleneck | Reason:
    """Choose `size` devices by bandwidth, or return the reason why that is impossible.

    Args:
        bandwidth: GB/s from row to column, as measured; may be empty if link kinds are given.
        size: the number of devices to choose.
        available: positions to choose from; all by default.
        required: positions that must be among the chosen.
        links: link kinds of the same machine; they replace implausible samples.
        near: decides between sets that leave the same to other pods.

    Raises:
        InputError: the matrix is not square or has an invalid value, or a position is not a device.
    """
    fabric = fabric_of(bandwidth, links)
    query = question(len(fabric.values), size, available, required)
    if isinstance(query, Reason):
        return query
    key = (query, near) if near else query
    answer = cast("Bottleneck | None", fabric.remembered(key))
    if answer is None:
        answer = _choose(fabric, query, near)
        fabric.remember(key, answer)
    return answer


def near_ties(fabric: Fabric, query: Question) -> list[int]:
    """All sets within 5% of the largest bottleneck, by sorted positions."""
    # rule 001.near-ties: sets within 5% are equal; what they leave decides.
    table, sets = fabric.bottlenecks(), list(sets_with(query.free, query.required, query.size))
    values = [table[chosen] for chosen in sets]
    enough = NEAR * max(values)
    return [chosen for chosen, value in zip(sets, values, strict=True) if value >= enough]


def most_left(fabric: Fabric, query: Question, sets: list[int], near: Locality = NO_LOCALITY) -> int:
    """The set that leaves the most good sets to other pods, compared by the largest sets first.

    Of several the one on the fewest NUMA nodes, then the one with the most NICs, then the first.
    """
    for size in SIZES:
        if len(sets) == 1:
            break
        left = [fabric.good_sets(query.free ^ chosen, size) for chosen in sets]
        most = max(left)
        sets = [chosen for chosen, count in zip(sets, left, strict=True) if count == most]
    # rule 002.affinity: NUMA nodes and NICs decide only between sets that are equal by their links.
    return min(sets, key=near.cost) if near else sets[0]


def _choose(fabric: Fabric, query: Question, near: Locality = NO_LOCALITY) -> Bottleneck:
    if len(fabric.values) > LARGEST_EXACT:
        return _answer(fabric, _choose_among_many(fabric, query), proven=False)
    # rule 001.single: the largest bottleneck of the free devices; of near ties the set that leaves most to others.
    return _answer(fabric, most_left(fabric, query, near_ties(fabric, query), near))


def _answer(fabric: Fabric, chosen: int, *, proven: bool = True) -> Bottleneck:
    return Bottleneck(positions(chosen), fabric.bottleneck(chosen), fabric.suspects, proven)


def _choose_among_many(fabric: Fabric, query: Question) -> int:
    """Choice on a machine too large for tables: exact if few devices are free, otherwise grown from the best pair."""
    free = positions(query.free)
    if len(free) <= LARGEST_EXACT:
        small = fabric_of([[fabric.values[i][j] for j in free] for i in free])
        required = mask_of(map(free.index, positions(query.required)))
        best = _choose(small, Question((1 << len(free)) - 1, required, query.size))
        return mask_of(free[device] for device in best.devices)
    chosen = query.required
    while chosen.bit_count() < query.size:
        spare = positions(query.free & ~chosen)
        pairs = not chosen and query.size > 1
        additions = [mask_of(pair) for pair in combinations(spare, 2)] if pairs else [1 << i for i in spare]
        chosen = max((chosen | added for added in additions), key=fabric.bottleneck)
    return chosen
