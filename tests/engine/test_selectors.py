"""Labels, taints and ports match as Kubernetes matches them."""

from __future__ import annotations

import pytest

from linkwise import NodeView, Taint, Toleration
from linkwise.engine.selectors import meets, node_term_text, pod_term_text, selects, tolerates
from linkwise.model.views import NodeTerm, PodTerm, SelectorRequirement

NODE = NodeView("n1", labels={"zone": "a", "gen": "3"})


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        (SelectorRequirement("zone", "In", ("a", "b")), True),
        (SelectorRequirement("zone", "In", ("b",)), False),
        (SelectorRequirement("disk", "In", ("b",)), False),
        (SelectorRequirement("zone", "NotIn", ("b",)), True),
        (SelectorRequirement("zone", "NotIn", ("a",)), False),
        (SelectorRequirement("disk", "NotIn", ("a",)), True),
        (SelectorRequirement("zone", "Exists"), True),
        (SelectorRequirement("disk", "Exists"), False),
        (SelectorRequirement("zone", "DoesNotExist"), False),
        (SelectorRequirement("disk", "DoesNotExist"), True),
        (SelectorRequirement("gen", "Gt", ("2",)), True),
        (SelectorRequirement("gen", "Gt", ("3",)), False),
        (SelectorRequirement("gen", "Lt", ("10",)), True),
        (SelectorRequirement("gen", "Lt", ("-1",)), False),
        (SelectorRequirement("zone", "Gt", ("2",)), False),
        (SelectorRequirement("disk", "Lt", ("2",)), False),
        (SelectorRequirement("gen", "Gt", ()), False),
        (SelectorRequirement("gen", "Gt", ("1", "2")), False),
        (SelectorRequirement("gen", "Like", ("3",)), False),
    ],
)
def test_every_operator_means_what_kubernetes_means(requirement: SelectorRequirement, *, met: bool) -> None:
    assert meets(NODE, NodeTerm(expressions=(requirement,))) is met


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Equal", "infra"), True),
        (Toleration("dedicated", "", "infra"), True),
        (Toleration("dedicated", "Equal", "infra", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "infra", "NoExecute"), False),
        (Toleration("dedicated", "Equal", "web"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("dedicated", "Gt", "infra"), False),
    ],
)
def test_every_toleration_means_what_kubernetes_means(toleration: Toleration, *, tolerated: bool) -> None:
    assert tolerates((Toleration("x"), toleration), Taint("dedicated", "infra")) is tolerated


@pytest.mark.parametrize(
    ("term", "meant"),
    [
        (PodTerm("host", namespaces=("ns",)), True),
        (PodTerm("host", all_namespaces=True), True),
        (PodTerm("host", namespaces=("other",)), False),
        (PodTerm("host"), False),
        (PodTerm("host", {"app": "web"}, all_namespaces=True), True),
        (PodTerm("host", {"app": "db"}, all_namespaces=True), False),
        (PodTerm("host", {"app": "web", "tier": "x"}, all_namespaces=True), False),
        (PodTerm("host", {"app": "web"}, (SelectorRequirement("app", "NotIn", ("web",)),), all_namespaces=True), False),
        (PodTerm("host", {}, (SelectorRequirement("", "In"),), all_namespaces=True), False),
    ],
)
def test_a_term_means_pods_by_namespace_and_labels(term: PodTerm, *, meant: bool) -> None:
    assert selects(term, "ns", {"app": "web"}) is meant


def test_terms_are_written_as_selectors_are() -> None:
    found = (
        SelectorRequirement("zone", "NotIn", ("a", "b")),
        SelectorRequirement("old", "DoesNotExist"),
        SelectorRequirement("gen", "Gt", ("2",)),
    )
    assert (
        node_term_text(NodeTerm(found, (SelectorRequirement("x", "Like", ("y",)),)))
        == "zone notin (a,b),!old,gen>2,x ? (y)"
    )
    assert pod_term_text(PodTerm("host", {"app": "web"}, (SelectorRequirement("tier", "Exists"),))) == "app=web,tier"
    assert (node_term_text(NodeTerm()), pod_term_text(PodTerm("host"))) == ("nothing", "any pod")
