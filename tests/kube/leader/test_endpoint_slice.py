"""The EndpointSlice that leads to the leader: written once, and repaired if another client changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkwise.errors import ClusterError
from linkwise.kube.client.api import FencedConnection
from linkwise.kube.leader.endpoint_slice import Endpoint, LeaderEndpoints, LeaderSlice
from linkwise.net.http.client import NotSentError
from support.fakes.scripted_api import Reply, Request, ScriptedApi, play

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

ALL = "/apis/discovery.k8s.io/v1/namespaces/linkwise-system/endpointslices"
ONE = f"{ALL}/linkwise-leader"
SERVICE = "GET /api/v1/namespaces/linkwise-system/services/linkwise"
MISSING = Reply(404, {"kind": "Status", "code": 404})
HERE = Endpoint("10.0.0.7", {"https": 39999}, "linkwise-0")


def keep(endpoint: Endpoint = HERE, found: Reply = MISSING, service: Reply | None = None) -> list[Request]:
    """Look at the slice once; the requests."""

    async def scenario(api: ScriptedApi, connection: Connection) -> list[Request]:
        api.script(f"GET {ONE}", found)
        api.script(SERVICE, service or Reply(200, {"metadata": {"name": "linkwise", "uid": "s-1"}}))
        api.script(f"POST {ALL}", Reply(201, {}))
        api.script(f"PUT {ONE}", Reply(200, {}))
        await LeaderSlice(connection, "linkwise-system", "linkwise", endpoint).keep()
        return api.requests

    return play(scenario)


def written() -> dict[str, Any]:
    document: dict[str, Any] = keep()[-1].document
    return document


def test_a_missing_slice_is_created_with_the_labels_by_which_a_service_finds_it() -> None:
    document = written()
    assert document["metadata"]["labels"] == {
        "kubernetes.io/service-name": "linkwise",
        "endpointslice.kubernetes.io/managed-by": "linkwise.dev",
    }
    assert document["ports"] == [{"name": "https", "port": 39999, "protocol": "TCP"}]
    assert document["endpoints"][0]["addresses"] == ["10.0.0.7"]
    assert document["endpoints"][0]["conditions"]["ready"] is True
    assert document["endpoints"][0]["targetRef"] == {
        "kind": "Pod",
        "namespace": "linkwise-system",
        "name": "linkwise-0",
    }


def test_the_service_owns_it_so_that_it_goes_with_the_service() -> None:
    owner = {"apiVersion": "v1", "kind": "Service", "name": "linkwise", "uid": "s-1"}
    assert written()["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize(("address", "kind"), [("10.0.0.7", "IPv4"), ("fd00::7", "IPv6")])
def test_the_type_is_that_of_the_address(address: str, kind: str) -> None:
    assert keep(Endpoint(address, {"http": 1}))[-1].document["addressType"] == kind


def test_a_slice_that_is_as_it_should_be_is_left_alone() -> None:
    requests = keep(found=Reply(200, written()))
    assert [request.verb for request in requests] == ["GET"]


@pytest.mark.parametrize(
    "change",
    [
        {"endpoints": []},
        {"ports": [{"name": "https", "port": 1, "protocol": "TCP"}]},
        {"metadata": {"name": "linkwise-leader", "resourceVersion": "9", "labels": {}}},
    ],
)
def test_a_slice_that_was_changed_is_repaired(change: dict[str, Any]) -> None:
    changed = {**written(), **change}
    changed["metadata"] = {**changed["metadata"], "resourceVersion": "9"}
    request = keep(found=Reply(200, changed))[-1]
    assert (request.verb, request.document["metadata"]["resourceVersion"]) == ("PUT", "9")
    assert request.document["endpoints"] == written()["endpoints"]


def test_a_missing_service_is_reported_with_what_to_do() -> None:
    with pytest.raises(ClusterError, match=r"Service linkwise-system/linkwise does not exist.*without a selector"):
        keep(service=MISSING)


def test_a_replica_that_does_not_lead_writes_no_slice() -> None:
    def refuse() -> None:
        raise NotSentError("it does not lead")

    async def scenario(api: ScriptedApi, connection: Connection) -> list[Request]:
        api.script(SERVICE, Reply(200, {"metadata": {"uid": "s-1"}}))
        fenced = FencedConnection(connection, refuse)
        with pytest.raises(NotSentError):
            await LeaderSlice(fenced, "linkwise-system", "linkwise", HERE).keep()
        return api.requests

    assert {request.verb for request in play(scenario)} == {"GET"}


def withdrawn(found: Reply, *puts: Reply, kind: type[LeaderSlice] = LeaderSlice) -> list[Request]:
    """Withdraw a replica that starts at the address of the last leader; the requests."""
    path = ONE if kind is LeaderSlice else "/api/v1/namespaces/linkwise-system/endpoints/linkwise"

    async def scenario(api: ScriptedApi, connection: Connection) -> list[Request]:
        api.script(f"GET {path}", found, *((MISSING,) if puts and puts[0].status == 409 else ()))
        api.script(f"PUT {path}", *puts or (Reply(200, {}),))
        here = Endpoint(HERE.address, HERE.ports, "linkwise-1")
        await kind(connection, "linkwise-system", "linkwise", here).withdraw()
        return api.requests

    return play(scenario)


def test_the_address_of_this_replica_is_taken_out_of_the_version_that_was_read() -> None:
    found = written()
    found["metadata"]["resourceVersion"] = "9"
    request = withdrawn(Reply(200, found))[1]
    assert (request.verb, request.document["metadata"]["resourceVersion"]) == ("PUT", "9")
    assert request.document["endpoints"] == []
    assert request.document["ports"] == found["ports"]


def test_the_address_of_this_replica_is_taken_out_of_endpoints_too() -> None:
    request = withdrawn(Reply(200, kept_endpoints()[-1].document), kind=LeaderEndpoints)[1]
    assert (request.verb, request.document["subsets"]) == ("PUT", [])


@pytest.mark.parametrize(
    "endpoint", [Endpoint("10.0.0.8", {"https": 39999}, "b"), Endpoint("10.0.0.7", {"https": 40000}, "b")]
)
def test_what_leads_to_another_replica_stays(endpoint: Endpoint) -> None:
    found = Reply(200, keep(endpoint)[-1].document)
    assert [request.verb for request in withdrawn(found)] == ["GET"]
    assert [request.verb for request in withdrawn(MISSING)] == ["GET"]


def test_what_a_leader_wrote_meanwhile_stays() -> None:
    requests = withdrawn(Reply(200, written()), Reply(409, {"kind": "Status", "code": 409}))
    assert [request.verb for request in requests] == ["GET", "PUT", "GET"]


def test_an_address_that_may_not_be_taken_out_is_reported() -> None:
    forbidden = Reply(403, {"kind": "Status", "code": 403, "message": "forbidden"})
    with pytest.raises(ClusterError, match="can't update EndpointSlice linkwise-system/linkwise-leader: forbidden"):
        withdrawn(Reply(200, written()), forbidden)


def kept_endpoints(found: Reply = MISSING) -> list[Request]:
    """Look at the Endpoints once; the requests."""
    path = "/api/v1/namespaces/linkwise-system/endpoints"

    async def scenario(api: ScriptedApi, connection: Connection) -> list[Request]:
        api.script(f"GET {path}/linkwise", found)
        api.script(SERVICE, Reply(200, {"metadata": {"name": "linkwise", "uid": "s-1"}}))
        api.script(f"POST {path}", Reply(201, {}))
        await LeaderEndpoints(connection, "linkwise-system", "linkwise", HERE).keep()
        return api.requests

    return play(scenario)


def test_the_service_proxy_of_the_api_server_finds_the_leader_in_endpoints() -> None:
    document = kept_endpoints()[-1].document
    (subset,) = document["subsets"]
    assert subset["ports"] == [{"name": "https", "port": 39999, "protocol": "TCP"}]
    assert [(one["ip"], one["targetRef"]["name"]) for one in subset["addresses"]] == [("10.0.0.7", "linkwise-0")]
    assert document["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert [request.verb for request in kept_endpoints(Reply(200, document))] == ["GET"]
