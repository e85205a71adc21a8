"""The network as a group sees it, from labels, Topology objects and HyperNodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.groups.planning.input import network_of
from linkwise.broker.watch_events import ClusterObject
from linkwise.model.ask import Group, NetworkWish
from linkwise.model.settings import GroupSettings, PlacingSettings
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.sim.sample_nodes import fleet_node
from linkwise.vendors.machines import profile
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.groups.planning.input import Network
    from linkwise.broker.watch_events import WatchEvent

ZONE = "topology.kubernetes.io/zone"
BLOCK, RACK, CLIQUE = "net.example.com/block", "net.example.com/rack", "nvidia.com/gpu.clique"


def node(name: str, **labels: str) -> NodeView:
    keys = {"zone": ZONE, "block": BLOCK, "rack": RACK, "clique": CLIQUE}
    return NodeView(name, {keys.get(key, key): value for key, value in labels.items()})


def seen(*sights: WatchEvent, network: tuple[str, ...] | None = None) -> Broker:
    group = GroupSettings() if network is None else GroupSettings(network=network)
    broker = Broker(PlacingSettings(group=group))
    broker.observe(sights, 0.0)
    return broker


def levels(name: str, *labels: str) -> ClusterObject:
    document = {"spec": {"levels": [{"nodeLabel": label} for label in labels]}}
    return ClusterObject("Topology.kueue.x-k8s.io", name, document)


def hyper(name: str, tier: int, *members: str, kind: str = "Node") -> ClusterObject:
    found = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return ClusterObject("HyperNode.topology.volcano.sh", name, {"spec": {"tier": tier, "members": found}})


def of(broker: Broker, *wishes: NetworkWish) -> Network:
    return network_of(state_of(broker).cluster, Group("team/g", "kueue", network=wishes))


def must(level: str) -> NetworkWish:
    return NetworkWish(level, required=True)


def paths(broker: Broker, network: Network) -> list[tuple[str, ...]]:
    return [network.path(view) for view in broker.nodes.values()]


def test_levels_of_the_settings_count_where_some_node_has_them() -> None:
    broker = seen(node("n1", zone="a", clique="c1"), node("n2", zone="a"))
    assert of(broker).levels == (ZONE, CLIQUE)
    assert paths(broker, of(broker)) == [("a", "c1"), ("a", "")]


def test_a_topology_joins_the_levels_of_the_settings_where_it_shares_one() -> None:
    broker = seen(node("n", zone="a", block="b", rack="r", clique="c"), levels("t", ZONE, BLOCK, RACK))
    assert of(broker).levels == (ZONE, BLOCK, RACK, CLIQUE)


def test_a_topology_that_shares_none_goes_where_its_domains_are_more() -> None:
    nodes = [node(f"n{i}", zone="a", rack=f"r{i // 2}", clique=f"c{i}") for i in range(4)]
    assert of(seen(*nodes, levels("t", RACK, "kubernetes.io/hostname"))).levels == (ZONE, RACK, CLIQUE)


def test_a_required_level_comes_with_those_above_it_in_its_own_order() -> None:
    broker = seen(node("n1", zone="a", block="b", rack="r"), levels("t", BLOCK, RACK))
    network = of(broker, must(RACK))
    assert (network.levels, network.required) == ((BLOCK, RACK, ZONE), 2)


def test_who_does_not_say_the_required_level_has_no_place_in_it() -> None:
    broker = seen(node("n1", block="b", rack="r"), node("n2", block="b"), levels("t", BLOCK, RACK))
    assert paths(broker, of(broker, must(RACK))) == [("b", "r"), ("b", "")]


def test_a_missing_upper_level_excludes_no_pod() -> None:
    broker = seen(node("n1", block="b", rack="r"), node("n2", rack="r"), levels("t", BLOCK, RACK))
    assert paths(broker, of(broker, must(RACK))) == [("b", "r"), ("-", "r")]


def test_a_label_without_an_order_is_a_level_of_its_own() -> None:
    network = of(seen(node("n", zone="a", rack="r")), must(RACK))
    assert (network.levels, network.required) == ((RACK, ZONE), 1)


def test_a_wish_may_use_the_short_name_of_a_level() -> None:
    assert of(seen(node("n", rack="r"), levels("t", RACK)), must("rack")).levels == (RACK,)


def test_a_preferred_level_is_among_the_levels_but_not_required() -> None:
    network = of(seen(node("n", rack="r")), NetworkWish(RACK))
    assert (network.levels, network.required) == ((RACK,), 0)


def test_one_node_alone_may_be_required() -> None:
    host = "kubernetes.io/hostname"
    broker = seen(NodeView("n1", {host: "n1"}), levels("t", RACK, host))
    assert of(broker, must(host)).levels == (host,)
    assert of(broker).levels == ()


def test_tiers_are_levels_and_a_wish_means_the_broadest_that_it_allows() -> None:
    objects = (hyper("s0", 1, "n1"), hyper("s1", 1, "n2"), hyper("top", 3, "s0", "s1", kind="HyperNode"))
    broker = seen(node("n1"), node("n2"), node("n3"), *objects)
    network = of(broker, must("volcano.sh/tier-2"))
    assert network.required == 2
    assert paths(broker, network) == [("top", "s0"), ("top", "s1"), ("-", "")]


def test_objects_may_be_seen_before_nodes_and_go_again() -> None:
    broker = seen(hyper("s0", 1, "n1"))
    broker.observe([node("n1")], 1.0)
    assert paths(broker, of(broker)) == [("s0",)]
    broker.observe([ClusterObject("HyperNode.topology.volcano.sh", "s0", None)], 2.0)
    assert of(broker).levels == ()


def test_labels_that_change_change_the_network() -> None:
    broker = seen(node("n1", zone="a"))
    assert of(broker).levels == (ZONE,)
    broker.observe([node("n1", clique="c")], 1.0)
    assert of(broker).levels == (CLIQUE,)


def test_an_object_that_can_not_be_read_is_kept_with_its_problem() -> None:
    broker = seen(ClusterObject("Topology.kueue.x-k8s.io", "t", b'{"spec": {}}'), node("n", rack="r"))
    shared = state_of(broker).cluster.shared
    assert [problem.sentence for found in shared.problems.values() for problem in found] == [
        "spec.levels is empty; name at least one node label"
    ]
    assert shared.documents["Topology.kueue.x-k8s.io"] == {"t": {"spec": {}}}


def fleet(racks: list[str]) -> list[WatchEvent]:
    sights: list[WatchEvent] = []
    for number, rack in enumerate(racks):
        view, *more = fleet_node(profile("dgx1-v100"), f"n{number}")
        assert isinstance(view, NodeView)
        sights += [
            NodeView(view.name, {RACK: rack} if rack else {}, capacity=view.capacity, allocatable=view.allocatable)
        ]
        sights += more
    return sights


@pytest.mark.parametrize(
    ("racks", "nodes"),
    [
        (["r0", "r1", "r1"], {"n1", "n2"}),
        (["r0", "r1", "r2"], None),
        (["", "", "r1"], None),
        (["", "r1", "r1"], {"n1", "n2"}),
    ],
)
def test_a_group_that_must_share_a_rack_is_planned_in_one_or_not_at_all(
    racks: list[str], nodes: set[str] | None
) -> None:
    broker = seen(*fleet(racks))
    labels = {"kueue.x-k8s.io/pod-group-name": "g"}
    words = {"kueue.x-k8s.io/pod-group-total-count": "2", "kueue.x-k8s.io/podset-required-topology": RACK}
    asks = (ContainerView("main", limits={"nvidia.com/gpu": "8"}),)
    pods = [PodView("team", f"p{i}", f"u{i}", asks, labels, words, version=1) for i in range(2)]
    plan = broker.dry_plan(pods, 1.0)
    assert (set(plan.nodes) if plan else None) == nodes
