"""Chips of Ascend 910 machines are given ring by ring, from a real kube-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.e2e.node_objects import ascend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.e2e.service import Granted, Placing

NPU = "huawei.com/Ascend910"
GROUPS = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}
"""by the size of an ask, how many chips the chosen ring should have idle, the best first"""


def idle(left: int, right: int) -> set[int]:
    """A machine with so many chips idle in each ring."""
    return {*range(left), *range(4, 4 + right)}


def chips(granted: Granted) -> tuple[int, ...]:
    """What Huawei's annotation says."""
    return tuple(int(chip.removeprefix("Ascend910-")) for chip in granted.annotations[NPU].split(","))


def worth(free: set[int], unhealthy: int, size: int) -> tuple[int, int, int] | None:
    """How good a node is by the table, the smaller the better: faults, group, idle chips of the other ring."""
    rings = [len(free & set(range(4))), len(free & set(range(4, 8)))]
    if size == 8:
        return (unhealthy, 0, 0) if sum(rings) == 8 else None
    fits = [(GROUPS[size].index(one), other) for one, other in (rings, rings[::-1]) if one in GROUPS[size]]
    return (unhealthy, *min(fits)) if fits else None


def tell(placing: Placing, free: Mapping[str, set[int]], unhealthy: Mapping[str, set[int]] | None = None) -> str:
    """Machines on which all other chips are in use by pods of a namespace, or unhealthy; the namespace."""
    bad, namespace = unhealthy or {}, placing.namespace()
    for name, left in free.items():
        placing.nodes(*ascend(name, unhealthy=bad.get(name, set())))
        used = set(range(8)) - left - bad.get(name, set())
        for chip in sorted(used):
            holds = {NPU: f"Ascend910-{chip}", "predicate-time": str(chip + 1)}
            placing.create(namespace, f"{name}-{chip}", {NPU: 1}, nodeName=name, annotations=holds)
    wanted = sum(8 - len(left) - len(bad.get(name, ())) for name, left in free.items())
    placing.counted(wanted)
    return namespace


STATES = {
    "ab": {"a": idle(1, 4), "b": idle(3, 0)},
    "bc": {"a": idle(3, 4), "b": idle(2, 0)},
    "cd": {"a": idle(2, 4), "b": idle(0, 4)},
    "inside": {"a": idle(1, 3), "b": idle(2, 1), "c": idle(4, 1)},
    "two": {"a": idle(4, 0), "b": idle(3, 3), "c": idle(4, 2)},
    "full": {"a": idle(4, 4), "b": idle(4, 3), "c": idle(4, 1)},
    "last": {"a": idle(3, 3), "b": idle(1, 3)},
}


@pytest.mark.rule("003.one", "003.two", "003.four", "003.eight", "003.groups", "003.full", "003.ring", "003.record")
@pytest.mark.parametrize(
    ("state", "size"),
    [
        *[("ab", 1), ("bc", 1), ("cd", 1), ("inside", 1), ("full", 1)],
        *[("two", 2), ("last", 2), ("inside", 2), ("full", 2), ("cd", 2)],
        *[("two", 4), ("full", 4), ("full", 8)],
    ],
)
def test_chips_come_from_the_ring_that_the_table_names(placing: Placing, state: str, size: int) -> None:
    free = STATES[state]
    granted = placing.place(tell(placing, free), "train", {NPU: size})
    ranks = {name: rank for name, left in free.items() if (rank := worth(left, 0, size)) is not None}
    assert ranks[granted.node] == min(ranks.values())
    given = chips(granted)
    assert len(given) == size
    assert set(given) <= free[granted.node]
    assert int(granted.annotations["predicate-time"]) > 10**18
    if size < 8:
        (ring,) = {chip // 4 for chip in given}
        of_ring = sorted(chip for chip in free[granted.node] if chip // 4 == ring)
        assert list(given) == of_ring[:size]
        assert GROUPS[size].index(len(of_ring)) == ranks[granted.node][1]


@pytest.mark.rule("003.faulty")
def test_a_sound_machine_comes_before_one_with_a_faulty_chip_whatever_the_group(placing: Placing) -> None:
    free = {"sound": idle(4, 4), "faulty": {0, 4, 5, 6}}
    namespace = tell(placing, free, {"faulty": {7}})
    assert worth(free["sound"], 0, 1) == (0, 3, 4)
    assert worth(free["faulty"], 1, 1) == (1, 0, 3)
    held = [placing.place(namespace, f"p{number}", {NPU: size}) for number, size in enumerate((1, 4, 2, 1, 1))]
    assert [granted.node for granted in held] == ["sound"] * 4 + ["faulty"]
    assert chips(held[-1]) == (0,)


@pytest.mark.rule("003.faulty", "003.eight")
def test_a_faulty_chip_counts_as_used(placing: Placing) -> None:
    namespace = tell(placing, {"a": idle(4, 3)}, {"a": {7}})
    placing.create(namespace, "all", {NPU: 8})
    placing.refused(namespace, "all")
    assert chips(placing.place(namespace, "four", {NPU: 4})) == (0, 1, 2, 3)


@pytest.mark.rule("003.count")
@pytest.mark.parametrize("size", [3, 5, 6, 7])
def test_a_count_that_no_ring_has_is_refused_with_a_sentence(placing: Placing, size: int) -> None:
    namespace = tell(placing, {"a": idle(4, 4)})
    placing.create(namespace, "odd", {NPU: size})
    assert "node(s) can't allocate that number of devices" in placing.refused(namespace, "odd")
    assert f"{size} devices can't be allocated on ascend-910; request 1, 2, 4 or 8" in placing.explain(namespace, "odd")


@pytest.mark.rule("003.count")
def test_more_chips_than_a_machine_has_are_refused_with_a_sentence(placing: Placing) -> None:
    namespace = tell(placing, {"a": idle(4, 4)})
    placing.create(namespace, "odd", {NPU: 12})
    placing.refused(namespace, "odd")
    assert "12 devices can't be allocated on ascend-910" in placing.explain(namespace, "odd")


@pytest.mark.rule("003.predicate", "003.ring")
def test_too_few_chips_in_each_ring_are_refused_with_both_counts(placing: Placing) -> None:
    namespace = tell(placing, {"a": idle(1, 1)})
    placing.create(namespace, "pair", {NPU: 2})
    assert "node(s) had enough idle devices, but not in the required layout" in placing.refused(namespace, "pair")
    assert "ring 0 has 1 idle, ring 1 has 1 idle" in placing.explain(namespace, "pair")


@pytest.mark.rule("003.one-pod", level="R")
def test_a_job_of_up_to_eight_chips_must_be_one_pod(placing: Placing) -> None:
    words = {"scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-min-member": "2"}
    namespace = tell(placing, {"a": idle(4, 4), "b": idle(4, 4)})
    for number in range(2):
        placing.create(namespace, f"p{number}", {NPU: 4}, annotations=words)
    assert "a job of this size must be one pod" in placing.refused(namespace, "p1", "must be one pod")


@pytest.mark.rule("003.one-pod", level="R")
def test_a_job_of_sixteen_chips_has_eight_a_pod(placing: Placing) -> None:
    words = {"scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-min-member": "2"}
    namespace = tell(placing, {"a": idle(4, 4), "b": idle(4, 4)})
    for number in range(2):
        placing.create(namespace, f"p{number}", {NPU: 8}, annotations=words)
    assert {placing.placed(namespace, f"p{number}").node for number in range(2)} == {"a", "b"}
