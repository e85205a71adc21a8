"""Whatever is sent, there is a clear answer, no traceback and no change."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from linkwise.errors import InputError
from linkwise.net.http.messages import Request
from linkwise.net.http.server_connection import FAILED, Limits
from linkwise.net.timing import Timing
from linkwise.serve.extender import Extender
from linkwise.serve.metrics import Counting
from linkwise.serve.service import Service
from linkwise.testing.cluster import MEMORY, FakeNode, broker_of, device_pod
from linkwise.testing.recorder import Recorder
from linkwise.wire.extender import MOST_NODES, decode_filter
from linkwise.wire.kubernetes.to_objects import pod_object
from support.fakes.http_service import Reply, Served

VERBS = ("filter", "prioritize", "bind", "preempt")
POD = pod_object(device_pod("p", 2))
GOOD: dict[str, dict[str, Any]] = {
    "filter": {"Pod": POD, "NodeNames": ["a"], "Nodes": None},
    "prioritize": {"Pod": POD, "NodeNames": ["a"], "Nodes": None},
    "bind": {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "a"},
    "preempt": {"Pod": POD, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}]}}},
}
GARBAGE = [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"x"',
    "{}" * 2,
    "\x00",
    '{"Pod": null}',
    '{"Pod": 7, "NodeNames": ["a"]}',
]
DEEP = ["[" * 3000 + "]" * 3000, "[" * 200_000, '{"X": ' * 3000 + "7" + "}" * 3000]
NAMES = [f"node-{number:040d}" for number in range(200_000)]
"""ten megabytes of them"""


def clear(verb: str, reply: Reply) -> bool:
    """Whether a caller can tell what is wrong: where kube-scheduler reads it, or by the status."""
    if FAILED.encode() in reply.body or b"Traceback" in reply.body:
        return False
    if verb in {"filter", "bind"}:
        return reply.status == 200 and bool(reply.json["Error"])
    return reply.status == 400 and len(reply.body) > 10


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_gets_a_clear_answer_and_changes_nothing(verb: str, body: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        before = served.get("/debug/snapshot").body
        reply = served.call("POST", f"/{verb}", body)
        assert clear(verb, reply), (reply.status, reply.body)
        assert served.get("/debug/snapshot").body == before


def refused_as_too_deep(verb: str, body: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        before = served.get("/debug/snapshot").body
        reply = served.call("POST", f"/{verb}", body)
        assert served.get("/debug/snapshot").body == before
    assert clear(verb, reply)
    assert b"the JSON is nested too deep" in reply.body


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("deep", DEEP, ids=["lists", "without-end", "objects"])
def test_endless_nesting_is_reported_in_ignored_fields_too(verb: str, deep: str) -> None:
    refused_as_too_deep(verb, f'{{"X": {deep}, {json.dumps(GOOD[verb])[1:]}')


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("deep", DEEP, ids=["lists", "without-end", "objects"])
def test_endlessly_nested_nodes_are_reported(verb: str, deep: str) -> None:
    node = f'{{"metadata": {{"name": "a"}}, "spec": {deep}}}'
    refused_as_too_deep(verb, f'{{"Pod": {json.dumps(POD)}, "Nodes": {{"items": [{node}]}}}}')


def test_ten_megabytes_of_unknown_names_are_all_refused() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post("/filter", {"Pod": POD, "NodeNames": NAMES})
    assert reply.json["NodeNames"] == []
    assert len(reply.json["FailedAndUnresolvableNodes"]) == len(NAMES)


def test_ten_megabytes_of_unknown_names_all_have_the_lowest_rank() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post("/prioritize", {"Pod": POD, "NodeNames": NAMES})
    assert [entry["Host"] for entry in reply.json] == NAMES
    assert {entry["Score"] for entry in reply.json} == {0}


def test_ten_megabytes_of_victims_on_unknown_nodes_help_no_pod() -> None:
    victims = {name: {"Pods": [{"UID": f"uid-{name}"}]} for name in NAMES}
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post("/preempt", {"Pod": POD, "NodeNameToMetaVictims": victims})
    assert (reply.status, reply.json) == (200, {"NodeNameToMetaVictims": {}})


TOO_MANY = [f"node-{number:020d}" for number in range(MOST_NODES + 1)]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("names", [TOO_MANY, [""] * len(TOO_MANY), ["n"] * 5 * len(TOO_MANY)], ids=len)
def test_a_call_about_more_nodes_than_any_cluster_has_is_refused(verb: str, names: list[str]) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post(f"/{verb}", {"Pod": POD, "NodeNames": names})
    assert clear(verb, reply)
    assert b"the call names more than 200000 nodes, which is the limit" in reply.body


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_call_with_more_whole_nodes_than_any_cluster_has_is_refused(verb: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post(f"/{verb}", {"Pod": POD, "Nodes": {"items": [{}] * (MOST_NODES + 1)}})
    assert clear(verb, reply)
    assert b"the call names more than 200000 nodes, which is the limit" in reply.body


def test_a_call_about_victims_on_more_nodes_than_any_cluster_has_is_refused() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post("/preempt", {"Pod": POD, "NodeNameToMetaVictims": {name: {} for name in TOO_MANY}})
    assert clear("preempt", reply)
    assert b"200001 nodes; the limit is 200000" in reply.body


def test_the_names_of_a_call_that_has_too_many_are_not_decoded() -> None:
    """Nor is most of the array read: what follows the names that are too many is not even a string."""
    pieces = b",".join([b'"n"'] * (MOST_NODES + 1) + [b"7"] * (2 << 20))
    args = decode_filter(b'{"Pod":{},"NodeNames":[' + pieces + b"]}")
    with pytest.raises(InputError, match="names more than 200000 nodes"):
        args.names()


@pytest.mark.parametrize("amount", ["-1", "1e400", "0.5", str(2**70), "abc", ""])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", MEMORY])
def test_amounts_that_make_no_sense_are_refused_with_a_reason(amount: str, resource: str) -> None:
    pod = pod_object(device_pod("p", amount, resource))
    with Served(broker_of(FakeNode("a"), FakeNode("s", "share"))) as served:
        reply = served.post("/filter", {"Pod": pod, "NodeNames": ["a", "s"]}).json
    refusals = {**reply.get("FailedNodes", {}), **reply.get("FailedAndUnresolvableNodes", {})}
    assert reply["NodeNames"] == []
    assert refusals.keys() == {"a", "s"}
    assert all(refusals.values())


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_that_is_no_json_by_its_own_word_is_not_read(verb: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.call("POST", f"/{verb}", json.dumps(GOOD[verb]), {"Content-Type": "text/xml"})
    assert (reply.status, reply.text) == (415, "unsupported content type 'text/xml'; send application/json\n")


def test_refused_calls_are_one_log_line_a_minute_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    service = Service(broker_of(), Recorder(), Counting(), timing=Timing(clock=lambda: now[0]))
    verbs = {verb.name: verb for verb in Extender(service).verbs}
    for seconds in (0.0, *[1.0] * 100, 62.0):
        now[0] = seconds
        for name in ("filter", "prioritize"):
            verbs[name].handle(Request(b"", {}, "10.0.0.7", asyncio.Event(), "POST", body=b"{"), {})
    lines = [record.getMessage() for record in caplog.records if "filter refused" in record.getMessage()]
    assert len(lines) == 2
    assert lines[1].endswith(" and 100 more in the last 62 s")


def test_a_body_that_is_too_long_is_refused_before_it_is_read() -> None:
    with Served(broker_of(FakeNode("a"))) as served, socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"
        )
        assert b" 413 " in wire.recv(1000)


@pytest.mark.parametrize(
    ("line", "status"),
    [("POST /filtre", 404), ("PUT /filter", 405), ("POST /metrics", 405), ("GET /metrics", 413)],
)
@pytest.mark.parametrize("framing", ["Content-Length: 50000000", "Transfer-Encoding: chunked"])
def test_a_body_that_no_route_reads_is_refused_before_it_arrives(line: str, status: int, framing: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served, socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(f"{line} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        assert wire.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_slow_client_delays_no_other_client() -> None:
    with Served(broker_of(FakeNode("a"))) as served, socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert served.post("/filter", GOOD["filter"]).json["NodeNames"] == ["a"]
        wire.setblocking(False)  # noqa: FBT003 - the name says it
        with pytest.raises(BlockingIOError):  # it is waited for still
            wire.recv(1)


def trickled(limits: Limits, *pieces: bytes) -> bytes:
    """What comes back when a chunked body of these pieces never ends."""
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        Served(broker_of(FakeNode("a")), limits=limits) as served,
        socket.create_connection(("127.0.0.1", served.port)) as wire,
    ):
        wire.sendall(head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))
        return b"".join(iter(lambda: wire.recv(1000), b""))


def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    answer = trickled(Limits(body_seconds=0.01), b"{")
    assert b" 408 " in answer
    assert answer.endswith(b"\r\n\r\nthe request body did not arrive within 0.01 s\n")


def test_a_body_without_a_length_is_not_read_without_limit() -> None:
    answer = trickled(Limits(), *[bytes(1 << 20)] * 65)
    assert b" 413 " in answer
    assert answer.endswith(b"\r\n\r\nthe request body exceeds the limit of 67108864 bytes\n")


@pytest.mark.parametrize("verb", VERBS)
def test_bytes_that_are_not_text_are_refused(verb: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.call("POST", f"/{verb}", json.dumps(GOOD[verb]).encode().replace(b'"a"', b'"\xff"'))
    assert clear(verb, reply)
    assert b"the JSON is not valid UTF-8" in reply.body


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("nodes", [{}, {"NodeNames": None, "Nodes": None}])
def test_a_call_without_nodes_is_refused_with_the_reason(verb: str, nodes: dict[str, None]) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        reply = served.post(f"/{verb}", {"Pod": POD, **nodes})
    assert clear(verb, reply)
    assert b"neither NodeNames nor Nodes" in reply.body


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_not_allowed(method: str) -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        assert served.call(method, "/filter").status == 405


def test_a_bind_of_a_pod_or_node_that_is_not_known_says_so() -> None:
    with Served(broker_of(FakeNode("a"))) as served:
        unobserved = served.post("/bind", GOOD["bind"]).json["Error"]
        served.post("/filter", GOOD["filter"])
        nowhere = served.post("/bind", {**GOOD["bind"], "Node": "moon"}).json["Error"]
    assert unobserved == "pod uid-p has not been observed yet; retry once it is"
    assert nowhere == "node moon is unknown"
