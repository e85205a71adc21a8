from __future__ import annotations

import random
import tracemalloc

from linkwise import best_bottleneck, best_partition
from linkwise.speed.caches import BoundedCache, CachedMachine


def random_matrix(count: int, seed: int) -> list[list[int]]:
    chooser = random.Random(seed)
    rows = [[0] * count for _ in range(count)]
    for i in range(count):
        for j in range(i):
            rows[i][j] = rows[j][i] = chooser.choice((10, 20, 110, 210))
    return rows


def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    memory = BoundedCache(limit=3 * CachedMachine().cost)
    made = {name: memory.recall(CachedMachine, name, CachedMachine) for name in "abc"}
    memory.recall(CachedMachine, "a", CachedMachine)
    memory.recall(CachedMachine, "d", CachedMachine)
    assert memory.recall(CachedMachine, "a", CachedMachine) is made["a"]
    assert memory.recall(CachedMachine, "b", CachedMachine) is not made["b"]


def test_a_spender_is_never_thrown_out_for_its_own_sake() -> None:
    memory = BoundedCache(limit=2 * CachedMachine().cost)
    small, large = memory.recall(CachedMachine, 1, CachedMachine), memory.recall(CachedMachine, 2, CachedMachine)
    large.spend(10**9)
    assert memory.recall(CachedMachine, 2, CachedMachine) is large
    assert small.memory is None
    small.spend(10**9)
    assert memory.spent == large.cost


def test_answers_are_dropped_before_they_are_too_many() -> None:
    memory = BoundedCache()
    machine = memory.recall(CachedMachine, 1, CachedMachine)
    for question in range(20_000):
        machine.remember(question, "answer")
    assert machine.remembered(19_999) == "answer"
    assert machine.cost < 10_000_000
    assert memory.spent == machine.cost


def test_the_same_question_gives_the_remembered_answer() -> None:
    scores = random_matrix(8, 1)
    assert best_partition(scores, 3) is best_partition([list(row) for row in scores], 3)


def test_all_tables_of_a_process_stay_under_64_megabytes() -> None:
    tracemalloc.start()
    for seed in range(500):
        best_partition(random_matrix(12, seed), 12)
    for seed in range(100):
        best_bottleneck([[float(i * j + seed + i + j) for j in range(64)] for i in range(64)], 2, range(4))
    for seed in range(10):
        scores = random_matrix(16, seed)
        for size in (8, 10, 11, 12, 13):
            best_partition(scores, size)
        best_bottleneck(scores, 2)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 20_000_000 < used < 64_000_000  # much is kept, and not too much
