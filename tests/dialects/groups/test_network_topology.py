"""Objects that say how nodes lie in the network, as levels and paths."""

from __future__ import annotations

from typing import Any

import pytest

from linkwise.dialects.groups.network import (
    HOSTNAME,
    LAYERS,
    TOPOLOGIES,
    HyperNode,
    Ladder,
    Tiers,
    hyper_node_of,
    ladder_of,
    tiers_of,
)

KUEUE, KAI = TOPOLOGIES
BLOCK, RACK = "cloud.example.com/topology-block", "cloud.example.com/topology-rack"
LEVELS = {"spec": {"levels": [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]}}
TREE: list[dict[str, Any]] = [
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
    {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["net/block"]},
    {"topologyLayer": "SpineLayer", "labelKey": ["net/spine"]},
]


def read(kind: str, spec: object) -> Ladder:
    ladder, problems = ladder_of(kind, "default", {"spec": spec})
    assert ladder is not None
    assert problems == ()
    return ladder


def refused(kind: str, spec: object) -> str:
    ladder, problems = ladder_of(kind, "default", {"spec": spec})
    assert ladder is None
    return problems[0].sentence


def member(kind: str, **selector: object) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def hyper(name: str, tier: int, *members: dict[str, Any], **more: object) -> HyperNode:
    found, problems = hyper_node_of(name, {"spec": {"tier": tier, "members": list(members), **more}})
    assert found is not None
    assert problems == ()
    return found


def exactly(name: str, kind: str = "Node") -> dict[str, Any]:
    return member(kind, exactMatch={"name": name})


def tree() -> Tiers:
    nodes = {"n0": {}, "n1": {}, "n2": {"rack": "r2"}, "n3": {"rack": "r3"}, "n4": {}}
    hypers = [
        hyper("s0", 1, exactly("n0"), exactly("n1")),
        hyper("s1", 1, member("Node", labelMatch={"matchLabels": {"rack": "r2"}})),
        hyper("s2", 2, member("HyperNode", regexMatch={"pattern": "^s[01]$"}), tierName="spine"),
        hyper("lone", 1, exactly("n3"), exactly("gone")),
    ]
    return tiers_of(hypers, nodes)


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_topology_orders_labels_from_the_broadest_on(kind: str) -> None:
    assert read(kind, LEVELS["spec"]).levels == (BLOCK, RACK, HOSTNAME)


def test_a_level_is_also_called_by_what_stands_after_the_slash() -> None:
    ladder = read(KAI, LEVELS["spec"])
    assert ladder.level("topology-rack") == ladder.level(RACK) == RACK
    assert ladder.level("rack") is None


def test_a_short_name_that_two_levels_share_means_neither() -> None:
    assert Ladder.of(("a/rack", "b/rack")).level("rack") is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"levels": []}, "spec.levels is empty"),
        ({"levels": [{"label": "x"}]}, "spec.levels[0].nodeLabel is missing"),
        ({"levels": "zone"}, "spec.levels is 'zone'; a list is expected"),
        (None, "spec is null; an object is expected"),
    ],
)
def test_a_topology_that_orders_nothing_is_not_believed(spec: object, message: str) -> None:
    assert refused(KUEUE, spec).startswith(message)


def test_layers_are_ordered_by_the_layer_above_each() -> None:
    ladder = read(LAYERS, {"networkTopologySpec": TREE})
    assert ladder.levels == ("net/spine", "net/block", HOSTNAME)
    assert ladder.level("spineLayer") == ladder.level("SpineLayer") == "net/spine"


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([{"topologyLayer": "A", "parentTopologyLayer": "B", "labelKey": ["a"]}], "layer 'A' hangs on no other layer"),
        ([{"topologyLayer": "A"}], "spec.networkTopologySpec[0].labelKey is missing"),
        (
            [{"topologyLayer": "A", "labelKey": ["a"]}, {"topologyLayer": "B", "labelKey": ["b"]}],
            "spec.networkTopologySpec[1].parentTopologyLayer is ''",
        ),
    ],
)
def test_layers_that_make_no_tree_are_not_believed(layers: list[object], message: str) -> None:
    assert refused(LAYERS, {"networkTopologySpec": layers}).startswith(message)


