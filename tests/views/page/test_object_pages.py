"""Nodes, pods, groups and plans on the page have the sentences of the command line, and what a drawing needs."""

from __future__ import annotations

import pytest

from linkwise.broker.broker import Broker
from linkwise.errors import NotFoundError
from linkwise.explain.pod import explain_pod
from linkwise.explain.text.pod import explanation_lines
from linkwise.sim.sample_nodes import fleet_node
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, in_gang, place
from linkwise.vendors.machines import profile
from linkwise.views.cluster import ClusterView
from linkwise.views.page.group import group_page
from linkwise.views.page.node import node_page
from linkwise.views.page.plan import APART, plan_page
from linkwise.views.page.pod import pod_page


def seen(broker: Broker, *only: str) -> ClusterView:
    return ClusterView(broker, 1.0, "default", is_service=True, only=frozenset(only) if only else None)


def machine(name: str) -> Broker:
    broker = Broker()
    broker.observe(list(fleet_node(profile(name), "n")), 0.0)
    return broker


@pytest.mark.parametrize(
    ("name", "shape", "groups", "hub"),
    [
        ("dgx1-v100", "quads", ((0, 1, 2, 3), (4, 5, 6, 7)), ""),
        ("dgx1-v100-measured", "quads", ((0, 1, 2, 3), (6, 7, 4, 5)), ""),
        ("hgx-h100", "hub", (tuple(range(8)),), "NVSwitch"),
        ("atlas-800", "rings", ((0, 1, 2, 3), (4, 5, 6, 7)), ""),
        ("a100-bridged", "pairs", ((0, 1), (2, 3), (4, 5), (6, 7)), ""),
        ("v100-pcie", "tree", ((0, 1, 2, 3), (4, 5, 6, 7)), ""),
        ("mi300", "islands", (tuple(range(8)),), ""),
    ],
)
def test_a_machine_is_drawn_as_it_is_built(
    name: str, shape: str, groups: tuple[tuple[int, ...], ...], hub: str
) -> None:
    links = node_page(seen(machine(name)), "n").links
    assert links is not None
    assert (links.layout.shape, links.layout.groups, links.layout.hub) == (shape, groups, hub)
    assert len(links.pairs) == 28
    speeds = [kind.gbps or 0 for kind in links.kinds]
    assert speeds == sorted(speeds, reverse=True)


def test_measured_links_say_so_and_have_samples() -> None:
    links = node_page(seen(machine("dgx1-v100-measured")), "n").links
    assert links is not None
    assert links.measured
    assert len({speed for *_, speed in links.pairs}) > len(links.kinds)


def test_a_node_without_link_data_has_no_links() -> None:
    broker = broker_of(FakeNode("n", inventory=False))
    assert node_page(seen(broker), "n").links is None


def test_a_node_names_no_pods_and_no_address_to_readers_without_rights() -> None:
    broker = broker_of(FakeNode("n"))
    place(broker, device_pod("secret", 1, namespace="team-b"), "n")
    page = node_page(seen(broker, "team-a"), "n")
    assert "secret" not in str(page)
    assert page.address == ""
    assert [pod.pod for device in page.devices for pod in device.pods] == [""]


def test_an_unknown_node_suggests_one() -> None:
    with pytest.raises(NotFoundError, match="did you mean gpu-1"):
        node_page(seen(broker_of(FakeNode("gpu-1"))), "gpu-2")


def test_a_waiting_pod_has_the_lines_of_explain_what_speaks_against_nodes_and_remedies() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("old", 4), "a")
    broker.observe([device_pod("new", 2)], 1.0)
    page = pod_page(seen(broker), "default", "new")
    explanation = explain_pod(broker, "uid-new", 1.0)
    assert explanation is not None
    assert [page.headline, *page.lines] == explanation_lines(explanation)
    assert page.placed is None
    assert page.waiting is not None
    (against,) = page.waiting.against
    assert (against.count, against.nearest, against.temporary) == (1, "a", True)
    assert page.waiting.remedies[0].pods[0].pod == "default/old"
    assert [(one.pod, one.devices) for one in page.waiting.holders] == [("default/old", 4)]


