"""Limits on the work that `linkwise get pods` does for explanations."""

from __future__ import annotations

from dataclasses import replace

from linkwise.broker.broker import Broker
from linkwise.explain.published.lists import MAX_PLANS, PodExplainer
from linkwise.model.views import ContainerView, PodView
from linkwise.testing.cluster import FakeNode, device_pod, in_gang
from linkwise.views.cluster import ClusterView
from linkwise.views.pods import pod_rows


def seen(gangs: int, members: int) -> ClusterView:
    """A node with two devices, and gangs that need more."""
    broker = Broker()
    broker.observe(FakeNode("n").events(), 0.0)
    for number in range(gangs):
        pods = (device_pod(f"g{number}-{place}", 2) for place in range(members))
        broker.observe(in_gang(*pods, least=members, name=f"g{number}"), 0.0)
    return ClusterView(broker, 0.0, "default")


def whys(cluster: ClusterView) -> list[str]:
    return [row.cells["reason"].text for row in pod_rows(cluster, None, "")]


def test_a_group_is_planned_once_for_all_its_members() -> None:
    explainer = PodExplainer(seen(1, 50).broker, 0.0)
    first, *others = explainer.broker.pods
    reasons = {explanation.lacks for explanation in [explainer.explain(first)] if explanation}
    (planned,) = explainer.groups.values()
    reasons |= {explanation.lacks for explanation in map(explainer.explain, others) if explanation}
    assert reasons == {("its group needs 50 nodes with 2 free devices; 1 has them",)}
    assert [group is planned for group in explainer.groups.values()] == [True]


def test_only_the_first_groups_are_planned() -> None:
    reasons = whys(seen(MAX_PLANS + 5, 2))
    assert reasons.count("its group needs 2 nodes with 2 free devices; 1 has them") == 2 * MAX_PLANS
    assert reasons.count("its group is complete") == 10


def test_pending_pods_with_a_misspelt_resource_are_shown_with_the_right_name() -> None:
    cluster = seen(0, 0)
    boxes = [(ContainerView("main", limits={name: "1"}),) for name in ("nvidia.com/gpus", "example.com/gpu")]
    pods = [PodView("default", f"p{number}", f"u{number}", box) for number, box in enumerate(boxes)]
    cluster.broker.observe([*pods, replace(pods[0], uid="u2", name="p2", node="n")], 0.0)
    assert [row.cells["name"].text for row in pod_rows(cluster, None, "")] == ["p0"]
    assert whys(cluster) == ["no node provides nvidia.com/gpus; did you mean nvidia.com/gpu?"]
