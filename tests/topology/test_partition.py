from __future__ import annotations

import pytest

from linkwise import AskError, Partition, Reason, TopologyError, best_partition, score_matrix
from linkwise.testing.machines import BRIDGED, DGX1, pairs_machine
from support.builders.seed_machines import MATRIX_000, STORY_000
from support.properties.enumeration import all_partitions, enumerate_best_partition


def chosen(scores: object, size: int, free: object = None, required: object = ()) -> Partition:
    found = best_partition(scores, size, free, required)  # type: ignore[arg-type]  # lists and tuples alike
    assert isinstance(found, Partition)
    return found


@pytest.mark.rule("000.partition")
def test_both_machines_of_seed_000_give_a_pair_with_two_nvlinks() -> None:
    for machine, pair in ((MATRIX_000, (0, 3)), (STORY_000, (0, 1))):
        found = chosen(score_matrix(machine), 2)
        assert (found.devices, found.score, found.total) == (pair, 210, 840)
        assert machine.links[pair[0]][pair[1]].direct == 2


@pytest.mark.rule("000.partition")
def test_all_four_partitions_of_four_into_three_count() -> None:
    assert list(all_partitions(range(4), 3)) == [
        ((0, 1, 2), (3,)),
        ((0, 1, 3), (2,)),
        ((0, 2, 3), (1,)),
        ((0,), (1, 2, 3)),
    ]
    only_023 = [[0, 0, 9, 9], [0, 0, 0, 0], [9, 0, 0, 9], [9, 0, 9, 0]]
    assert chosen(only_023, 3).devices == (0, 2, 3)


@pytest.mark.rule("000.ties")
def test_equal_totals_go_to_the_first_by_sorted_positions() -> None:
    found = chosen(score_matrix(DGX1), 2)
    assert (found.devices, found.score, found.total) == ((0, 3), 230, 920)
    assert found.sets == ((0, 3), (1, 2), (4, 7), (5, 6))


@pytest.mark.rule("000.ties")
def test_the_order_of_the_question_does_not_matter() -> None:
    scores = score_matrix(DGX1)
    assert chosen(scores, 3, [7, 2, 5, 0, 1]) == chosen(scores, 3, [0, 1, 2, 5, 7])


@pytest.mark.rule("000.partition")
def test_the_best_partition_may_not_hold_the_best_set() -> None:
    scores = [[0, 5, 4, 0], [5, 0, 0, 4], [4, 0, 0, 0], [0, 4, 0, 0]]
    assert chosen(scores, 2).devices == (0, 2)
    best = best_partition(scores, 2, objective="best-set")
    assert isinstance(best, Partition)
    assert (best.devices, best.total) == ((0, 1), 5)


@pytest.mark.rule("000.padding")
def test_a_left_over_set_is_never_the_answer() -> None:
    found = chosen(score_matrix(BRIDGED), 3, [1, 2, 4, 6, 7])
    assert (found.devices, found.total) == ((4, 6, 7), 1300)
    assert found.sets == ((1, 2), (4, 6, 7))


