"""Results are computed once per object."""

from __future__ import annotations

from linkwise.speed.caches import cached_by_identity


def test_an_object_is_worked_on_once_and_its_equal_for_itself() -> None:
    seen: list[list[int]] = []

    def total(numbers: list[int]) -> int:
        seen.append(numbers)
        return sum(numbers)

    quick, one, equal = cached_by_identity(total, 2), [1, 2], [1, 2]
    assert (quick(one), quick(equal), quick(one)) == (3, 3, 3)
    assert [found is one for found in seen] == [True, False]


def test_the_oldest_is_forgotten_and_worked_on_again() -> None:
    seen: list[str] = []
    quick = cached_by_identity(seen.append, 2)
    for word in ("a", "b", "c", "b", "a"):
        quick(word)
    assert seen == ["a", "b", "c", "a"]


def test_no_other_object_is_taken_for_one_that_is_gone() -> None:
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    quick = cached_by_identity(total, 4)
    assert [quick([number]) for number in range(100)] == list(range(100))
