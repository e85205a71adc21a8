"""Speed of choosing devices by link kinds, beside a plain enumeration of all partitions, in one run.

Cold means: a machine never seen before, its matrix checked, no table made. Remembered: the same question again.
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from linkwise.cli.pick.batch import answer_lines
from linkwise.topology.device_sets import Question
from linkwise.topology.machine import Machine
from linkwise.topology.partition import best_partition, choose_partition
from support.properties.enumeration import enumerate_best_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.model.topology import Matrix

# (devices, size) -> how many times faster than the enumeration at least
RATIO_BARS = {
    **{(8, size): 1 / 1.2 for size in (1, 4, 5, 6, 7, 8)},
    (8, 2): 3,
    (8, 3): 3,
    (12, 2): 30,
    (12, 3): 15,
    (12, 4): 4,
    (12, 5): 4,
}
# size -> seconds at most on sixteen devices, cold
COLD_BARS = {size: 0.1 if size in {2, 3, 4, 8} else 0.5 for size in range(1, 17)}
MASKS, MASKS_BAR = 500, 2.0
REMEMBERED_BAR = 6
LINES, LINES_BAR = 20_000, 10.0


class Row(NamedTuple):
    """One line of the table."""

    case: str
    plain: str
    ours: str
    bar: str
    passed: bool


def main() -> None:
    """Measure, print, and exit with 1 if a bar is missed."""
    console = Console(highlight=False, width=110)
    rows = [
        *ratios(),
        *cold_sixteen(),
        many_masks(),
        remembered(),
        batch("link-affinity", "scores"),
        batch("bandwidth", "bandwidth"),
    ]
    table = Table("case", "plain enumeration", "Linkwise", "ratio or bar", "passed", title="Choosing by link kinds")
    for row in rows:
        table.add_row(row.case, row.plain, row.ours, row.bar, "yes" if row.passed else "NO")
    console.print(table)
    missed = [row.case for row in rows if not row.passed]
    if missed:
        console.print(f"missed: {', '.join(missed)}")
        sys.exit(1)


def ratios() -> Iterator[Row]:
    """Eight and twelve devices beside the enumeration."""
    for (count, size), bar in sorted(RATIO_BARS.items()):
        matrix = random_machine(count, seed=count * 100 + size)
        ours, plain = interleaved(
            partial(cold, matrix, size),
            partial(enumerate_best_partition, matrix, size, range(count)),
            rounds=9 if count == 8 else 3,
            number=20 if count == 8 else 1,
        )
        ratio = plain / ours
        case = f"{count} devices, size {size}, cold"
        yield Row(case, shown(plain), shown(ours), f"{ratio:.1f}x (bar {bar:.3g}x)", ratio >= bar)


def cold_sixteen() -> Iterator[Row]:
    """Sixteen devices, every size, on an unknown machine."""
    for size, bar in COLD_BARS.items():
        matrix = random_machine(16, seed=1600 + size)
        seconds = min(timed(partial(cold, matrix, size)) for _ in range(3))
        yield Row(f"16 devices, size {size}, cold", "", shown(seconds), f"under {bar} s", seconds < bar)


def many_masks() -> Row:
    """Many free masks of one machine share one table."""
    matrix = random_machine(16, seed=7)
    chooser = random.Random(7)
    frees = [sorted(chooser.sample(range(16), chooser.randint(4, 16))) for _ in range(MASKS)]
    seconds = timed(lambda: [best_partition(matrix, 4, free) for free in frees])
    return Row(f"{MASKS} free masks of 16, size 4", "", shown(seconds), f"under {MASKS_BAR} s", seconds < MASKS_BAR)


def remembered() -> Row:
    """A repeated question beside the lookup that answers it: hashing the matrix and one dictionary access."""
    matrix = random_machine(8, seed=8)
    best_partition(matrix, 4)
    known = {matrix: 0}
    ours, look_up = interleaved(
        lambda: best_partition(matrix, 4), lambda: known[tuple(map(tuple, matrix))], rounds=9, number=500
    )
    ratio = ours / look_up
    bar = f"{ratio:.1f}x a look-up by matrix (bar {REMEMBERED_BAR}x)"
    return Row("8 devices, remembered", shown(look_up), shown(ours), bar, ratio < REMEMBERED_BAR)


def batch(policy: str, matrix: str) -> Row:
    """Lines of a batch, each about another machine, read and answered."""
    lines = [
        json.dumps({"policy": policy, matrix: random_machine(8, seed), "size": 2 + seed % 4}).encode()
        for seed in range(LINES)
    ]
    seconds = timed(lambda: answer_lines(lines, io.BytesIO()))
    return Row(
        f"{LINES:,} lines by {policy}, all machines new",
        "",
        shown(seconds),
        f"under {LINES_BAR} s",
        seconds < LINES_BAR,
    )


def cold(matrix: Matrix, size: int) -> None:
    """Choose on a machine with empty caches."""
    choose_partition(Machine(matrix), Question((1 << len(matrix)) - 1, 0, size), "partition")


def random_machine(count: int, seed: int) -> Matrix:
    """Pair scores without structure: the hardest kind for a search."""
    chooser = random.Random(seed)
    kinds = [10, 20, 30, 40, 50, 110, 130, 150, 210, 230, 250]
    rows = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            rows[i][j] = rows[j][i] = chooser.choice(kinds)
    return tuple(map(tuple, rows))


def interleaved(
    first: Callable[[], object], second: Callable[[], object], *, rounds: int, number: int
) -> tuple[float, float]:
    """The best time of each, measured in turns so that a slow moment of the machine affects both."""
    times = [(timed(first, number), timed(second, number)) for _ in range(rounds)]
    return min(pair[0] for pair in times), min(pair[1] for pair in times)


def timed(action: Callable[[], object], number: int = 1) -> float:
    """Seconds of one call, the mean of `number`."""
    start = time.perf_counter()
    for _ in range(number):
        action()
    return (time.perf_counter() - start) / number


def shown(seconds: float) -> str:
    """Seconds with a fitting unit."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


if __name__ == "__main__":
    main()