@pytest.mark.rule("000.padding")
def test_the_left_over_set_counts_in_the_total() -> None:
    scores = [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    found = chosen(scores, 2, [0, 1, 2])
    assert (found.score, found.total, len(found.sets)) == (1, 1, 2)


@pytest.mark.rule("000.required")
@pytest.mark.parametrize("required", [(15,), (14, 15)])
def test_required_devices_of_sixteen_in_pairs_get_their_partner(required: tuple[int, ...]) -> None:
    found = chosen(pairs_machine(16, 410), 2, None, required)
    assert (found.devices, found.total) == ((14, 15), 8 * 410)


@pytest.mark.rule("000.required")
def test_required_devices_that_are_not_available_are_a_refusal() -> None:
    assert best_partition(score_matrix(DGX1), 2, [0, 1], [2]) == Reason(
        "000.required", asked=(2,), found=(0, 1), kind="not free"
    )
    assert best_partition(score_matrix(DGX1), 1, None, [0, 1]) == Reason(
        "000.required", asked=1, found=(0, 1), kind="too many"
    )


@pytest.mark.rule("000.one")
def test_one_device_is_the_one_whose_loss_costs_the_rest_least() -> None:
    assert chosen(score_matrix(BRIDGED), 1, [0, 1, 2, 3, 4, 5, 7]).devices == (7,)
    assert chosen(score_matrix(BRIDGED), 1).devices == (0,)
    assert chosen(score_matrix(BRIDGED), 1, None, [5]).devices == (5,)


@pytest.mark.parametrize(("size", "free"), [(0, [0]), (-1, [0]), (3, [0, 1]), (1, [])])
def test_an_ask_that_can_not_be_met_is_a_refusal(size: int, free: list[int]) -> None:
    assert isinstance(best_partition(score_matrix(DGX1), size, free), Reason)


@pytest.mark.parametrize(
    ("free", "required", "text"),
    [
        ([8], [], "available names device 8: the machine has devices 0 to 7"),
        ([-1], [], "available names device -1"),
        ([0, 0], [], "available names device 0 twice"),
        (None, ["a"], "required names device 'a'"),
        (None, [True], "required names device True"),
    ],
)
def test_a_position_that_is_no_device_is_an_error(free: object, required: object, text: str) -> None:
    with pytest.raises(AskError, match=text):
        best_partition(score_matrix(DGX1), 1, free, required)  # type: ignore[arg-type]  # what users may write


@pytest.mark.parametrize("size", ["2", 2.0, None, True])
def test_a_size_that_is_no_whole_number_is_an_error(size: object) -> None:
    with pytest.raises(AskError, match="a whole number is expected"):
        best_partition(score_matrix(DGX1), size)  # type: ignore[arg-type]  # what users may write


@pytest.mark.parametrize("scores", [[[0, 1], [1]], [[0, float("nan")], [1, 0]], [[0, -5], [1, 0]], [[0] * 99] * 99])
def test_a_matrix_that_makes_no_sense_is_an_error(scores: list[list[float]]) -> None:
    with pytest.raises(TopologyError, match="scores"):
        best_partition(scores, 1)


def test_an_asymmetric_matrix_counts_the_fewer_points() -> None:
    assert chosen([[0, 500, 10], [1, 0, 10], [10, 10, 0]], 2).devices == (0, 2)


def test_an_unknown_objective_is_an_error() -> None:
    with pytest.raises(AskError, match="objective is 'luck': partition or best-set is expected"):
        best_partition([[0]], 1, objective="luck")  # type: ignore[arg-type]  # what users may write


def test_what_is_no_list_of_devices_is_an_error() -> None:
    with pytest.raises(AskError, match="available is 3: a list of devices is expected"):
        best_partition([[0]], 1, 3)  # type: ignore[arg-type]  # what users may write


def test_no_devices_at_all_is_a_refusal() -> None:
    assert best_partition([], 1) == Reason("000.partition", asked=1, found=0, kind="too few")


@pytest.mark.parametrize("size", range(1, 17))
def test_sixteen_equal_devices_are_taken_in_order(size: int) -> None:
    found = chosen([[7] * 16] * 16, size)
    assert found.devices == tuple(range(size))
    assert sorted(sum(found.sets, ())) == list(range(16))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_large_machine_with_few_free_devices_is_exact(size: int) -> None:
    scores = [[(i * j + i + j) % 17 * 10 if i != j else 0 for j in range(20)] for i in range(20)]
    free = [1, 4, 7, 12, 15, 16, 18, 19]
    reference = enumerate_best_partition(scores, size, free, [16])
    found = chosen(scores, size, free, [16])
    assert reference is not None
    assert (found.devices, found.total, found.proven) == (reference.devices, reference.total, True)


def test_a_large_machine_with_many_free_devices_says_that_nothing_is_proven() -> None:
    found = chosen(pairs_machine(24, 410), 2, None, [23])
    assert (found.devices, found.score, found.proven) == ((22, 23), 410, False)
    assert found.total == 12 * 410
    assert sorted(sum(found.sets, ())) == list(range(24))
