"""Cells of kubectl's tables: ages and JSON paths."""

from __future__ import annotations

import pytest

from linkwise.embedded.kubectl.tables import age, at_path, human_duration


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_formatted_as_in_kubectl(seconds: float, printed: str) -> None:
    assert human_duration(seconds) == printed


def test_a_missing_timestamp_has_an_unknown_age() -> None:
    assert age(None, 5.0) == "<unknown>"


def test_json_paths_traverse_maps_and_lists() -> None:
    document = {"a": [{"b": 1}, {"b": 2}]}
    assert (at_path(document, ".a[1].b"), at_path(document, ".a[5].b"), at_path(document, ".x.y")) == (2, None, None)
