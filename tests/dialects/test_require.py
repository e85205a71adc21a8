"""NVIDIA_REQUIRE_* of containers, as NVIDIA's container toolkit reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.nvidia import read_required, required_variables
from linkwise.errors import InputError

CUDA = "NVIDIA_REQUIRE_CUDA"


def test_spaces_separate_alternatives_and_commas_what_must_hold_together() -> None:
    (clause,) = read_required(CUDA, "cuda>=12.2 brand=tesla,driver>=470,driver<471  arch!=7.0")
    assert str(clause) == "cuda>=12.2 or brand=tesla, driver>=470, driver<471 or compute!=7.0"
    assert clause.source == CUDA


def test_properties_that_the_toolkit_does_not_know_are_left_out() -> None:
    assert [str(clause) for clause in read_required(CUDA, "cuda>=12.2,jetpack>=5 os=linux")] == ["cuda>=12.2"]
    assert read_required(CUDA, "os=linux") == read_required(CUDA, "   ") == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("cuda>=12.2 cuda", "column 12: 'cuda' is not a comparison such as cuda>=12.2"),
        ("brand=tesla,driver>=", "column 21: driver is compared with nothing that can be read"),
        ("cuda>=12.x", "column 7: '12.x' is not a version"),
        ("brand>tesla", "column 6: brand can't be compared by >"),
    ],
)
def test_an_error_names_its_column(text: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        read_required(CUDA, text)
    assert str(raised.value).startswith(error)


def test_all_variables_of_the_prefix_count_unless_they_are_disabled() -> None:
    variables = {
        CUDA: "cuda>=12.2",
        "NVIDIA_REQUIRE_DRIVER": "driver>=535",
        "NVIDIA_REQUIRE_JETPACK": "csv",
        "REQUIRE": "x",
    }
    assert list(required_variables(variables)) == [CUDA, "NVIDIA_REQUIRE_DRIVER"]
    assert required_variables({**variables, "NVIDIA_DISABLE_REQUIRE": "true"}) == {}
    assert required_variables({**variables, "NVIDIA_DISABLE_REQUIRE": "false"}) != {}


def test_a_value_that_kubernetes_computes_is_not_read() -> None:
    assert required_variables({CUDA: "cuda>=$(VERSION)"}) == {}


@given(st.text(alphabet="cudarhbn<>=!,. 0123456789", max_size=40))
def test_any_text_is_read_or_refused_with_a_column(text: str) -> None:
    error = ""
    try:
        read_required(CUDA, text)
    except InputError as raised:
        error = str(raised)
    assert not error or error.startswith("column ")