def test_of_several_labels_of_a_layer_the_first_is_read_and_that_is_said() -> None:
    ladder, problems = ladder_of(LAYERS, "x", {"spec": {"networkTopologySpec": [{**TREE[2], "labelKey": ["a", "b"]}]}})
    assert ladder is not None
    assert ladder.levels == ("a",)
    assert "only a is read" in problems[0].sentence


def test_a_node_has_the_path_of_its_hyper_nodes_the_broadest_first() -> None:
    tiers = tree()
    assert tiers.numbers == (2, 1)
    assert tiers.paths["n0"] == tiers.paths["n1"] == ("s2", "s0")
    assert tiers.paths["n2"] == ("s2", "s1")


def test_a_hyper_node_that_is_in_no_broader_one_stands_for_itself_there() -> None:
    assert tree().paths["n3"] == ("lone", "lone")
    assert "n4" not in tree().paths


@pytest.mark.parametrize(
    ("wish", "level"),
    [("1", "1"), ("2", "2"), ("9", "2"), ("spine", "2"), ("0", None), ("rack", None)],
)
def test_a_wish_means_the_broadest_tier_that_it_allows(wish: str, level: str | None) -> None:
    assert tree().level(f"volcano.sh/tier-{wish}") == (level and f"volcano.sh/tier-{level}")


def test_a_label_is_no_tier() -> None:
    assert tree().level("topology.kubernetes.io/zone") is None


def test_hyper_nodes_that_hold_each_other_end_nowhere() -> None:
    one = hyper("a", 1, exactly("b", "HyperNode"), exactly("n"))
    other = hyper("b", 2, exactly("a", "HyperNode"))
    assert tiers_of([one, other], {"n": {}}).paths == {"n": ("b", "a")}


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ({"key": "rack", "operator": "In", "values": ["r1"]}, {"n1"}),
        ({"key": "rack", "operator": "NotIn", "values": ["r1"]}, {"n0", "n2"}),
        ({"key": "rack", "operator": "Exists"}, {"n1", "n2"}),
        ({"key": "rack", "operator": "DoesNotExist"}, {"n0"}),
    ],
)
def test_expressions_choose_nodes_as_in_kubernetes(expression: dict[str, object], nodes: set[str]) -> None:
    found = hyper("h", 1, member("Node", labelMatch={"matchExpressions": [expression]}))
    labels: dict[str, dict[str, str]] = {"n0": {}, "n1": {"rack": "r1"}, "n2": {"rack": ""}}
    assert set(tiers_of([found], labels).paths) == nodes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"members": []}, "spec.tier is missing"),
        ({"tier": 1, "members": [member("Rack", exactMatch={"name": "x"})]}, "spec.members[0].type is 'Rack'"),
        ({"tier": 1, "members": [member("Node")]}, "spec.members[0].selector.exactMatch, regexMatch or"),
        (
            {"tier": 1, "members": [member("HyperNode", labelMatch={})]},
            "spec.members[0].selector.exactMatch, regexMatch",
        ),
        (
            {"tier": 1, "members": [member("Node", regexMatch={"pattern": "("})]},
            "spec.members[0].selector.regexMatch.pa",
        ),
        ({"tier": 1, "members": [member("Node", regexMatch={"pattern": "(a+)+$"})]}, "spec.members[0].selector.regex"),
        ({"tier": 1, "members": [member("Node", regexMatch={"pattern": "a" * 201})]}, "spec.members[0].selector.regex"),
        (
            {"tier": 1, "members": [member("Node", labelMatch={"matchExpressions": [{"key": "a", "operator": "Gt"}]})]},
            "spec.members[0].selector.labelMatch.matchExpressions[0].operator is 'Gt'",
        ),
    ],
)
def test_a_hyper_node_that_can_not_be_followed_is_not_believed(spec: object, message: str) -> None:
    found, problems = hyper_node_of("h", {"spec": spec})
    assert found is None
    assert problems[0].where == "HyperNode h"
    assert problems[0].sentence.startswith(message)
