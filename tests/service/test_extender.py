"""kube-scheduler's calls over a real socket."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkwise.broker.effects import BindResult, Event
from linkwise.broker.watch_events import NodeGone, PodDeleted
from linkwise.model.settings import PlacingSettings
from linkwise.model.views import PodView
from linkwise.testing.cluster import MEMORY, NVIDIA, FakeNode, broker_of, device_pod, place
from linkwise.testing.recorder import Recorder
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.http_service import Served
from support.fakes.scripted_api import until

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.ledger import Outcome

SHARED = FakeNode("shared", "share", 4, memory=22)


def filter_call(name: str, amount: int, nodes: list[str], resource: str = NVIDIA) -> dict[str, Any]:
    return {"Pod": pod_object(device_pod(name, amount, resource)), "Nodes": None, "NodeNames": nodes}


def bind_call(name: str, node: str) -> dict[str, Any]:
    return {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": node}


@pytest.mark.parametrize("prefix", ["", "/gpushare-scheduler"])
def test_a_pod_is_filtered_ranked_and_bound_with_all_its_keys_in_one_write(prefix: str) -> None:
    with Served(broker_of(FakeNode("a", count=4), FakeNode("b", count=1))) as served:
        kept = served.post(f"{prefix}/filter", filter_call("p", 2, ["a", "b"])).json
        ranks = served.post(f"{prefix}/prioritize", filter_call("p", 2, kept["NodeNames"])).json
        bound = served.post(f"{prefix}/bind", bind_call("p", "a"))
        (effect,) = served.performer.binds
    assert (kept["NodeNames"], ranks) == (["a"], [{"Host": "a", "Score": 0}])
    assert (bound.status, bound.json) == (200, {})
    assert json.loads(effect.annotations["linkwise.dev/grant"])["containers"]["main"]["devices"] == ["a-d0", "a-d1"]
    assert [effect.reason for effect in served.performer.effects if isinstance(effect, Event)] == ["DevicesChosen"]


@pytest.mark.parametrize(("count", "version", "node"), [(1, 5, "a"), (2, 6, "b")])
def test_a_pod_requests_what_the_scheduler_sends_where_the_watch_has_another_version(
    count: int, version: int, node: str
) -> None:
    broker = broker_of(FakeNode("a", count=1), FakeNode("b", count=4))
    broker.observe([replace(device_pod("p", 1), version=5)], 0.0)
    sent = replace(device_pod("p", count), version=version)
    with Served(broker) as served:
        reply = served.post("/filter", {"Pod": pod_object(sent), "NodeNames": ["a", "b"]}).json
    assert reply["NodeNames"] == [node]


def test_when_nothing_fits_every_node_is_named_with_few_texts() -> None:
    with Served(broker_of(FakeNode("a"), FakeNode("b"))) as served:
        reply = served.post("/filter", filter_call("p", 8, ["a", "b", "c"])).json
    assert reply["NodeNames"] == []
    named = {**reply.get("FailedNodes", {}), **reply.get("FailedAndUnresolvableNodes", {})}
    assert named.keys() == {"a", "b", "c"}
    assert len(set(named.values())) <= 2


def test_no_victims_are_looked_for_on_nodes_that_pass_the_filters_of_the_scheduler() -> None:
    """It would find none, and report that as an error of every node."""
    with Served(broker_of(FakeNode("a"), FakeNode("b", "share"))) as served:
        reply = served.post("/filter", filter_call("p", 8, ["a", "b"])).json
    assert "FailedNodes" not in reply
    assert reply["FailedAndUnresolvableNodes"].keys() == {"a", "b"}


def test_the_nominated_node_can_still_serve_a_pod_whose_victims_are_leaving() -> None:
    """Otherwise the scheduler would evict pods on another node as well."""
    pod = replace(device_pod("p", 2), nominated="a")
    broker = broker_of(FakeNode("a"), FakeNode("b"))
    for node in "ab":
        place(broker, device_pod(f"on-{node}"), node)
    with Served(broker) as served:
        reply = served.post("/filter", {"Pod": pod_object(pod), "NodeNames": ["a", "b"]}).json
    assert (reply["FailedNodes"].keys(), reply["FailedAndUnresolvableNodes"].keys()) == ({"a"}, {"b"})


def test_a_nominated_node_that_can_not_serve_a_pod_is_as_any_other() -> None:
    pod = replace(device_pod("p", 2), nominated="b")
    broker = broker_of(FakeNode("a"), FakeNode("b", "share"))
    place(broker, device_pod("on-a"), "a")
    with Served(broker) as served:
        reply = served.post("/filter", {"Pod": pod_object(pod), "NodeNames": ["a", "b"]}).json
    assert "FailedNodes" not in reply
    assert reply["FailedAndUnresolvableNodes"].keys() == {"a", "b"}


def test_a_call_with_whole_nodes_gets_whole_nodes_back_and_leaves_nothing_behind() -> None:
    body = filter_call("p", 2, [])
    body["NodeNames"], body["Nodes"] = None, {"items": [{"metadata": {"name": name}, "x": 1} for name in ("a", "b")]}
    with Served(broker_of(FakeNode("a"), FakeNode("b", count=1))) as served:
        reply = served.post("/filter", body).json
        assert served.service.broker.uids() == set()
        assert served.service.broker.counts().offered == 0
    assert reply["Nodes"] == {"items": [{"metadata": {"name": "a"}, "x": 1}]}


def test_a_refused_bind_returns_the_reason_and_frees_the_devices() -> None:
    recorder = Recorder([BindResult("refused", 'pods "p" is being deleted')])
    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", filter_call("p", 2, ["a"]))
        reply = served.post("/bind", bind_call("p", "a"))
        assert served.post("/filter", filter_call("q", 2, ["a"])).json["NodeNames"] == ["a"]
    assert (reply.status, reply.json) == (200, {"Error": 'pods "p" is being deleted'})


def test_a_bind_of_unknown_end_keeps_its_devices_until_it_is_settled() -> None:
    recorder = Recorder([BindResult("unknown", "timed out")], settled=BindResult("refused"))
    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", filter_call("p", 2, ["a"]))
        assert served.post("/bind", bind_call("p", "a")).json == {"Error": "timed out"}
        assert served.post("/filter", filter_call("q", 2, ["a"])).json["NodeNames"] == ["a"]


def test_a_bind_of_unknown_end_is_settled_for_a_pod_without_devices_too() -> None:
    broker = broker_of(FakeNode("a"), settings=PlacingSettings(every_pod=True))
    broker.observe([PodView("default", "p", "uid-p")], 0.0)
    with Served(broker, Recorder([BindResult("unknown", "timed out")])) as served:
        assert served.post("/bind", bind_call("p", "a")).json == {"Error": "timed out"}
        assert 'linkwise_binds_total{outcome="written"} 1.0' in served.get("/metrics").text


def test_a_bind_that_breaks_off_is_taken_for_unknown_and_settled() -> None:
    recorder = Recorder([RuntimeError("bug")], settled=BindResult("written"))
    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", filter_call("p", 2, ["a"]))
        reply = served.post("/bind", bind_call("p", "a"))
        assert "log" in reply.json["Error"]
        assert served.post("/filter", filter_call("q", 2, ["a"])).json["NodeNames"] == []
        assert 'outcome="written"} 1.0' in served.get("/metrics").text


def test_a_repeated_bind_conflicts_if_another_scheduler_allocated_the_devices() -> None:
    async def show(served: Served, pod: PodView) -> None:
        served.service.observe([pod])

    lost = Recorder([BindResult("unknown", "lost")], settled=BindResult("unknown"))
    with Served(broker_of(FakeNode("a", count=1)), lost) as served:
        served.post("/filter", filter_call("p", 1, ["a"]))
        served.post("/bind", bind_call("p", "a"))
        served.on_loop(show(served, place(broker_of(FakeNode("a", count=1)), device_pod("q", 1), "a")))
        error = served.post("/bind", bind_call("p", "a")).json["Error"]
        counted = served.get("/metrics").text
    assert error == "the devices assumed for pod default/p are no longer available on node a"
    assert 'linkwise_binds_total{outcome="conflict"} 1.0' in counted


def test_binding_twice_answers_twice_and_promises_once() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        served.post("/filter", filter_call("p", 1, ["a"]))
        replies = [served.post("/bind", bind_call("p", "a")).json for _ in range(2)]
        granted = [effect.grant for effect in served.performer.binds]
    assert replies == [{}, {}]
    assert len(set(granted)) == 1


@pytest.mark.parametrize("ends", [("written", "refused"), ("refused", "written")])
def test_of_two_binds_of_one_pod_at_once_the_one_that_is_written_counts(ends: tuple[Outcome, Outcome]) -> None:
    recorder = Recorder([BindResult(outcome) for outcome in ends])

    async def both(served: Served) -> None:
        recorder.gate = asyncio.Event()
        binds = [asyncio.create_task(served.service.bind("uid-p", "a")) for _ in ends]
        await until(lambda: len(recorder.binds) == len(ends))
        recorder.gate.set()
        await asyncio.gather(*binds)

    with Served(broker_of(FakeNode("a")), recorder) as served:
        served.post("/filter", filter_call("p", 2, ["a"]))
        served.on_loop(both(served))
        assert served.post("/filter", filter_call("q", 1, ["a"])).json["NodeNames"] == []


@pytest.mark.parametrize(
    ("gone", "said"), [(NodeGone("a"), "node a is unknown"), (PodDeleted("uid-p"), "pod uid-p was deleted")]
)
def test_a_pod_deleted_between_filter_and_bind_gets_no_devices(gone: WatchEvent, said: str) -> None:
    async def lose(served: Served) -> None:
        served.service.observe([device_pod("p", 2)])
        served.service.observe([gone])

    with Served(broker_of(FakeNode("a"), FakeNode("b"))) as served:
        served.post("/filter", filter_call("p", 2, ["a", "b"]))
        served.on_loop(lose(served))
        reply = served.post("/bind", bind_call("p", "a")).json
        assert "linkwise_grants 0.0" in served.get("/metrics").text
    assert said in reply["Error"]
    assert served.performer.binds == []


def test_a_pod_that_was_not_filtered_is_not_bound_until_the_scheduler_retries_it() -> None:
    broker = broker_of(FakeNode("a"))
    broker.observe([device_pod("p", 2)], 0.0)  # a previous instance answered filter for it, and crashed
    with Served(broker) as served:
        refused = served.post("/bind", bind_call("p", "a")).json["Error"]
        served.post("/filter", {**filter_call("p", 2, []), "NodeNames": None, "Nodes": {"items": []}})
        dry = served.post("/bind", bind_call("p", "a")).json["Error"]
        served.post("/filter", filter_call("p", 2, ["a"]))
        assert served.post("/bind", bind_call("p", "a")).json == {}
        assert served.post("/bind", bind_call("p", "a")).json == {}
    assert refused == dry
    assert refused.startswith("pod default/p was not filtered by this instance of the service; the scheduler must call")
    assert len(served.performer.binds) == 1


@pytest.mark.parametrize("every_pod", [False, True])
def test_a_pod_without_devices_is_bound_only_if_the_service_binds_every_pod(*, every_pod: bool) -> None:
    plain = PodView("default", "p", "uid-p", scheduler="default-scheduler")
    broker = broker_of(FakeNode("a"), settings=PlacingSettings(every_pod=every_pod))
    broker.observe([plain], 0.0)
    with Served(broker) as served:
        served.post("/filter", {"Pod": pod_object(plain), "NodeNames": ["a"]})
        reply = served.post("/bind", bind_call("p", "a")).json
    assert len(served.performer.binds) == every_pod
    said = "pod default/p requests no devices; set placing.every_pod if the scheduler sends every pod"
    assert reply == ({} if every_pod else {"Error": said})


def test_preemption_keeps_the_nodes_where_the_victims_devices_would_do() -> None:
    broker = broker_of(FakeNode("a", count=4), FakeNode("b", count=4))
    for name, node in (("one", "a"), ("two", "a"), ("three", "b")):
        place(broker, device_pod(name, 2), node)
    victims = {"a": {"Pods": [{"UID": "uid-one"}]}, "b": {"Pods": [{"UID": "uid-unknown"}], "NumPDBViolations": 1}}
    body = {"Pod": pod_object(device_pod("vip", 2)), "NodeNameToMetaVictims": victims, "NodeNameToVictims": None}
    with Served(broker) as served:
        reply = served.post("/preempt", body).json
    assert reply == {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "uid-one"}], "NumPDBViolations": 0},
            "b": {"Pods": [{"UID": "uid-unknown"}], "NumPDBViolations": 1},
        }
    }


@pytest.mark.rule("004.routes")
def test_inspect_reports_what_gpushares_extender_reports() -> None:
    broker = broker_of(SHARED, FakeNode("whole"))
    place(broker, device_pod("p", 6, MEMORY), "shared")
    with Served(broker) as served:
        everything = served.get("/gpushare-scheduler/inspect").json
        one = served.get("/gpushare-scheduler/inspect/shared").json
        slash = served.get("/gpushare-scheduler/inspect/").json
        unknown = served.get("/gpushare-scheduler/inspect/nowhere").json
    (node,) = everything["nodes"]
    assert (node["name"], node["totalGPU"], node["usedGPU"]) == ("shared", 88, 6)
    pods = [{"name": "p", "namespace": "default", "usedGPU": 6}]
    assert node["devs"][0] == {"id": 0, "totalGPU": 22, "usedGPU": 6, "pods": pods}
    assert one == slash == everything
    assert unknown == {"nodes": [], "error": "node 'nowhere' does not exist or has no devices"}


def test_a_replica_that_does_not_lead_answers_and_binds_nothing() -> None:
    with Served(broker_of(FakeNode("a")), refusal=lambda: "replica b is") as served:
        refused = served.post("/filter", filter_call("p", 1, ["a"]))
        bound = served.post("/bind", bind_call("p", "a"))
    assert (refused.status, bound.status) == (200, 200)
    assert "is not the leader" in refused.json["Error"]
    assert "is not the leader" in bound.json["Error"]
    assert served.performer.binds == []
