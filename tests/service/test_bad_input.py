"""Whatever is sent, there is a clear answer, no traceback and no change."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from starlette.requests import Request

from linkwise.serve.answering import Verb, answered
from linkwise.serve.counting import Counting
from linkwise.testing.boxes import MEMORY, Box, broker_of, device_pod
from linkwise.testing.served import Reply, Served
from linkwise.wire.view_objects import pod_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.responses import Response

VERBS = ("filter", "prioritize", "bind", "preempt")
POD = pod_object(device_pod("p", 2))
RECORDED = Path(__file__).parents[2].parent / "shared/data/recorded/kube-scheduler-1.36.4"
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
    "[" * 3000,
]


def clear(verb: str, reply: Reply) -> bool:
    """Whether a caller can tell what is wrong: where kube-scheduler reads it, or by the status."""
    if verb in {"filter", "bind"}:
        return reply.status == 200 and bool(reply.json["Error"])
    return reply.status == 400 and b"Traceback" not in reply.body and len(reply.body) > 10


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_gets_a_clear_answer_and_changes_nothing(verb: str, body: str) -> None:
    with Served(broker_of(Box("a"))) as served:
        before = served.get("/debug/snapshot").body
        reply = served.call("POST", f"/{verb}", body)
        assert clear(verb, reply), (reply.status, reply.body)
        assert served.get("/debug/snapshot").body == before


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_field_of_any_call_can_break_the_service(verb: str, data: st.DataObject) -> None:
    paths = list(_paths(GOOD[verb]))
    value = data.draw(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**70), 2**70),
            st.text(max_size=5),
            st.lists(st.integers(), max_size=2),
        )
    )
    body = json.loads(json.dumps(GOOD[verb]))
    _put(body, data.draw(st.sampled_from(paths)), value)
    with Served(broker_of(Box("a"))) as served:
        reply = served.post(f"/{verb}", body)
        assert reply.status in {200, 400}
        assert b"Traceback" not in reply.body
        assert served.get("/livez").status == 200


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    held: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        held = value.items()
    elif isinstance(value, list):
        held = enumerate(value)
    for key, inner in held:
        yield from _paths(inner, (*path, key))


def _put(document: Any, path: tuple[str | int, ...], value: object) -> None:  # noqa: ANN401 - whatever JSON holds
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def test_ten_megabytes_of_names_that_nobody_knows_are_all_refused() -> None:
    names = [f"node-{number:040d}" for number in range(200_000)]
    with Served(broker_of(Box("a"))) as served:
        reply = served.post("/filter", {"Pod": POD, "NodeNames": names})
    assert reply.json["NodeNames"] == []
    assert len(reply.json["FailedNodes"]) == len(names)


@pytest.mark.parametrize("amount", ["-1", "1e400", "0.5", str(2**70), "abc", ""])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", MEMORY])
def test_amounts_that_make_no_sense_are_refused_with_a_reason(amount: str, resource: str) -> None:
    pod = pod_object(device_pod("p", amount, resource))
    with Served(broker_of(Box("a"), Box("s", "share"))) as served:
        reply = served.post("/filter", {"Pod": pod, "NodeNames": ["a", "s"]}).json
    told = {**reply.get("FailedNodes", {}), **reply.get("FailedAndUnresolvableNodes", {})}
    assert reply["NodeNames"] == []
    assert told.keys() == {"a", "s"}
    assert all(told.values())


@pytest.mark.parametrize("verb", VERBS)
def test_a_body_that_is_no_json_by_its_own_word_is_not_read(verb: str) -> None:
    with Served(broker_of(Box("a"))) as served:
        reply = served.call("POST", f"/{verb}", json.dumps(GOOD[verb]), {"Content-Type": "text/xml"})
    assert (reply.status, reply.text) == (415, "the body is 'text/xml'; application/json is expected\n")


def test_a_body_that_is_too_long_is_refused_before_it_is_read() -> None:
    with Served(broker_of(Box("a"))) as served, socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n"
        )
        assert b" 413 " in wire.recv(1000)


def test_a_slow_client_keeps_nobody_waiting() -> None:
    with Served(broker_of(Box("a"))) as served, socket.create_connection(("127.0.0.1", served.port)) as wire:
        wire.sendall(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        assert served.post("/filter", GOOD["filter"]).json["NodeNames"] == ["a"]
        wire.setblocking(False)  # noqa: FBT003 - the name says it
        with pytest.raises(BlockingIOError):  # it is waited for still
            wire.recv(1)


def trickled(*pieces: bytes) -> Response:
    """The answer to a body of these pieces that never ends."""
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else await asyncio.Future()

    request = Request({"type": "http", "method": "POST", "path": "/filter", "headers": []}, receive)
    return asyncio.run(answered(Verb("filter", bytes, str.encode, Counting()), request, slowest=0.01))


def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    answer = trickled(b"{")
    assert (answer.status_code, answer.body) == (408, b"the body did not arrive within 0.01 s\n")


def test_a_body_that_does_not_tell_its_length_is_not_read_without_end() -> None:
    answer = trickled(*[bytes(1 << 20)] * 65)
    assert (answer.status_code, answer.body) == (413, b"the body has more than the 67108864 bytes that are read\n")


@pytest.mark.parametrize("verb", VERBS)
def test_bytes_that_are_no_text_are_told_so(verb: str) -> None:
    with Served(broker_of(Box("a"))) as served:
        reply = served.call("POST", f"/{verb}", json.dumps(GOOD[verb]).encode().replace(b'"a"', b'"\xff"'))
    assert clear(verb, reply)
    assert b"the JSON is no UTF-8" in reply.body


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("nodes", [{}, {"NodeNames": None, "Nodes": None}])
def test_a_call_that_names_no_nodes_in_any_way_is_told_so(verb: str, nodes: dict[str, None]) -> None:
    with Served(broker_of(Box("a"))) as served:
        reply = served.post(f"/{verb}", {"Pod": POD, **nodes})
    assert clear(verb, reply)
    assert b"neither NodeNames nor Nodes" in reply.body


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_not_allowed(method: str) -> None:
    with Served(broker_of(Box("a"))) as served:
        assert served.call(method, "/filter").status == 405


def test_a_bind_of_a_pod_or_node_that_is_not_known_says_so() -> None:
    with Served(broker_of(Box("a"))) as served:
        nobody = served.post("/bind", GOOD["bind"]).json["Error"]
        served.post("/filter", GOOD["filter"])
        nowhere = served.post("/bind", {**GOOD["bind"], "Node": "moon"}).json["Error"]
    assert nobody == "pod uid-p was not seen yet; it is bound as soon as it is"
    assert nowhere == "node moon is not known"


@pytest.mark.skipif(not RECORDED.exists(), reason="the recordings are not here")
@pytest.mark.parametrize("name", ["filter-whole", "filter-share", "prioritize", "preempt"])
def test_calls_as_a_real_scheduler_sent_them_are_answered(name: str) -> None:
    boxes = [Box(f"gpu-{number}", count=8) for number in range(3)]
    with Served(broker_of(*boxes, Box("share-0", "share", 4, memory=22))) as served:
        reply = served.post(f"/{name.partition('-')[0]}", (RECORDED / f"{name}.json").read_bytes())
    assert reply.status == 200
    assert reply.json
