"""Best nodes of a request, compared with an evaluation of every node."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.engine.index.score_table import ClassTable, best_names
from linkwise.model.verdict import Reason, Reject
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.engine.index.score_table import Code

NO = Reject("n", Reason("002.whole", asked=2, found=(1, 2)))


def table(codes: dict[str, Code | None], leading: int) -> ClassTable:
    made = ClassTable(lambda _: NO, leading)
    for name, code in codes.items():
        made.put(name, NO if code is None else code)
    return made


def naive(table: ClassTable, names: Sequence[str], breadth: int, without: set[str]) -> list[str]:
    """What is expected of the answer: the best class of the names that are not in `without`, by score and name."""
    fitting = {name: table.codes[name] for name in names if name in table.codes and name not in without}
    best = max((code[: table.leading] for code in fitting.values()), default=())
    of_class = [name for name, code in fitting.items() if code[: table.leading] == best]
    return sorted(of_class, key=lambda name: ([-term for term in fitting[name]], name))[:breadth]


@settings(max_examples=examples(200), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(0, 60) | st.sampled_from([500, 700, 1500]),
    classes=st.integers(1, 4),
    fitting=st.sampled_from([0.02, 0.5, 1.0]),
    asked=st.sampled_from([0.05, 0.5, 1.0]),
    avoided=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
    breadth=st.sampled_from([1, 3, 16]),
)
def test_the_best_names_are_those_that_looking_at_each_would_find(  # noqa: PLR0913, PLR0917 - what a request is made of
    seed: int, nodes: int, classes: int, fitting: float, asked: float, avoided: float, breadth: int
) -> None:
    chance = random.Random(seed)
    codes: dict[str, Code | None] = {
        f"n{number}": (chance.randrange(classes), chance.randrange(3)) if chance.random() < fitting else None
        for number in range(nodes)
    }
    made = table(codes, chance.choice([0, 1, 2]))
    names = [name for name in (*codes, "unknown") if chance.random() < asked]
    chance.shuffle(names)
    without = {name for name in names if chance.random() < avoided}
    assert best_names(made, names, breadth, without) == naive(made, names, breadth, without)


@pytest.mark.parametrize("count", [8, 520])
def test_nothing_is_chosen_only_if_none_of_the_names_fits(count: int) -> None:
    made = table({"good": (1,), **{f"bad{number}": None for number in range(count)}}, 1)
    names = [f"bad{number}" for number in range(count)]
    assert best_names(made, names, 16) == []
    assert best_names(made, [*names, "good"], 16) == ["good"]
    assert best_names(made, ["unknown"] * count, 16) == []


@pytest.mark.parametrize("count", [8, 520])
def test_a_worse_class_is_chosen_where_the_best_is_not_among_the_names(count: int) -> None:
    codes: dict[str, Code | None] = {f"n{number}": (number % 2, number) for number in range(count)}
    made = table(codes, 1)
    names = [name for name, code in codes.items() if code and code[0] == 0]
    best = best_names(made, names, 3)
    assert best == sorted(names, key=lambda name: made.codes[name], reverse=True)[:3]


@pytest.mark.parametrize("count", [8, 520])
def test_a_worse_class_is_chosen_where_the_best_is_left_out(count: int) -> None:
    made = table({f"n{number}": (int(number < 4), 0) for number in range(count)}, 1)
    names = list(made.codes)
    assert best_names(made, names, 1, {"n0", "n1", "n2"}) == ["n3"]
    assert best_names(made, names, 2, {"n0", "n1", "n2", "n3", "n4"})[0] not in {"n0", "n1", "n2", "n3", "n4"}
    assert best_names(made, names, 16, set(names)) == []
