"""Versions and sizes: their order, as users and vendors write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from linkwise.model.requirement import bytes_of, version_key

NUMBERS = st.lists(st.integers(0, 999), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("12.2", "12.10"),
        ("9", "10"),
        ("535.54.03", "535.104.05"),
        ("8.0.RC1", "8.0.RC2"),
        ("8.0.RC2", "8.0"),
        ("8.0.rc1", "8.0.0"),
        ("7.9", "8.0.RC1"),
        ("6.8.5", "6.8.5.1"),
    ],
)
def test_versions_are_ordered_by_their_numbers(lower: str, higher: str) -> None:
    below, above = version_key(lower), version_key(higher)
    assert below is not None
    assert above is not None
    assert below < above


def test_missing_components_are_zero_and_build_names_do_not_count() -> None:
    assert version_key("12") == version_key("12.0.0") == version_key("v12") == version_key(" 12.0-build7 ")
    assert version_key("unknown") is version_key("") is version_key("N/A") is None


@given(NUMBERS, NUMBERS)
def test_dotted_numbers_are_ordered_as_tuples_are(one: list[int], other: list[int]) -> None:
    size = max(len(one), len(other))
    padded = [[*each, *[0] * (size - len(each))] for each in (one, other)]
    keys = [version_key(".".join(map(str, each))) for each in (one, other)]
    assert keys[0] is not None
    assert keys[1] is not None
    assert (keys[0] < keys[1]) == (padded[0] < padded[1])


@given(st.text(max_size=30))
def test_no_text_is_an_error(text: str) -> None:
    version_key(text)
    bytes_of(text)


def test_memory_is_an_amount_of_kubernetes() -> None:
    sizes = [bytes_of(text) for text in ("40Gi", "40G", "1.5Ti", "1024", "40GB", "-1Gi", "")]
    assert sizes == [40 * 2**30, 40 * 10**9, 3 * 2**39, 1024, None, None, None]
