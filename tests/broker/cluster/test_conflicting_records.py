"""Records of pods, inventories and agents that contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkwise.broker.broker import Broker
from linkwise.broker.watch_events import NodeObject
from linkwise.dialects.linkwise.dialect import GRANT, grant_text
from linkwise.model.verdict import Grant, Offer, Part
from linkwise.model.views import ContainerView, NodeView
from linkwise.testing.cluster import (
    ASCEND,
    KOORDINATOR,
    MEMORY,
    NVIDIA,
    FakeNode,
    broker_of,
    device_pod,
    place,
)
from support.state import state_of

if TYPE_CHECKING:
    from linkwise.broker.watch_events import WatchEvent
    from linkwise.engine.usage import DriftKind
    from linkwise.model.node import AskMode
    from linkwise.model.views import PodView
    from linkwise.testing.cluster import Family

NOW = 100.0
FAMILIES: dict[str, Family] = {NVIDIA: "linked", MEMORY: "share", ASCEND: "ring", KOORDINATOR: "percent"}
WHOLE, SHARE = device_pod("whole"), device_pod("share", 4, MEMORY)


def drift(broker: Broker, node: str = "n") -> list[DriftKind]:
    return [found.kind for found in state_of(broker).cluster.drift.get(node, ())]


def used(broker: Broker, node: str = "n") -> set[str]:
    return set(state_of(broker).cluster.index.nodes[node].used)


def test_an_agent_that_lists_pods_of_other_nodes_takes_nothing_from_these() -> None:
    broker = broker_of(FakeNode("n"), FakeNode("m"))
    pod = place(broker, WHOLE, "m")
    broker.observe([FakeNode("n", allocations={pod.uid: ("n-d1", "m-d1")}).inventory_object()], NOW)
    assert (used(broker, "n"), used(broker, "m")) == ({"n-d1"}, {"m-d0"})
    assert drift(broker, "n") == ["stranger"]


def test_two_nodes_that_claim_the_same_devices_are_two_nodes() -> None:
    broker = broker_of(FakeNode("n", ids=("x0", "x1")), FakeNode("m", ids=("x0", "x1")))
    place(broker, device_pod("a", 2), "n")
    place(broker, device_pod("b", 2), "m")
    assert used(broker, "n") == used(broker, "m") == {"x0", "x1"}


def test_an_agent_that_reports_two_pods_on_one_device_is_believed_and_the_drift_reported() -> None:
    broker = broker_of(FakeNode("n", count=3))
    pods = [place(broker, device_pod(name), "n") for name in ("a", "b")]
    broker.observe([FakeNode("n", count=3, allocations={pod.uid: ("n-d1",) for pod in pods}).inventory_object()], NOW)
    assert used(broker) == {"n-d1"}
    assert drift(broker) == ["record", "record", "twice"]


def test_two_records_of_one_device_take_two_devices_because_no_device_is_handed_out_twice() -> None:
    known = FakeNode("n", count=4)
    pod = place(broker_of(known), device_pod("a"), "n")
    record = {GRANT: pod.annotations[GRANT].replace('"indices":[0],', "")}
    broker = Broker()
    broker.observe([known.view(), replace(pod, annotations=record)], NOW)
    place(broker, device_pod("b"), "n")  # which device the first has is not known, so it may be the same
    broker.observe(known.events(), NOW)
    assert drift(broker) == ["twice"]
    assert broker.filter(device_pod("c", 3), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("d", 2), ["n"], NOW).nodes == ["n"]


def test_a_record_copied_from_another_pod_is_not_believed() -> None:
    broker = broker_of(FakeNode("n"))
    theirs = place(broker, WHOLE, "n")
    copied = replace(device_pod("thief"), node="n", annotations=theirs.annotations, version=2)
    broker.observe([copied], NOW)
    assert used(broker) == {"n-d0"}
    assert state_of(broker).cluster.index.nodes["n"].unattributed == 1
    assert "not for this one" in state_of(broker).cluster.problems[copied.uid][0].sentence


def foreign(pod: PodView, *parts: Part, mode: AskMode = "whole") -> PodView:
    """A pod that somebody bound to node n, with a record that somebody made up."""
    record = grant_text(Grant(pod.uid, "", Offer("n", parts), mode=mode))
    return replace(pod, node="n", annotations={GRANT: record}, version=2)


def both_words(count: int = 8) -> list[WatchEvent]:
    """A node that reports whole devices and percents of them."""
    amounts = {NVIDIA: str(count), KOORDINATOR: str(100 * count), "cpu": "64", "memory": "256Gi", "pods": "110"}
    size = {"resources": {"koordinator.sh/gpu-memory": "16Gi"}}
    cards = [{"type": "gpu", "id": f"GPU-{n}", "minor": n, "health": True, **size} for n in range(count)]
    return [
        NodeView("n", capacity=amounts, allocatable=amounts),
        NodeObject("n", "Device", {"spec": {"devices": cards}}),
    ]


def test_a_record_below_the_request_counts_as_the_request() -> None:
    broker = Broker()
    pod = foreign(device_pod("theirs", 8), Part("main", ("GPU-0",)))
    broker.observe([*both_words(), pod], NOW)
    assert broker.usage["n"].unattributed == 8
    assert broker.filter(device_pod("large", 700, KOORDINATOR), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("small", 1), ["n"], NOW).nodes == []
    (problem,) = state_of(broker).cluster.problems[pod.uid]
    assert problem.sentence == "the record has 1 complete device, but the pod requests 8; the request counts"


def test_a_record_above_the_request_does_not_block_the_node() -> None:
    broker = Broker()
    devices = tuple(f"n-d{index}" for index in range(8))
    broker.observe([*FakeNode("n", count=8).events(), foreign(device_pod("theirs"), Part("main", devices))], NOW)
    assert broker.filter(device_pod("eight", 8), ["n"], NOW).nodes == []
    assert broker.filter(device_pod("seven", 7), ["n"], NOW).nodes == ["n"]


@pytest.mark.parametrize(
    ("resource", "amount", "part", "mode"),
    [
        (NVIDIA, 2, Part("main", ("n-d0", "n-d1"), share=1), "share"),
        (MEMORY, 8, Part("main", ("n-d0",), share=1), "share"),
        (MEMORY, 8, Part("main", ("n-d0",), share=16), "share"),
        (MEMORY, 8, Part("main", ("n-d0",)), "whole"),
        (KOORDINATOR, 50, Part("main", ("n-d0",), share=1, core=50), "percent"),
        (KOORDINATOR, 200, Part("main", ("n-d0", "n-d1"), share=1), "percent"),
    ],
)
def test_a_record_of_another_amount_is_not_believed(resource: str, amount: int, part: Part, mode: AskMode) -> None:
    broker = Broker()
    pod = foreign(device_pod("theirs", amount, resource), part, mode=mode)
    broker.observe([*FakeNode("n", FAMILIES[resource], 4).events(), pod], NOW)
    entry = broker.entry(pod.uid)
    assert entry is not None
    assert (entry.grant.offer.parts, entry.unrecorded_ask) == ((), broker.request(replace(pod, annotations={})).ask)


@pytest.mark.parametrize(
    "request_",
    [(NVIDIA, 1), (NVIDIA, 4), (MEMORY, 5), (ASCEND, 2), (KOORDINATOR, 30), (KOORDINATOR, 100), (KOORDINATOR, 200)],
)
@pytest.mark.parametrize("second", ["none", "container", "sidecar", "init"])
def test_every_record_of_our_own_is_believed(request_: tuple[str, int], second: str) -> None:
    resource, amount = request_
    broker, pod = broker_of(FakeNode("n", FAMILIES[resource], 8)), device_pod("p", amount, resource)
    if second != "none":
        init, sidecar = second != "container", second == "sidecar"
        limits = {resource: str(2 * amount)}
        pod = replace(pod, containers=(*pod.containers, ContainerView("side", {}, limits, init=init, sidecar=sidecar)))
    if not broker.filter(pod, ["n"], NOW).nodes:
        return  # no node can serve it
    placed = place(broker, pod, "n", NOW)
    entry = broker.entry(placed.uid)
    assert entry is not None
    assert entry.unrecorded_ask is None
    assert entry.grant.offer.parts


def test_a_request_in_bytes_is_recorded_in_percent_and_believed() -> None:
    broker, restarted = Broker(), Broker()
    broker.observe(both_words(2), NOW)
    pod = place(broker, device_pod("p", "4Gi", "koordinator.sh/gpu-memory"), "n", NOW)
    assert used(broker) == {"GPU-0"}
    restarted.observe([*both_words(2), pod], NOW)
    assert restarted.usage["n"] == broker.usage["n"]
