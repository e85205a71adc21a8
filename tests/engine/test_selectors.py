"""Labels, taints and ports match as Kubernetes matches them."""

from __future__ import annotations

import pytest

from linkwise import NodeView, Taint, Toleration
from linkwise.engine.selectors import meets, node_term_text, pod_term_text, selects, tolerates
from linkwise.model.views import NodeTerm, PodTerm, Requirement

NODE = NodeView("n1", labels={"zone": "a", "gen": "3"})


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("disk", "In", ("b",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("disk", "NotIn", ("a",)), True),
        (Requirement("zone", "Exists"), True),
        (Requirement("disk", "Exists"), False),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("disk", "DoesNotExist"), True),
        (Requirement("gen", "Gt", ("2",)), True),
        (Requirement("gen", "Gt", ("3",)), False),
        (Requirement("gen", "Lt", ("10",)), True),
        (Requirement("gen", "Lt", ("-1",)), False),
        (Requirement("zone", "Gt", ("2",)), False),
        (Requirement("disk", "Lt", ("2",)), False),
        (Requirement("gen", "Gt", ()), False),
        (Requirement("gen", "Gt", ("1", "2")), False),
        (Requirement("gen", "Like", ("3",)), False),
    ],
)
def test_every_operator_means_what_kubernetes_means(requirement: Requirement, *, met: bool) -> None:
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
        (PodTerm("host", {"app": "web"}, (Requirement("app", "NotIn", ("web",)),), all_namespaces=True), False),
        (PodTerm("host", {}, (Requirement("", "In"),), all_namespaces=True), False),
    ],
)
def test_a_term_means_pods_by_namespace_and_labels(term: PodTerm, *, meant: bool) -> None:
    assert selects(term, "ns", {"app": "web"}) is meant


def test_terms_are_written_as_selectors_are() -> None:
    found = (
        Requirement("zone", "NotIn", ("a", "b")),
        Requirement("old", "DoesNotExist"),
        Requirement("gen", "Gt", ("2",)),
    )
    assert node_term_text(NodeTerm(found, (Requirement("x", "Like", ("y",)),))) == "zone notin (a,b),!old,gen>2,x ? (y)"
    assert pod_term_text(PodTerm("host", {"app": "web"}, (Requirement("tier", "Exists"),))) == "app=web,tier"
    assert (node_term_text(NodeTerm()), pod_term_text(PodTerm("host"))) == ("nothing", "any pod")
