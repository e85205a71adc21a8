"""Labels of topograph: names of one level in several versions, those that count on a node, and invalid ones."""

from __future__ import annotations

import pytest

from linkwise.dialects.groups.network import current_labels, invalid_labels, label_problem, same_level

FABRIC, NVIDIA, ACCELERATOR = "fabric.topograph.run/", "network.topology.nvidia.com/", "accelerator.topograph.run/"


def test_a_level_has_one_label_per_version() -> None:
    assert same_level(f"{NVIDIA}block") == (f"{FABRIC}tier-0", f"{NVIDIA}leaf", f"{NVIDIA}block")
    assert same_level(f"{NVIDIA}accelerator") == (f"{ACCELERATOR}domain", f"{NVIDIA}accelerator")
    assert same_level("example.com/rack") == ("example.com/rack",)


def test_labels_of_an_earlier_version_do_not_count_beside_newer_ones() -> None:
    stale = {f"{NVIDIA}{name}": "old" for name in ("core", "datacenter", "spine", "leaf", "block", "accelerator")}
    new = {f"{FABRIC}tier-0": "s1", f"{ACCELERATOR}domain": "d1", "zone": "z"}
    assert current_labels({**stale, **new}) == new
    older = {f"{NVIDIA}block": "old", f"{NVIDIA}spine": "s2", f"{NVIDIA}leaf": "s1"}
    assert current_labels(older) == {f"{NVIDIA}spine": "s2", f"{NVIDIA}leaf": "s1"}


@pytest.mark.parametrize("version", [{f"{FABRIC}tier-0": "a"}, {f"{NVIDIA}block": "a", f"{NVIDIA}spine": "b"}, {}])
def test_labels_of_one_version_stay_as_they_are(version: dict[str, str]) -> None:
    assert current_labels(version) is version


@pytest.mark.parametrize(
    "name", ["tier-x", "tier--1", "tier-9999", "tier-16", "tier-01", "tier-1.0", "tier-", "tier", "Tier-0"]
)
def test_a_label_that_is_not_a_tier_is_invalid(name: str) -> None:
    assert invalid_labels({f"{FABRIC}{name}": "s", f"{FABRIC}tier-0": "s"}) == (f"{FABRIC}{name}",)


def test_a_missing_tier_is_named_and_a_network_of_any_depth_is_valid() -> None:
    assert invalid_labels({f"{FABRIC}tier-{number}": "s" for number in (0, 3)}) == (
        f"no {FABRIC}tier-2",
        f"no {FABRIC}tier-1",
    )
    for depth in range(1, 17):
        assert invalid_labels({f"{FABRIC}tier-{number}": "s" for number in range(depth)}) == ()


def test_one_sentence_covers_the_labels_of_all_nodes() -> None:
    nodes = {f"n{number}": [f"{FABRIC}tier-x"] for number in range(5000)} | {"m": [f"no {FABRIC}tier-0"]}
    assert label_problem(nodes).sentence == (
        "fabric.topograph.run/tier-x on 5000 node(s) such as n0; no fabric.topograph.run/tier-0 on 1 node(s) such as m; "
        "the labels are tier-0 to tier-15, 0 is closest"
    )
