from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from linkwise import InputError
from linkwise.dialects.pod_resources import quantity, whole_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("16Gi", str(16 * 1024**3)),
        ("10G", "10000000000"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1000000000000000000"),
        ("0.5Ki", "512"),
        (".5", "0.5"),
        ("-1", "-1"),
        ("+2", "2"),
        ("100u", "0.0001"),
    ],
)
def test_a_quantity_means_what_kubernetes_means(text: str, value: str) -> None:
    assert quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "x", "1ki", "1 G", "1,5", "--1", "1e", "Gi", "1GiB", "0x10", "NaN", "inf", "1e9999"]
)
def test_what_is_no_quantity_is_an_error_with_the_text(text: str) -> None:
    with pytest.raises(InputError, match="is not a quantity"):
        quantity(text)


@pytest.mark.parametrize("text", ["-1", "0.5", "500m"])
def test_a_count_is_whole_and_not_negative(text: str) -> None:
    with pytest.raises(InputError, match="is not a whole number"):
        whole_quantity(text)
    assert whole_quantity("2k") == 2000


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        quantity(text)
