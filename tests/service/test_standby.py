"""A replica that does not lead, on a real socket: ready, and every call is answered with who leads."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from linkwise.serve.service import LeaderStatus
from linkwise.testing.cluster import NVIDIA, FakeNode, broker_of, device_pod
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.http_service import Served

REFUSAL = "it is a standby, and b_2 is the leader by Lease linkwise-system/linkwise"
STATUS = LeaderStatus(
    enabled=True, lease="linkwise-system/linkwise", identity="a_1", leader="b_2", refusal=REFUSAL, transitions=4
)


def standby() -> Served:
    served = Served(broker_of(FakeNode("a")), refusal=lambda: REFUSAL, leadership=lambda: STATUS, synced=False)
    served.service.standby = True
    return served


def call(name: str = "p") -> dict[str, Any]:
    return {"Pod": pod_object(device_pod(name, 1, NVIDIA)), "NodeNames": ["a"]}


def test_filter_and_bind_are_answered_with_an_error_that_names_the_leader() -> None:
    with standby() as served:
        filtered = served.post("/filter", call())
        bound = served.post("/bind", {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"})
    for reply in (filtered, bound):
        assert reply.status == 200
        assert reply.json["Error"] == f"this replica of Linkwise is not the leader: {REFUSAL}"
    assert (served.performer.binds, served.performer.effects) == ([], [])


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_a_refusal_ends_the_connection_so_that_the_next_call_finds_the_leader(verb: str) -> None:
    with standby() as served, closing(HTTPConnection("127.0.0.1", served.port)) as client:
        bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"}
        client.request("POST", f"/{verb}", json.dumps({**call(), **bind, "NodeNameToMetaVictims": {}}))
        reply = client.getresponse()
        reply.read()
        assert reply.getheader("connection") == "close"
        assert client.sock is None


def test_the_answer_of_a_leader_and_a_probe_of_a_standby_leave_the_connection_open() -> None:
    for served, method, path, body in (
        (Served(broker_of(FakeNode("a"))), "POST", "/filter", json.dumps(call())),
        (standby(), "GET", "/readyz", None),
    ):
        with served, closing(HTTPConnection("127.0.0.1", served.port)) as client:
            client.request(method, path, body)
            client.getresponse().read()
            assert client.sock is not None


@pytest.mark.parametrize("verb", ["prioritize", "preempt"])
def test_calls_without_an_error_field_are_answered_by_status(verb: str) -> None:
    with standby() as served:
        reply = served.post(f"/{verb}", {**call(), "NodeNameToMetaVictims": {}})
    assert reply.status == 503
    assert "b_2 is the leader" in reply.text


@pytest.mark.parametrize("path", ["/debug/explain/default/p", "/gpushare-scheduler/inspect"])
def test_what_only_the_leader_knows_is_not_explained(path: str) -> None:
    with standby() as served:
        reply = served.get(path)
    assert "b_2 is the leader" in reply.text


def test_nothing_follows_from_what_a_standby_observes() -> None:
    with standby() as served:
        served.service.observe([device_pod("p", 1)])
        served.on_loop(served.service.stand_by())
    assert served.performer.effects == []


def test_readiness_and_liveness_say_ok_and_who_leads() -> None:
    with Served(broker_of(FakeNode("a")), leadership=lambda: STATUS) as served:
        ready, live = served.get("/readyz"), served.get("/livez")
    assert (ready.status, live.status) == (200, 200)
    assert ready.text.split("\n")[:2] == ["ok", "standby: b_2 holds lease linkwise-system/linkwise"]


def test_metrics_and_debug_show_the_election() -> None:
    with standby() as served:
        metrics, shown = served.get("/metrics").text, served.get("/debug/leader").json
    assert "linkwise_leader 0.0" in metrics
    assert "linkwise_ready 1.0" in metrics
    assert "linkwise_lease_transitions 4.0" in metrics
    assert (shown["identity"], shown["leader"], shown["leads"], shown["refusal"]) == ("a_1", "b_2", False, REFUSAL)


def test_a_single_replica_leads_and_says_nothing_of_it() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        assert "linkwise_leader 1.0" in served.get("/metrics").text
        assert served.get("/readyz").text.strip() == "ok"


def test_a_leader_that_cannot_renew_its_lease_answers_with_the_reason() -> None:
    overdue = "Lease linkwise-system/linkwise was not renewed for 10 s"
    with Served(broker_of(FakeNode("a")), refusal=lambda: overdue) as served:
        reply = served.post("/filter", call())
        assert "linkwise_leader 0.0" in served.get("/metrics").text
    assert overdue in reply.json["Error"]
