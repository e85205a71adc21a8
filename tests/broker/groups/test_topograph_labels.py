"""The network from labels of topograph: any depth, any version, and nodes with a mix of both."""

from __future__ import annotations

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.groups.planning.input import Network, network_of, read_network
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.views import ContainerView, NodeView, PodView
from support.state import state_of

FABRIC, NVIDIA = "fabric.topograph.run/tier-", "network.topology.nvidia.com/"
DOMAIN, SUB_DOMAIN = "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"
ZONE, CLIQUE = "topology.kubernetes.io/zone", "nvidia.com/gpu.clique"


def node(name: str, *switches: str, **more: str) -> NodeView:
    """A node below these switches, the closest first."""
    return NodeView(name, {**{f"{FABRIC}{tier}": switch for tier, switch in enumerate(switches)}, **more})


def newer(name: str, *switches: str) -> NodeView:
    levels = ("leaf", "spine", "core")
    return NodeView(name, {f"{NVIDIA}{level}": switch for level, switch in zip(levels, switches, strict=False)})


def older(name: str, *switches: str) -> NodeView:
    levels = ("block", "spine", "datacenter")
    return NodeView(name, {f"{NVIDIA}{level}": switch for level, switch in zip(levels, switches, strict=False)})


def network(*nodes: NodeView, level: str = "") -> tuple[Network, list[tuple[str, ...]]]:
    broker = Broker()
    broker.observe(nodes, 0.0)
    wishes = (NetworkWish(level, required=True),) if level else ()
    found = network_of(state_of(broker).cluster, Group("team/g", "kueue", network=wishes))
    return found, [found.path(view) for view in nodes]


def test_a_network_has_as_many_levels_as_its_labels_the_closest_last() -> None:
    deep = node("n", *"abcdef", **{ZONE: "z", DOMAIN: "d", SUB_DOMAIN: "s", CLIQUE: "c"})
    found, paths = network(deep)
    assert found.levels == (ZONE, *(f"{FABRIC}{tier}" for tier in (5, 4, 3, 2, 1, 0)), DOMAIN, SUB_DOMAIN, CLIQUE)
    assert paths == [("z", *"fedcba", "d", "s", "c")]


def test_each_version_is_read_by_its_own_labels() -> None:
    assert network(newer("n", "l", "s", "c"))[0].levels == tuple(NVIDIA + name for name in ("core", "spine", "leaf"))
    assert network(older("n", "b", "s", "d"))[0].levels == tuple(
        NVIDIA + name for name in ("datacenter", "spine", "block")
    )


def test_nodes_of_different_versions_share_the_domains_of_the_same_switches() -> None:
    found, paths = network(node("n1", "l1", "s1", "c1"), newer("n2", "l1", "s1", "c1"), older("n3", "l2", "s1", "c1"))
    assert found.levels == tuple(f"{FABRIC}{tier}" for tier in (2, 1, 0))
    assert paths == [("c1", "s1", "l1"), ("c1", "s1", "l1"), ("c1", "s1", "l2")]


def test_a_node_with_labels_of_two_versions_is_where_the_newer_ones_say() -> None:
    both = NodeView("n1", {f"{FABRIC}0": "new", f"{NVIDIA}leaf": "stale", f"{NVIDIA}spine": "stale"})
    assert network(both, newer("n2", "new", "s1"))[1] == [("", "new"), ("s1", "new")]


def test_a_constraint_by_a_label_of_another_version_is_met() -> None:
    found, paths = network(node("n1", "l1", "s1"), node("n2", "l2", "s1"), level=f"{NVIDIA}block")
    assert (found.levels, found.required) == ((f"{FABRIC}1", f"{FABRIC}0"), 2)
    assert paths == [("s1", "l1"), ("s1", "l2")]
    found, paths = network(older("n1", "l1", "s1"), level=f"{FABRIC}0")
    assert (found.levels, paths) == ((f"{NVIDIA}spine", f"{NVIDIA}block"), [("s1", "l1")])


def test_invalid_labels_are_no_levels_and_missing_tiers_are_empty() -> None:
    odd = {f"{FABRIC}{name}": "s" for name in ("x", "-1", "9999", "00")}
    found, paths = network(node("n1", "l1", "s1", **odd), NodeView("n2", {f"{FABRIC}2": "c1", f"{FABRIC}0": "l1"}))
    assert found.levels == tuple(f"{FABRIC}{tier}" for tier in (2, 1, 0))
    assert paths == [("", "s1", "l1"), ("c1", "", "l1")]


def test_reading_in_steps_gives_the_same_network() -> None:
    broker = Broker()
    broker.observe([node("n1", "l1", "s1"), older("n2", "l1", "s1", "d1")], 0.0)
    cluster, group = state_of(broker).cluster, Group("team/g", "kueue")
    steps = read_network(cluster, group)
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == network_of(cluster, group)


def test_a_restored_broker_knows_the_labels_of_its_nodes() -> None:
    broker = Broker()
    broker.observe([node("n1", "l1", "s1"), NodeView("n2", {f"{FABRIC}x": "s"})], 0.0)
    restored, group = Broker.restore(broker.snapshot(1.0)), Group("team/g", "kueue", network=(NetworkWish("tier-0"),))
    before, after = state_of(broker).cluster, state_of(restored).cluster
    assert network_of(after, group) == network_of(before, group)
    assert after.shared.wrong_for(PodView("team", "p", "u"), group) == before.shared.wrong_for(
        PodView("team", "p", "u"), group
    )


def test_invalid_labels_are_reported_to_groups_with_a_constraint_until_they_are_gone() -> None:
    key = "kueue.x-k8s.io/podset-required-topology"
    member = PodView(
        "team",
        "p",
        "u0",
        (ContainerView("c", limits={"nvidia.com/gpu": "1"}),),
        labels={"kueue.x-k8s.io/pod-group-name": "g"},
        annotations={"kueue.x-k8s.io/pod-group-total-count": "1", key: f"{FABRIC}0"},
    )
    broker = Broker()
    invalid = NodeView("n1", {f"{FABRIC}x": "s", f"{FABRIC}0": "s"})
    shared = state_of(broker).cluster.shared
    broker.observe([invalid, member], 0.0)
    group = Group("team/g", "kueue", network=(NetworkWish(f"{FABRIC}0", required=True),))
    assert [problem.where for problem in shared.wrong_for(member, group)] == ["nodes"]
    broker.observe([NodeView("n1", {f"{FABRIC}0": "s"})], 1.0)
    assert shared.wrong_for(member, group) == []
