"""Callers with rights in one namespace, over HTTP: who they are and what they may read is the API server's word."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.inventory import KIND
from linkwise.dialects.linkwise.usage import usage_fields, with_usage
from linkwise.model.usage import DeviceUsage, NodeUsage, PodUsage
from linkwise.model.views import Owner
from linkwise.net.http.messages import Request, Response
from linkwise.net.timing import Timing
from linkwise.serve.app import application
from linkwise.serve.explanations.access import REMEMBERED_SECONDS, Access
from linkwise.serve.strangers import Strangers
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod, in_gang, place
from support.fakes.http_service import Served
from support.fakes.review_api import ReviewApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkwise.broker.broker import Broker

USERS = {"s3cret": "alice", "root": "admin"}
RIGHTS = {"alice": {("get", "team-a", ""), ("list", "team-a", "")}, "admin": {("get", "team-a", ""), ("list", "", "")}}
ALICE = {"X-Linkwise-Token": "s3cret"}
JSON = {**ALICE, "Accept": "application/json"}
POD = "/explain/team-a/p"


def cluster() -> Broker:
    """A pod of team-a waits for the devices of a pod of team-b; a gang of team-a is incomplete."""
    broker = broker_of(FakeNode("a", count=4), FakeNode("s", "share"))
    place(broker, device_pod("rival", 4, namespace="team-b"), "a")
    place(broker, device_pod("sharer", 4, MEMORY, namespace="team-b"), "s")
    (member,) = in_gang(device_pod("m", 1), least=2, total=2)
    broker.observe([replace(pod, namespace="team-a") for pod in (device_pod("p", 2), member)], 1.0)
    return broker


OTHERS = (
    *(("POST", path) for path in ("/filter", "/prioritize", "/bind", "/preempt", "/volcano/predicate")),
    *(("GET", path) for path in ("/metrics", "/readyz", "/livez", "/debug/snapshot", "/debug/explain/team-a/p")),
    *(("GET", path) for path in ("/gpushare-scheduler/inspect", "/gpushare-scheduler/inspect/a", "/version")),
)
"""what schedulers, Prometheus and administrators call"""


@contextmanager
def served(seconds: list[float] | None = None) -> Iterator[tuple[Served, ReviewApi]]:
    clock = seconds or [0.0]
    with ReviewApi(USERS, RIGHTS) as api:
        access = Access(api.reviewer(), Timing(clock=lambda: clock[0]))
        with Served(cluster(), access=access) as service:
            yield service, api


def test_a_pod_is_explained_to_users_who_may_get_it_without_names_of_others() -> None:
    with served() as (service, _):
        answer = service.get(POD, ALICE)
        document = service.get(POD, JSON)
        other = service.get("/v1/namespaces/team-a/pods/p/explanation", JSON)
    assert answer.status == 200
    assert "it fits on node a once a pod of another namespace (4 devices) finishes" in answer.text
    assert b"rival" not in document.body
    assert document.json["code"] == "NoRoom"
    assert other.body == document.body


def test_the_port_for_tenants_has_no_other_routes() -> None:
    with ReviewApi(USERS, RIGHTS) as api:
        access = Access(api.reviewer(), Timing())
        with Served(cluster(), access=access, tenants="alone") as alone:
            answered = [alone.get(path, ALICE).status for path in (POD, "/v1/tables/pod?namespace=team-a")]
            others = {alone.call(method, path, {}, ALICE).status for method, path in OTHERS}
        with Served(cluster(), access=access, tenants="elsewhere") as main:
            moved = [main.get(path, ALICE).status for path in (POD, "/v1/tables/pod?namespace=team-a")]
            kept = main.get("/metrics").status
    assert (answered, others) == ([200, 200], {404})
    assert (moved, kept) == ([404, 404], 200)


def test_a_bearer_token_counts_too() -> None:
    with served() as (service, _):
        assert service.get(POD, {"Authorization": "Bearer s3cret"}).status == 200


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({}, "send a token of the cluster in the header X-Linkwise-Token"),
        ({"X-Linkwise-Token": "made-up"}, "the API server does not accept the token"),
        ({"X-Linkwise-Token": "x" * 20_000}, "send a token of the cluster"),
        ({"Authorization": "Basic s3cret"}, "send a token of the cluster"),
    ],
)
def test_a_caller_without_a_valid_token_is_not_answered(headers: dict[str, str], sentence: str) -> None:
    with served() as (service, _):
        answer = service.get(POD, headers)
    assert answer.status == 401
    assert sentence in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/explain/team-b/rival",
        "/explain/team-b/made-up",
        "/v1/namespaces/team-b/pods",
        "/v1/namespaces/team-b/usage",
        "/v1/namespaces/team-b/allocations",
        "/v1/namespaces/team-b/workloads/job/train/explanation",
    ],
)
def test_other_namespaces_are_denied_whether_the_pod_exists_or_not(path: str) -> None:
    with served() as (service, _):
        answer = service.get(path, ALICE)
    assert answer.status == 403
    assert answer.text.startswith("user alice may not ")
    assert "ask an administrator to grant" in answer.text


def test_who_may_list_pods_everywhere_reads_all_names() -> None:
    with served() as (service, _):
        assert "team-b/rival" in service.get(POD, {"X-Linkwise-Token": "root"}).text


def test_the_pods_and_groups_of_a_namespace_are_listed_with_code_and_reason() -> None:
    with served() as (service, _):
        pods = service.get("/v1/namespaces/team-a/pods", ALICE)
        groups = service.get("/v1/namespaces/team-a/groups", ALICE)
        group = service.get("/v1/namespaces/team-a/groups/g/explanation", JSON)
    assert {each["pod"]: each["code"] for each in pods.json["items"]} == {"p": "NoRoom", "m": "GangIncomplete"}
    assert b"rival" not in pods.body
    assert [(each["name"], each["data"]["code"]) for each in groups.json["items"]] == [("g", "GangIncomplete")]
    assert group.json["lines"][0].startswith("group team-a/g is pending")


@pytest.mark.rule("002.usage")
def test_a_tenant_reads_the_usage_of_its_own_pods() -> None:
    broker = broker_of(FakeNode("a", count=4))
    for namespace, name in (("team-a", "mine"), ("team-b", "rival")):
        place(broker, device_pod(name, 1, namespace=namespace), "a")
    uses = tuple(
        PodUsage(f"uid-{name}", namespace, name, "GPU-a-0", 1 << 30, 40)
        for namespace, name in (("team-a", "mine"), ("team-b", "rival"))
    )
    known = broker.state_at(1.0).cluster.objects.of("a").get(KIND) or {"metadata": {"name": "a"}, "spec": {}}
    usage = NodeUsage((DeviceUsage("GPU-a-0", 1 << 34, 1 << 31, 80),), uses)
    broker.observe([NodeObject("a", KIND, dict(with_usage(known, usage_fields(usage))))], 1.0)
    path = "/v1/namespaces/team-a/usage"
    with ReviewApi(USERS, RIGHTS) as api, Served(broker, access=Access(api.reviewer(), Timing())) as service:
        answer, none = service.get(path, ALICE), service.get(f"{path}?labelSelector=app%3Dother", ALICE)
        wrong = service.get(f"{path}?labelSelector=a%20in%20(", ALICE)
        denied = service.get("/v1/namespaces/team-b/usage", ALICE)
    (row,) = answer.json["items"]
    assert (row["name"], row["used"], row["total"]) == ("mine", 1 << 30, 1 << 34)
    assert b"rival" not in answer.body
    assert (none.json["items"], wrong.status, denied.status) == ([], 400, 403)


def test_a_pod_that_is_not_there_is_not_found() -> None:
    with served() as (service, _):
        assert service.get("/explain/team-a/unknown", ALICE).status == 404
        assert service.get("/v1/namespaces/team-a/groups/unknown/explanation", ALICE).status == 404


def test_answers_of_the_api_server_are_used_again_for_seconds() -> None:
    clock = [0.0]
    with served(clock) as (service, api):
        service.get(POD, ALICE)
        asked = len(api.reviews)
        service.get(POD, ALICE)
        assert len(api.reviews) == asked == 3
        api.rights["alice"].clear()
        clock[0] += REMEMBERED_SECONDS
        assert service.get(POD, ALICE).status == 403


def test_a_service_that_may_not_ask_names_the_role_it_lacks() -> None:
    with served() as (service, api):
        api.refused = True
        answer = service.get(POD, ALICE)
    assert answer.status == 503
    assert "may not create tokenreviews.authentication.k8s.io" in answer.text
    assert "linkwise manifests rbac" in answer.text


def test_without_access_the_routes_are_turned_off() -> None:
    with Served(cluster()) as service:
        answer = service.get(POD, ALICE)
    assert answer.status == 403
    assert "explain.tenants" in answer.text


@pytest.mark.rule("004.routes")
def test_inspect_through_a_proxy_names_pods_only_to_those_who_may_list_them() -> None:
    path, through = "/gpushare-scheduler/inspect/s", {"X-Forwarded-For": "10.0.0.7"}
    with served() as (service, _):
        names = [service.get(path, {**through, **more}).text for more in ({}, ALICE, {"X-Linkwise-Token": "root"})]
        direct = service.get(path).text
    assert ["sharer" in text for text in (*names, direct)] == [False, False, True, True]
    assert '"usedGPU":4' in names[0]


@pytest.mark.rule("004.routes")
@pytest.mark.parametrize(
    ("tls", "certified", "headers", "named"),
    [
        (True, False, {}, False),
        (True, False, {b"x-linkwise-token": b"s3cret"}, False),
        (True, False, {b"x-linkwise-token": b"root"}, True),
        (True, True, {}, True),
        (True, True, {b"x-forwarded-for": b"10.0.0.8"}, False),
        (False, False, {}, True),
    ],
)
@pytest.mark.parametrize("node", ["", "/s"])
def test_inspect_names_pods_under_tls_only_to_callers_that_are_known(
    *, tls: bool, certified: bool, headers: dict[bytes, bytes], named: bool, node: str
) -> None:
    async def body(service: Served, api: ReviewApi) -> bytes:
        strangers = Strangers(service.service.counting, Timing()) if tls else None
        routes = application(service.service, dict, access=Access(api.reviewer()), strangers=strangers)
        path = f"/gpushare-scheduler/inspect{node}".encode()
        request = Request(path, headers, "10.0.0.7", asyncio.Event(), "GET", certified=certified)
        response = routes.handle(request)
        return (response if isinstance(response, Response) else await response).body

    with served() as (service, api):
        answer = asyncio.run(body(service, api))
    assert (b"sharer" in answer) == (b"team-b" in answer) == named
    assert b'"usedGPU":4' in answer


def test_inspect_names_no_pods_through_a_proxy_if_tenants_are_not_answered() -> None:
    with Served(cluster()) as service:
        answer = service.get("/gpushare-scheduler/inspect", {"X-Forwarded-For": "10.0.0.7"})
    assert "sharer" not in answer.text


def test_debug_explanations_carry_the_code() -> None:
    with Served(cluster()) as service:
        answer = service.get("/debug/explain/team-a/p", {"Accept": "application/json"})
    assert answer.json["code"] == answer.json["data"]["code"] == "NoRoom"


def test_a_tenant_sees_the_allocations_of_its_own_namespace_only() -> None:
    with served() as (service, _):
        answer = service.get("/v1/namespaces/team-a/allocations", ALICE)
    assert {(row["namespace"], row["resource"], row["pending_pods"]) for row in answer.json["items"]} == {
        ("team-a", "nvidia.com/gpu", 2)
    }
    assert b"team-b" not in answer.body


def test_lists_of_a_tenant_are_selected_by_labels() -> None:
    with served() as (service, _):
        none = service.get("/v1/namespaces/team-a/pods?labelSelector=app%3Dweb", ALICE)
        wrong = service.get("/v1/namespaces/team-a/pods?labelSelector=a%3D%3D%3Db", ALICE)
    assert none.json["items"] == []
    assert wrong.status == 400


def test_a_workload_is_explained_without_names_of_others() -> None:
    owned = replace(device_pod("train-0", 2, namespace="team-a"), owner=Owner("Job", "train", "uid-train"))
    with served() as (service, _):
        service.service.broker.observe([owned], 2.0)
        answer = service.get("/v1/namespaces/team-a/workloads/job/train/explanation", ALICE)
        absent = service.get("/v1/namespaces/team-a/workloads/job/other/explanation", ALICE)
    assert "train has 1 pod" in answer.text
    assert b"rival" not in answer.body
    assert absent.status == 404