def test_a_pod_that_could_start_is_not_shown_as_placed_and_says_what_it_waits_for() -> None:
    broker = broker_of(FakeNode("a", count=4))
    broker.observe([device_pod("new", 2)], 1.0)
    page = pod_page(seen(broker), "default", "new")
    assert page.state == "schedulable"
    assert page.headline == "pod default/new is pending: it requests 2 devices (nvidia.com/gpu)"
    assert page.remarks == (
        "no scheduler has called the extender for it yet; check its schedulerName, its scheduling gates and the scheduler",
    )
    assert page.placed is not None
    assert page.placed.reasons[0].startswith("1 of 1 nodes is feasible; it would get")


def test_every_line_of_explain_about_a_waiting_pod_is_in_a_part_of_its_page() -> None:
    broker = broker_of(*(FakeNode(name, count=4) for name in "abcd"))
    for name in "abcd":
        for number in range(4):
            place(broker, device_pod(f"{name}{number}", 1), name)
    broker.observe([device_pod("new", 4)], 1.0)
    page = pod_page(seen(broker), "default", "new")
    assert page.waiting is not None
    assert page.waiting.unresolved == "no node was found where it would fit after up to 3 pods finish"
    parts = {*page.remarks, page.waiting.unresolved, *(remedy.title for remedy in page.waiting.remedies), *page.notes}
    assert [line for line in page.lines if line not in parts] == [
        "4 nodes had too few free devices; nearest is a: 4 devices requested, but none of 4 is free"
    ]


def test_remedies_and_holders_of_other_namespaces_have_no_names() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("secret", 4, namespace="team-b"), "a")
    broker.observe([device_pod("new", 2, namespace="team-a")], 1.0)
    page = pod_page(seen(broker, "team-a"), "team-a", "new")
    assert "secret" not in str(page)
    assert page.waiting is not None
    assert page.waiting.remedies[0].pods[0].pod == ""
    assert [one.pod for one in page.waiting.holders] == [""]


def test_a_placed_pod_says_where_and_how_certain_that_is() -> None:
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("p", 2), "a")
    placed = pod_page(seen(broker), "default", "p").placed
    assert placed is not None
    assert (placed.node, len(placed.devices)) == ("a", 2)
    assert placed.certainty == "the node agent allocates exactly these devices"
    assert placed.slowest == "96 GB/s"
    assert placed.certainty not in placed.reasons


def test_a_group_that_does_not_fit_says_what_it_lacks() -> None:
    broker = broker_of(FakeNode("a", count=4))
    broker.observe(in_gang(device_pod("m0", 4), device_pod("m1", 4), least=2), 1.0)
    page = group_page(seen(broker), "default", "g")
    assert page.stage == "unschedulable"
    assert len(page.members) == 2
    assert page.lacks
    assert page.lacks[0] in page.lines
    assert page.remarks == ("2 of 2 members exist: 2 pending; 2 must start together (koordinator)",)
    assert (page.fitting, page.unresolved) == (1, "it would not fit even if all other pods finished")
    assert page.unresolved in page.lines


def test_a_plan_places_pods_that_do_not_exist_and_changes_nothing() -> None:
    broker = broker_of(FakeNode("a", count=4))
    changes = broker.device_changes
    page = plan_page(seen(broker), [[device_pod("new", 2)]], ())
    (where,) = page.places
    assert (where.pod, where.node, len(where.devices)) == ("default/new", "a", 2)
    assert page.pods[0].placed is not None
    assert (broker.device_changes, dict(broker.pods), broker.group_keys()) == (changes, {}, [])


def test_groups_of_one_manifest_do_not_get_the_same_devices() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    page = plan_page(seen(broker), [[device_pod(name, 4)] for name in ("x", "y", "z")], ())
    assert sorted(where.node for where in page.places) == ["a", "b"]
    assert APART in page.groups[-1].notes


def test_the_bandwidth_of_a_planned_group_is_that_of_its_nodes() -> None:
    broker = Broker()
    for number, kind in enumerate(("dgx1-v100", "dgx1-v100-measured")):
        broker.observe(list(fleet_node(profile(kind), f"n{number}")), 0.0)
    for count in (8, 4, 2):
        (group,) = plan_page(seen(broker), [in_gang(*(device_pod(f"m{n}", count) for n in (0, 1)), least=2)], ()).groups
        levels = {level.name: level.value for level in group.levels}
        assert levels["bottleneck"] == f"slowest pair on a node {group.slowest}"
        slowest = min(member.slowest or 0 for member in group.members)
        assert levels["per pod"] == f"slowest pair of a member {slowest:g} GB/s"
