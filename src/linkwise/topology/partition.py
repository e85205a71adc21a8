"""Choice by links: the best set of the best partition of a machine's free devices, and the runner-up.

Choosing by the partition instead of the single set keeps the rest usable for equal requests. Equal to go-gpuallocator's
best-effort policy for sorted input, without its padded and aliased answers; a request for one device gets the one whose
loss costs the others least. Up to LARGEST_EXACT devices the search is exact, by tables, or directly if at most two
devices are left over; larger machines get a greedy partition. Source: seed 000, "How to pick the best effort GPUs in one
node".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from linkwise.errors import AskError
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Reason
from linkwise.topology.bottleneck import Bottleneck, most_left, near_ties
from linkwise.topology.device_sets import Question, mask_of, positions, question, sets_with
from linkwise.topology.machine import LARGEST_EXACT, machine_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.topology import Matrix
    from linkwise.topology.fabric import Fabric
    from linkwise.topology.machine import Machine

__all__ = [
    "MOST_LEFT_OVER",
    "Objective",
    "Partition",
    "best_partition",
    "choose_partition",
    "greedy_partition",
    "next_bottleneck",
    "next_partition",
    "one_full_set",
    "partition_of",
    "partition_on",
]

Objective = Literal["partition", "best-set"]
"""`partition` keeps the rest usable for equal requests; `best-set` takes the best set regardless of the rest."""
MOST_LEFT_OVER: Final = 2
"""devices beside one full set; up to here the pairs that are cut decide, and no table is needed"""


@dataclass(frozen=True, slots=True)
class Partition:
    """The chosen devices, and the partition they were chosen from."""

    devices: tuple[int, ...]
    score: float
    """sum of the pair scores of the chosen devices"""
    total: float
    """sum over all sets of the partition, including the left-over set"""
    sets: tuple[tuple[int, ...], ...]
    proven: bool = True
    """whether the search was exact; false on machines with too many devices"""


def best_partition(
    scores: Sequence[Sequence[object]],
    size: int,
    available: Iterable[int] | None = None,
    required: Iterable[int] = (),
    *,
    objective: Objective = "partition",
) -> Partition | Reason:
    """Choose `size` devices by pair scores, or return the reason why that is impossible.

    Args:
        scores: score of every pair, row and column i for device i; the lower of two directions counts.
        size: the number of devices to choose.
        available: positions to choose from; all by default.
        required: positions that must be among the chosen.
        objective: the best set of the best partition, or the best set on its own.

    Raises:
        InputError: the matrix is not square or has an invalid value, or a position is not a device.
    """
    return partition_on(machine_of(scores), size, available, required, objective=objective)


def partition_on(
    machine: Machine,
    size: int,
    available: Iterable[int] | None = None,
    required: Iterable[int] = (),
    *,
    objective: Objective = "partition",
) -> Partition | Reason:
    """`best_partition` for a machine."""
    query = question(len(machine.pairs), size, available, required)
    if isinstance(query, Reason):
        return query
    if objective not in get_args(Objective):
        raise AskError(f"objective is {objective!r}: {' or '.join(get_args(Objective))} is expected")
    key = (query, objective)
    answer = cast("Partition | None", machine.remembered(key))
    if answer is None:
        answer = choose_partition(machine, query, objective)
        machine.remember(key, answer)
    return answer


def partition_of(machine: Machine, query: Question, sets: Sequence[int], *, proven: bool = True) -> Partition:
    """The answer of a partition: the best of its full sets that contain all required devices."""
    members = tuple(map(positions, sets))
    scores = [_score(machine.pairs, devices) for devices in members]
    # rule 000.padding: the left-over set counts in the total and is never the answer.
    full = [i for i, chosen in enumerate(sets) if len(members[i]) == query.size and not query.required & ~chosen]
    chosen = max(full, key=scores.__getitem__)
    return Partition(members[chosen], scores[chosen], sum(scores), members, proven)


def choose_partition(machine: Machine, query: Question, objective: Objective) -> Partition:
    """Compute an answer without the cache."""
    if query.size == 1:
        return _choose_one(machine, query)
    if objective == "partition" and query.free.bit_count() - query.size <= MOST_LEFT_OVER < query.size:
        return partition_of(machine, query, one_full_set(machine.pairs, query))
    if len(machine.pairs) > LARGEST_EXACT:
        return _choose_among_many(machine, query, objective)
    table, home = machine.table(query.size), query.required
    if objective == "best-set":
        home = table.best_set(query.free, query.required)
    # rule 000.partition: the partition with the best total.
    sets = table.first_with(query.free, home) if home else table.first(query.free)
    return partition_of(machine, query._replace(required=home), sets)


def one_full_set(pairs: Matrix, query: Question) -> list[int]:
    """The first partition with the best total, with one full set and at most two devices left over.

    The total is the sum of all free pairs less the pairs between the two sets, so the least sum between them is best.
    """
    free = positions(query.free)
    spare = positions(query.free & ~query.required)
    left_over = len(free) - query.size
    if not left_over:
        return [query.free]
    cut = {device: sum([pairs[device][other] for other in free if other != device]) for device in spare}
    lost: dict[tuple[int, ...], float]
    if left_over == 1:
        lost = {(device,): cut[device] for device in spare}
    else:
        lost = {(i, j): cut[i] + cut[j] - 2 * pairs[i][j] for i, j in combinations(spare, left_over)}
    least = min(lost.values())
    partitions = [_in_order(free, left) for left, loss in lost.items() if loss == least]
    return [mask_of(members) for members in min(partitions, key=lambda sets: _padded(sets[0], query.size))]


def greedy_partition(pairs: Matrix, size: int, free: Sequence[int], required: Sequence[int]) -> list[tuple[int, ...]]:
    """Sets of `size`, each grown from its best pair; the first has the required devices, the last is left over."""
    left = list(free)
    sets = [_grow(pairs, size, left, list(required))]
    while left:
        sets.append(_grow(pairs, size, left, []))
    return sets


def next_partition(machine: Machine, query: Question, chosen: Partition, objective: Objective) -> Partition | None:
    """The choice of several devices without the chosen set; None if there is no other, or on too large a machine."""
    others = _others(len(machine.pairs), query, mask_of(chosen.devices))
    if not others:
        return None
    table = machine.table(query.size)

    def worth(devices: int) -> tuple[float, ...]:
        score = table.scores[devices]
        return (score,) if objective == "best-set" else (score + table.total(query.free ^ devices), score)

    home = max(others, key=worth)
    return partition_of(machine, query._replace(required=home), table.first_with(query.free, home))


def next_bottleneck(fabric: Fabric, query: Question, chosen: Bottleneck) -> Bottleneck | None:
    """The choice by bandwidth without the chosen set: the next of the near ties, or the fastest of the others."""
    first = mask_of(chosen.devices)
    others = _others(len(fabric.values), query, first)
    if not others:
        return None
    ties = [devices for devices in near_ties(fabric, query) if devices != first]
    second = most_left(fabric, query, ties) if ties else max(others, key=fabric.bottleneck)
    return Bottleneck(positions(second), fabric.bottleneck(second), fabric.suspects)


def _score(pairs: Matrix, devices: tuple[int, ...]) -> float:
    return sum([pairs[i][j] for i, j in combinations(devices, 2)])


def _choose_one(machine: Machine, query: Question) -> Partition:
    # rule 000.one: the device with the smallest sum of pair scores to the other free ones, then the lowest.
    free = positions(query.free)
    loss = {device: sum([machine.pairs[device][other] for other in free if other != device]) for device in free}
    chosen = query.required or 1 << min(free, key=loss.__getitem__)
    return partition_of(machine, query._replace(required=chosen), [1 << device for device in free])


def _choose_among_many(machine: Machine, query: Question, objective: Objective) -> Partition:
    """Choice on a machine too large for tables: exact if few devices are free, otherwise greedy."""
    free = positions(query.free)
    if len(free) > LARGEST_EXACT:
        sets = greedy_partition(machine.pairs, query.size, free, positions(query.required))
        return partition_of(machine, query, list(map(mask_of, sets)), proven=False)
    small = machine_of([[machine.pairs[i][j] for j in free] for i in free])
    required = mask_of(map(free.index, positions(query.required)))
    best = choose_partition(small, Question((1 << len(free)) - 1, required, query.size), objective)
    home = mask_of(free[device] for device in best.devices)
    return partition_of(
        machine,
        query._replace(required=home),
        [mask_of(free[device] for device in members) for members in best.sets],
    )


def _in_order(free: tuple[int, ...], left: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The full set and the left-over set, the one with the lowest device first."""
    return sorted([tuple([device for device in free if device not in left]), left])


def _padded(members: tuple[int, ...], size: int) -> tuple[int, ...]:
    return members + (MAX_DEVICES,) * (size - len(members))


def _grow(pairs: Matrix, size: int, left: list[int], members: list[int]) -> tuple[int, ...]:
    """Remove one set from `left`: the best pair, then always the device that adds most, the lowest among equals."""
    if not members and len(left) > 1:
        members = list(max(combinations(left, 2), key=lambda pair: pairs[min(pair)][max(pair)]))
    for member in members:
        left.remove(member)
    while left and len(members) < size:
        best = max(left, key=lambda device: sum(pairs[device][member] for member in members))
        members.append(best)
        left.remove(best)
    return tuple(sorted(members))


def _others(count: int, query: Question, chosen: int) -> list[int]:
    if count > LARGEST_EXACT:
        return []
    return [devices for devices in sets_with(query.free, query.required, query.size) if devices != chosen]
