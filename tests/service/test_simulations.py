"""Calls with complete Node objects, as autoscalers send them, over a real socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from linkwise.net.http.messages import Request, Response
from linkwise.serve.extender import Extender
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import FakeNode, broker_of, device_pod, place
from linkwise.testing.recorder import Recorder
from support.fakes.http_service import Served

if TYPE_CHECKING:
    from collections.abc import Awaitable

CALLS = Path(__file__).parent / "calls"
WHOLE: dict[str, Any] = json.loads((CALLS / "filter-whole.json").read_text("utf-8"))
"""a call of kube-scheduler as it was recorded: a pod of 8 GPUs"""
SHARE: dict[str, Any] = json.loads((CALLS / "filter-share.json").read_text("utf-8"))
"""a pod of one card's memory"""


def node(name: str, **amounts: str) -> dict[str, Any]:
    """A node as an autoscaler makes it up for a node group that has none, with fields that Linkwise does not read."""
    resources = {"cpu": "96", "memory": "1152Gi", "pods": "110", **{key: text for key, text in amounts.items() if text}}
    labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "p4d.24xlarge"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": None, "managedFields": [{"manager": "x"}]},
        "spec": {"providerID": f"aws:///{name}", "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready], "images": []},
    }


def gpus(name: str, count: int) -> dict[str, Any]:
    return node(name, **{"nvidia.com/gpu": str(count)})


def simulation(call: dict[str, Any], *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"Pod": call["Pod"], "NodeNames": None, "Nodes": {"metadata": {}, "items": list(nodes)}}


def test_template_nodes_are_answered_as_they_were_sent_and_nothing_is_remembered() -> None:
    with Served(broker_of()) as served:
        before = served.get("/debug/snapshot").body
        large = gpus("template-node-for-a100-1", 8)
        reply = served.post("/filter", simulation(WHOLE, large, gpus("template-node-for-t4-1", 4))).json
        ranks = served.post("/prioritize", simulation(WHOLE, large)).json
        assert served.get("/debug/snapshot").body == before
    assert reply["Nodes"]["items"] == [large]
    assert reply["NodeNames"] == ["template-node-for-a100-1"]
    assert ranks == [{"Host": "template-node-for-a100-1", "Score": 0}]
    assert served.performer.effects == []


def test_refused_template_nodes_are_named_with_the_reason() -> None:
    with Served(broker_of()) as served:
        reply = served.post("/filter", simulation(WHOLE, gpus("small", 4), node("cpu-only"))).json
    assert reply["NodeNames"] == reply["Nodes"]["items"] == []
    assert reply["FailedAndUnresolvableNodes"].keys() == {"small", "cpu-only"}


def test_shared_memory_of_template_nodes_is_answered_by_card() -> None:
    """The pod asks for 6 units of one card."""
    names = ("aliyun.com/gpu-mem", "aliyun.com/gpu-count")
    large, small = (
        node(name, **dict(zip(names, (memory, "4"), strict=True))) for name, memory in (("l", "24"), ("s", "20"))
    )
    with Served(broker_of()) as served:
        assert served.post("/filter", simulation(SHARE, large, small)).json["NodeNames"] == ["l"]


def test_a_node_that_exists_is_answered_from_the_watch_and_not_from_the_call() -> None:
    broker = broker_of(FakeNode("a", count=8))
    place(broker, device_pod("other"), "a")
    with Served(broker) as served:
        reply = served.post("/filter", simulation(WHOLE, gpus("a", 8), gpus("template", 8))).json
    assert reply["NodeNames"] == ["template"]


def test_many_template_nodes_are_answered_as_few_are() -> None:
    broker = broker_of(FakeNode("full", count=8), FakeNode("free", count=8))
    place(broker, device_pod("other", 8), "full")
    nodes = [gpus("full", 8), gpus("free", 8), *(gpus(f"t{number}", 8 if number % 3 else 4) for number in range(300))]
    with Served(broker) as served:
        reply = served.post("/filter", simulation(WHOLE, *nodes)).json
        ranks = served.post("/prioritize", simulation(WHOLE, *nodes)).json
        small = served.post("/filter", simulation(WHOLE, *(gpus(f"t{number}", 4) for number in range(300)))).json
        few = served.post("/prioritize", simulation(WHOLE, nodes[1], *nodes[2:4])).json
    fitting = {"free", *(f"t{number}" for number in range(300) if number % 3)}
    assert set(reply["NodeNames"]) == {each["metadata"]["name"] for each in reply["Nodes"]["items"]} == fitting
    assert [each["Host"] for each in ranks] == [each["metadata"]["name"] for each in nodes]
    by_name = {each["Host"]: each["Score"] for each in ranks}
    assert [each["Score"] for each in few] == [by_name[each["Host"]] for each in few]
    assert (small["NodeNames"], len(small["FailedAndUnresolvableNodes"])) == ([], 300)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_other_calls_are_answered_while_many_template_nodes_are_evaluated(verb: str) -> None:
    body = json.dumps(simulation(WHOLE, *(gpus(f"t{number}", 8) for number in range(600)))).encode()
    service = Service(broker_of(), Recorder(), Counting(), clock=lambda: 100.0)
    service.synced = True
    route = next(route for route in Extender(service).routes() if route.path == f"/{verb}")

    async def scenario() -> int:
        request = Request(b"", {}, "127.0.0.1", asyncio.Event(), "POST", body=body)
        answer = asyncio.ensure_future(cast("Awaitable[Response]", route.handler(request, {})))
        turns = 0
        while not answer.done():
            await asyncio.sleep(0)
            turns += 1
        assert answer.result().status == 200
        return turns

    assert asyncio.run(scenario()) > 30


def test_a_simulation_leads_to_no_bind() -> None:
    with Served(broker_of(FakeNode("a", count=8))) as served:
        served.post("/filter", simulation(WHOLE, gpus("a", 8)))
        about = WHOLE["Pod"]["metadata"]
        bind = {"PodName": about["name"], "PodNamespace": about["namespace"], "PodUID": about["uid"], "Node": "a"}
        assert served.post("/bind", bind).json["Error"]
    assert served.performer.binds == []


def test_simulations_are_not_counted_as_decisions() -> None:
    with Served(broker_of()) as served:
        served.post("/filter", simulation(WHOLE, gpus("t", 8)))
        assert "linkwise_decisions_total{" not in served.get("/metrics").body.decode()


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_an_invalid_template_node_is_named_in_the_error(verb: str) -> None:
    broken = {**gpus("t", 8), "status": {"capacity": ["nvidia.com/gpu"]}}
    with Served(broker_of()) as served:
        reply = served.post(f"/{verb}", simulation(WHOLE, broken))
    text = reply.json["Error"] if verb == "filter" else reply.body.decode()
    assert "capacity" in text
    assert reply.status == (200 if verb == "filter" else 400)
