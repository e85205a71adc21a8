"""The annotation linkwise.dev/require: what it can say, and the column of every error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.linkwise.require import read_require
from linkwise.errors import InputError
from linkwise.model.requirement import FACTS, KINDS, OPERATORS, Comparison

PIECES = st.sampled_from(
    [*FACTS, *OPERATORS, "in", "not", "(", ")", ",", "12.2", "40Gi", "A100", '"', " ", "*", "\n", "é"]
)


def comparisons(text: str) -> list[str]:
    return [str(clause) for clause in read_require(text)]


def test_comparisons_are_separated_by_commas_and_all_must_hold() -> None:
    found = comparisons("cuda>=12.2, model in (A100, H100), memory >= 40Gi")
    assert found == ["cuda>=12.2", "model in (A100, H100)", "memory>=40Gi"]


def test_spaces_case_and_double_equals_do_not_matter_and_quotes_allow_any_character() -> None:
    assert comparisons(' CUDA == 12.2 ,model NOT IN ("NVIDIA A100*",H100)') == [
        "cuda=12.2",
        "model not in (NVIDIA A100*, H100)",
    ]


def test_a_blank_annotation_requires_nothing() -> None:
    assert read_require("  ") == ()


def test_huawei_is_the_vendor_of_ascend() -> None:
    (clause,) = read_require("vendor = Huawei")
    assert clause.alternatives == ((Comparison("vendor", "=", ("ascend",)),),)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("cuda>=12.2,", "column 12: expected a fact to compare, found the end"),
        ("cuda", "column 5: expected an operator after cuda: =, !=, >=, <=, >, <, in or not in, found the end"),
        ("cuda 12.2", "column 6: expected an operator after cuda: =, !=, >=, <=, >, <, in or not in, found '12.2'"),
        ("model>=A100", "column 6: model can't be compared by >=; use =, !=, in or not in"),
        ("cuda>=twelve", "column 7: 'twelve' is not a version such as 12.2, which cuda is compared with"),
        (f"cuda>={'x' * 50}", f"column 7: '{'x' * 40}' is not a version such as 12.2, which cuda is compared with"),
        (f"vendor={'x' * 50}*", f"column 8: '{'x' * 40}': only a model may contain *"),
        ("memory>=40GB", "column 9: '40GB' is not an amount of memory such as 40Gi, which memory is compared with"),
        ("model in (A100", "column 15: expected a comma or ), found the end"),
        ("model in ()", "column 11: expected a value, found ')'"),
        ("model in A100", "column 10: expected (, found 'A100'"),
        ("model not A100", "column 11: expected in, found 'A100'"),
        ("cuda>=12.2 memory>=4Gi", "column 12: expected a comma or the end, found 'memory'"),
        ('model="A100', "column 7: the quotation mark is not closed"),
        ("cuda>=12.2;", "column 11: unexpected character ';'"),
        ("vendor=n*", "column 8: 'n*': only a model may contain *"),
        ('model=" "', "column 7: expected a value, found ' '"),
    ],
)
def test_an_error_names_its_column_and_what_is_expected(text: str, error: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(error)}$"):
        read_require(text)


def test_an_unknown_fact_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match=r"column 13: unknown fact 'cudda'; use one of vendor, .*cuda"):
        read_require("cuda>=12.2, cudda<13")


def test_a_requirement_without_end_is_refused() -> None:
    with pytest.raises(InputError, match="longer than 16384 characters"):
        read_require("cuda>=12.2," * 10_000)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_read_or_refused_at_a_column_of_it(text: str) -> None:
    try:
        clauses = read_require(text)
    except InputError as error:
        column = re.match(r"column (\d+): ", str(error))
        assert column
        assert 1 <= int(column[1]) <= len(text) + 1
    else:
        assert all(KINDS[each.fact] for clause in clauses for every in clause.alternatives for each in every)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_was_read_is_read_again_from_its_own_words(text: str) -> None:
    try:
        clauses = read_require(text)
    except InputError:
        return
    quoted = ", ".join(map(str, clauses))
    if "*" not in quoted and '"' not in text:
        assert read_require(quoted) == clauses
