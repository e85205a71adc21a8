"""The best set of the best full partition of a machine's free devices.

Source: seed 000, "How to pick the best effort GPUs in one node". Choosing by the whole partition, not by the one set,
keeps what is left usable for equal asks. Equal to go-gpuallocator's best-effort policy for sorted input, without its
padded and aliased answers; an ask for one device takes the one whose loss costs the others least.

The best partition where it has one full set and hardly anything is left over: no table is needed.

A good partition, not proven the best: for machines with more free devices than an exact search can serve.
"""
# Joined from partition, one_set, greedy: one docstring for all.

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from linkwise.errors import AskError
from linkwise.model.topology import MAX_DEVICES
from linkwise.model.verdict import Reason
from linkwise.topology.device_sets import Question, mask_of, positions, question
from linkwise.topology.machine import LARGEST_EXACT, machine_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkwise.model.topology import Matrix
    from linkwise.topology.machine import Machine

__all__ = [
    "MOST_LEFT_OVER",
    "Objective",
    "Partition",
    "best_partition",
    "choose_partition",
    "greedy_partition",
    "one_full_set",
    "partition_of",
]

Objective = Literal["partition", "best-set"]
"""`partition` keeps the rest usable for equal asks; `best-set` takes the best set whatever it leaves."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The chosen devices, and the partition they were chosen from."""

    devices: tuple[int, ...]
    score: float
    """sum of the pair scores of the chosen devices"""
    total: float
    """sum over all sets of the partition, the left-over set included"""
    sets: tuple[tuple[int, ...], ...]
    proven: bool = True
    """whether no other partition can be better; too many devices for an exact search if not"""


def best_partition(
    scores: Sequence[Sequence[object]],
    size: int,
    available: Iterable[int] | None = None,
    required: Iterable[int] = (),
    *,
    objective: Objective = "partition",
) -> Partition | Reason:
    """Choose `size` devices by pair scores, or give the reason why none can be chosen.

    Args:
        scores: points of every pair, row and column i for device i; of two directions the fewer count.
        size: how many devices to choose.
        available: positions to choose from; all if not given.
        required: positions that must be among the chosen.
        objective: the best set of the best partition, or simply the best set.

    Raises:
        InputError: the matrix is not square or holds what is no number, or a position is no device.
    """
    machine = machine_of(scores)
    asked = question(len(machine.pairs), size, available, required)
    if isinstance(asked, Reason):
        return asked
    if objective not in get_args(Objective):
        raise AskError(f"objective is {objective!r}: {' or '.join(get_args(Objective))} is expected")
    key = (asked, objective)
    answer = cast("Partition | None", machine.remembered(key))
    if answer is None:
        answer = choose_partition(machine, asked, objective)
        machine.remember(key, answer)
    return answer


def partition_of(machine: Machine, asked: Question, sets: Sequence[int], *, proven: bool = True) -> Partition:
    """The answer that a partition gives: of its full sets with all required devices, the best."""
    members = tuple(map(positions, sets))
    scores = [_score(machine.pairs, devices) for devices in members]
    # rule 000.padding: the left-over set counts in the total and is never the answer.
    full = [i for i, found in enumerate(sets) if len(members[i]) == asked.size and not asked.required & ~found]
    chosen = max(full, key=scores.__getitem__)
    return Partition(members[chosen], scores[chosen], sum(scores), members, proven)


def choose_partition(machine: Machine, asked: Question, objective: Objective) -> Partition:
    """Work an answer out, whether it was asked for before or not."""
    if asked.size == 1:
        return _choose_one(machine, asked)
    if objective == "partition" and asked.free.bit_count() - asked.size <= MOST_LEFT_OVER < asked.size:
        return partition_of(machine, asked, one_full_set(machine.pairs, asked))
    if len(machine.pairs) > LARGEST_EXACT:
        return _choose_among_many(machine, asked, objective)
    table, home = machine.table(asked.size), asked.required
    if objective == "best-set":
        home = table.best_set(asked.free, asked.required)
    # rule 000.partition: of all partitions the one with the best total.
    sets = table.first_with(asked.free, home) if home else table.first(asked.free)
    return partition_of(machine, asked._replace(required=home), sets)


