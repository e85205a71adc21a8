"""Tables over HTTP: what a caller sees is what its own rights cover."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.net.timing import Timing
from linkwise.serve.explanations.access import MAX_NAMESPACES, Access
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.views.blocks import decode_page
from linkwise.views.cluster import ClusterView
from linkwise.views.description import description_of
from linkwise.views.listing import section_of
from linkwise.views.table import KINDS, OF_NAMESPACES, OF_NODES, Selection, encode_section
from support.fakes.http_service import Served
from support.fakes.review_api import ReviewApi

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = {"s3cret": "alice", "root": "admin", "half": "operator", "none": "stranger", "get": "reader"}
RIGHTS = {
    "alice": {("list", "team-a", "")},
    "admin": {("list", "", ""), ("list", "default", ""), ("list", "team-a", ""), ("list", "nodes", "")},
    "reader": {("get", "team-a", "own")},
    "operator": {("list", "nodes", "")},
}
ALICE, ADMIN, HALF, NONE, POD_READER = ({"X-Linkwise-Token": token} for token in USERS)


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


@pytest.mark.parametrize("kind", sorted(OF_NAMESPACES))
def test_lists_of_all_namespaces_have_those_that_the_caller_may_read(kind: str) -> None:
    with served() as service:
        mine = service.get(f"/v1/tables/{kind}?documents=true", ALICE)
        none = service.get(f"/v1/tables/{kind}?documents=true", HALF)
        named = service.get(f"/v1/tables/{kind}?namespace=team-a&documents=true", ALICE)
    assert {row["name"] for row in mine.json["rows"]} == {row["name"] for row in named.json["rows"]}
    assert mine.json["notes"] == ["only namespaces that your rights cover are shown: team-a", *named.json["notes"]]
    assert b"rival" not in mine.body + none.body
    assert b"team-b" not in mine.body + none.body
    assert (none.status, none.json["rows"]) == (200, [])


def test_lists_of_all_namespaces_ask_about_a_limited_number_of_them() -> None:
    names = [f"n{number:03}" for number in range(MAX_NAMESPACES + 1)]
    broker = broker_of(FakeNode("a", count=4))
    broker.observe([replace(device_pod(name, 1), namespace=name) for name in names], 1.0)
    rights = {"alice": {("list", names[0], ""), ("list", names[-1], "")}}
    with ReviewApi(USERS, rights) as api, Served(broker, access=Access(api.reviewer(), Timing())) as service:
        listed = service.get("/v1/tables/pod", ALICE)
        assert len(api.reviews) == MAX_NAMESPACES + 2
        nodes = service.get(f"/v1/tables/device?namespace={names[-1]}", ALICE)
    assert [row["name"] for row in listed.json["rows"]] == ["pod/n000"]
    assert listed.json["notes"] == [
        "only namespaces that your rights cover are shown: n000; 1 more were not checked: name yours with -n"
    ]
    assert nodes.status == 200


@pytest.mark.parametrize("headers", [ALICE, HALF])
def test_nodes_and_devices_are_shown_without_names_of_pods_of_others(headers: dict[str, str]) -> None:
    with served() as service:
        answers = {
            kind: service.get(f"/v1/tables/{kind}?namespace=team-a&documents=true&wide=true", headers)
            for kind in sorted(OF_NODES)
        }
        known = service.get("/v1/tables/device?wide=true", ADMIN)
        nodes = service.get("/v1/tables/node?namespace=team-a", headers)
    assert {answer.status for answer in answers.values()} == {200}
    assert all(b"rival" not in answer.body and b"team-b" not in answer.body for answer in answers.values())
    device = answers["device"].json
    assert device["notes"] == ["pods of namespaces that your rights do not cover are not named"]
    assert "a pod of another namespace" in device["rows"][0]["cells"]
    (holder,) = device["rows"][0]["document"]["pods"]
    assert (holder["uid"], holder["namespace"], holder["name"]) == ("", "", "a pod of another namespace")
    assert (holder["whole"], holder["state"]) == (True, "bound")
    assert "team-b/rival" in known.json["rows"][0]["cells"]
    assert nodes.json["notes"] == []


def test_nodes_are_not_shown_to_callers_without_a_namespace() -> None:
    with served() as service:
        answers = [service.get(path, NONE) for path in ("/v1/tables/device?namespace=x", "/v1/nodes/a/explanation")]
    assert [answer.status for answer in answers] == [403, 403]
    assert answers[0].text.strip() == (
        "user stranger may not list pods in namespace x, nor in others with devices: name a namespace of yours with -n"
    )


@pytest.mark.parametrize("headers", [ALICE, HALF])
@pytest.mark.parametrize("path", ["policy", "capacity", "capacity?namespace=team-b", "pod?name=p"])
def test_what_concerns_other_namespaces_is_refused_without_advice_to_get_rights_on_the_cluster(
    path: str, headers: dict[str, str]
) -> None:
    with served() as service:
        answer = service.get(f"/v1/tables/{path}", headers)
    assert answer.status == 403
    assert " may not " in answer.text
    assert not any(word in answer.text for word in ("rival", "nodes", "all pods", "cluster role"))


def test_other_namespaces_are_denied() -> None:
    with served() as service:
        assert service.get("/v1/tables/pod?namespace=team-b", ALICE).status == 403


def test_a_node_is_explained_without_names_of_pods_of_others() -> None:
    with served() as service:
        answer = service.get("/v1/nodes/a/explanation", ADMIN)
        unknown = service.get("/v1/nodes/b/explanation", ADMIN)
        tenant = service.get("/v1/nodes/a/explanation?namespace=team-a", ALICE)
        document = service.get("/v1/nodes/a/explanation", {**ALICE, "Accept": "application/json"})
    assert "team-b/rival" in answer.text
    assert (unknown.status, unknown.text.strip()) == (404, "node b not found; there is a")
    assert tenant.text == answer.text.replace("pod team-b/rival", "a pod of another namespace")
    assert b"team-b" not in document.body


def test_descriptions_are_those_of_the_command_line_without_names_of_pods_of_others() -> None:
    with served() as service:
        broker = service.service.broker
        broker.observe([replace(device_pod("own", 2), namespace="team-a")], 2.0)
        cluster = ClusterView(broker, service.service.clock(), "default", is_service=True)
        expected = description_of(cluster, "node", "a", "")
        node = service.get("/v1/nodes/a/description", ADMIN)
        tenant = service.get("/v1/nodes/a/description?namespace=team-a", ALICE)
        pod = service.get("/v1/namespaces/team-a/pods/own/description", POD_READER)
        denied = service.get("/v1/namespaces/team-b/pods/rival/description", ALICE)
        group = service.get("/v1/namespaces/team-a/groups/none/description", ALICE)
        refused = service.get("/v1/nodes/a/description?namespace=x", NONE)
    assert decode_page(node.json) == expected
    assert "team-b/rival" in node.text
    assert tenant.json["page"] == json.loads(node.body.replace(b"team-b/rival", b"a pod of another namespace"))["page"]
    assert pod.json["page"][0][0]["lines"][0].startswith("pod team-a/own is pending")
    assert (denied.status, group.status, refused.status) == (403, 404, 403)


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
