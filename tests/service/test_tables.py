"""Tables over HTTP: what a caller sees is what its own rights cover."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.net.timing import Timing
from linkwise.serve.explanations.access import Access
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.views.cluster import ClusterView
from linkwise.views.listing import section_of
from linkwise.views.selection import KINDS, OF_NAMESPACES, Selection
from linkwise.views.table import encode_section
from support.fakes.http_service import Served
from support.fakes.review_api import ReviewApi

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = {"s3cret": "alice", "root": "admin", "half": "nodes-only"}
RIGHTS = {
    "alice": {("list", "team-a", "")},
    "admin": {("list", "", ""), ("list", "team-a", ""), ("list", "nodes", "")},
    "nodes-only": {("list", "nodes", "")},
}
ALICE, ADMIN, HALF = ({"X-Linkwise-Token": token} for token in USERS)


@contextmanager
def served() -> Iterator[Served]:
    """A service with a pod of team-a that waits for the devices of a pod of team-b."""
    broker = broker_of(FakeNode("a", count=4))
    place(broker, device_pod("rival", 4, namespace="team-b"), "a")
    broker.observe([replace(device_pod("p", 2), namespace="team-a")], 1.0)
    with ReviewApi(USERS, RIGHTS) as api, Served(broker, access=Access(api.reviewer(), Timing())) as service:
        yield service


def test_an_administrator_gets_every_table_as_the_command_line_computes_it() -> None:
    with served() as service:
        for kind in sorted(KINDS):
            answer = service.get(f"/v1/tables/{kind}?wide=true", ADMIN)
            cluster = ClusterView(service.service.broker, service.service.clock(), "default", is_service=True)
            expected = encode_section(section_of(cluster, Selection(kind)))
            assert answer.status == 200, answer.text
            assert [row["name"] for row in answer.json["rows"]] == [row["name"] for row in expected["rows"]]
            assert answer.json["columns"] == expected["columns"]


def test_a_tenant_gets_its_own_namespace_without_names_of_others() -> None:
    with served() as service:
        pods = service.get("/v1/tables/pod?namespace=team-a&documents=true", ALICE)
        others = [service.get(f"/v1/tables/{kind}?namespace=team-a", ALICE) for kind in sorted(OF_NAMESPACES)]
    assert [row["name"] for row in pods.json["rows"]] == ["pod/p"]
    assert pods.json["rows"][0]["document"]["code"] == "NoRoom"
    assert all(answer.status == 200 for answer in others)
    assert all(b"rival" not in answer.body and b"team-b" not in answer.body for answer in (pods, *others))


@pytest.mark.parametrize("headers", [ALICE, HALF])
@pytest.mark.parametrize(
    "path", ["node", "device", "policy", "capacity?namespace=team-a", "node-usage", "pod", "usage"]
)
def test_the_whole_cluster_needs_rights_on_all_nodes_and_pods(path: str, headers: dict[str, str]) -> None:
    with served() as service:
        answer = service.get(f"/v1/tables/{path}", headers)
    assert answer.status == 403
    assert " may not list " in answer.text
    assert "rival" not in answer.text


def test_other_namespaces_are_denied() -> None:
    with served() as service:
        assert service.get("/v1/tables/pod?namespace=team-b", ALICE).status == 403


def test_a_node_is_explained_to_callers_that_may_list_nodes_and_pods() -> None:
    with served() as service:
        answer = service.get("/v1/nodes/a/explanation", ADMIN)
        unknown = service.get("/v1/nodes/b/explanation", ADMIN)
        denied = [service.get("/v1/nodes/a/explanation", headers).status for headers in (ALICE, HALF)]
    assert "team-b/rival" in answer.text
    assert (unknown.status, unknown.text.strip()) == (404, "node b not found; there is a")
    assert denied == [403, 403]


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("secret", 400, "unknown table 'secret'"),
        ("pod?labelSelector=a%20in%20(", 400, "in"),
        ("node?name=b", 404, "node b not found; there is a"),
        ("usage?name=x", 400, "usage has no names"),
        ("node-usage?sortBy=age", 400, "sortBy=age"),
    ],
)
def test_invalid_requests_and_unknown_names_are_reported(path: str, status: int, sentence: str) -> None:
    with served() as service:
        answer = service.get(f"/v1/tables/{path}", ADMIN)
    assert answer.status == status
    assert sentence in answer.text


def test_the_names_of_other_pods_are_suggested_to_callers_that_may_list_them_only() -> None:
    with served() as service:
        service.service.broker.observe([replace(device_pod("train", 1), namespace="team-a")], 2.0)
        tenant = service.get("/v1/tables/pod?namespace=team-a&name=trai", ALICE)
        elsewhere = service.get("/v1/tables/pod?namespace=team-a&name=rival", ALICE)
    assert tenant.text.strip() == "pod team-a/trai not found; did you mean train?"
    assert "team-b" not in elsewhere.text