def _choose_one(machine: Machine, asked: Question) -> Partition:
    # rule 000.one: the device with the smallest sum of pair scores to the other free ones, then the lowest.
    free = positions(asked.free)
    loss = {device: sum([machine.pairs[device][other] for other in free if other != device]) for device in free}
    chosen = asked.required or 1 << min(free, key=loss.__getitem__)
    return partition_of(machine, asked._replace(required=chosen), [1 << device for device in free])


def _choose_among_many(machine: Machine, asked: Question, objective: Objective) -> Partition:
    """On a machine too large for tables: exact among few free devices, else one set after the other."""
    free = positions(asked.free)
    if len(free) > LARGEST_EXACT:
        sets = greedy_partition(machine.pairs, asked.size, free, positions(asked.required))
        return partition_of(machine, asked, list(map(mask_of, sets)), proven=False)
    small = machine_of([[machine.pairs[i][j] for j in free] for i in free])
    required = mask_of(map(free.index, positions(asked.required)))
    found = choose_partition(small, Question((1 << len(free)) - 1, required, asked.size), objective)
    home = mask_of(free[device] for device in found.devices)
    return partition_of(
        machine,
        asked._replace(required=home),
        [mask_of(free[device] for device in members) for members in found.sets],
    )


def _score(pairs: Matrix, devices: tuple[int, ...]) -> float:
    return sum([pairs[i][j] for i, j in combinations(devices, 2)])


MOST_LEFT_OVER: Final = 2


def one_full_set(pairs: Matrix, asked: Question) -> list[int]:
    """The first partition with the best total, into one full set and at most two devices left over.

    The total is that of all free pairs, less the pairs between the two sets: the fewest of those is best.
    """
    free = positions(asked.free)
    spare = positions(asked.free & ~asked.required)
    left_over = len(free) - asked.size
    if not left_over:
        return [asked.free]
    cut = {device: sum([pairs[device][other] for other in free if other != device]) for device in spare}
    lost: dict[tuple[int, ...], float]
    if left_over == 1:
        lost = {(device,): cut[device] for device in spare}
    else:
        lost = {(i, j): cut[i] + cut[j] - 2 * pairs[i][j] for i, j in combinations(spare, left_over)}
    least = min(lost.values())
    partitions = [_in_order(free, left) for left, loss in lost.items() if loss == least]
    return [mask_of(members) for members in min(partitions, key=lambda sets: _padded(sets[0], asked.size))]


def _in_order(free: tuple[int, ...], left: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The full set and the left-over set, the one with the lowest device first."""
    return sorted([tuple([device for device in free if device not in left]), left])


def _padded(members: tuple[int, ...], size: int) -> tuple[int, ...]:
    return members + (MAX_DEVICES,) * (size - len(members))


def greedy_partition(pairs: Matrix, size: int, free: Sequence[int], required: Sequence[int]) -> list[tuple[int, ...]]:
    """Sets of `size`, each grown from its best pair; the first holds the required devices, the last is left over."""
    left = list(free)
    sets = [_grow(pairs, size, left, list(required))]
    while left:
        sets.append(_grow(pairs, size, left, []))
    return sets


def _grow(pairs: Matrix, size: int, left: list[int], members: list[int]) -> tuple[int, ...]:
    """Take one set out of `left`: the best pair, then always the device that adds most; the lowest among equals."""
    if not members and len(left) > 1:
        members = list(max(combinations(left, 2), key=lambda pair: pairs[min(pair)][max(pair)]))
    for member in members:
        left.remove(member)
    while left and len(members) < size:
        best = max(left, key=lambda device: sum(pairs[device][member] for member in members))
        members.append(best)
        left.remove(best)
    return tuple(sorted(members))
