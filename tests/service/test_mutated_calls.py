"""Calls as a scheduler sends them, one field of which is anything: there is an answer, nothing fails, nothing changes.

The calls are our own, of the shape that kube-scheduler 1.36 sends; where its recordings are there, those as well.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.effects import BindResult
from linkwise.net.http.server_connection import FAILED
from linkwise.testing.cluster import FakeNode, broker_of, device_pod
from linkwise.testing.recorder import Recorder
from support.fakes.http_service import Served
from support.profile import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkwise.broker.broker import Broker

    Call = dict[str, Any]
    Step = str | int

OURS = Path(__file__).parent / "calls"
RECORDED = Path(__file__).parents[3] / "shared/data/recorded/kube-scheduler-1.36.4"
CALLS = [*sorted(OURS.glob("*.json")), *sorted(RECORDED.glob("*.json"))]
NUMBERS = st.integers(-(2**70), 2**70)
TEXTS = st.text(max_size=5) | st.sampled_from(["-1", "1e400", "0.5", "8Gi", "2025-13-40T25:61:61Z", "a" * 300])
LIKE: dict[type, st.SearchStrategy[object]] = {int: NUMBERS, str: TEXTS}
"""values of the right kind get further than others"""
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    *LIKE.values(),
)

every_call = pytest.mark.parametrize("file", CALLS, ids=lambda file: f"{file.parent.name}/{file.stem}")


def read(file: Path) -> tuple[str, Call]:
    """The verb of a call, and its body."""
    return file.stem.partition("-")[0], json.loads(file.read_text("utf-8"))


def served(call: Call) -> Served:
    """A service that knows all that the call names; no bind is let through, and an hour passes at every look."""
    victims: Call = call.get("NodeNameToMetaVictims") or {}
    names: list[str] = call.get("NodeNames") or [*victims, *_values(call, "Node")]
    boxes = [_box(name, victims.get(name)) for name in names]
    broker = broker_of(*boxes)
    for box in boxes:
        _fill(broker, box)
    for uid in _values(call, "PodUID"):
        pod = device_pod(call["PodName"], 8, uid=uid, namespace=call["PodNamespace"])
        broker.observe([pod], 0.0)
        broker.filter(pod, names, 0.0)
    hours = count(0.0, 3600.0)  # so that no earlier pod is in the way
    return Served(broker, Recorder([BindResult("refused", "not today")] * 10_000), clock=lambda: next(hours))


def _box(name: str, victims: Call | None) -> FakeNode:
    box = FakeNode(name, "share", 4, memory=22) if name.startswith("share") else FakeNode(name, count=8)
    held = {victim["UID"]: box.devices(*range(8)) for victim in (victims or {}).get("Pods", ())}
    return replace(box, allocations=held)


def _fill(broker: Broker, box: FakeNode) -> None:
    for uid in box.allocations:
        broker.observe([replace(device_pod(f"on-{box.name}", 8, uid=uid), node=box.name)], 0.0)


def _values(call: Call, key: str) -> list[str]:
    return [call[key]] if key in call else []


def entries(service: Served) -> object:
    """What the ledger holds."""
    return service.get("/debug/snapshot").json["state"]["entries"]


@st.composite
def mutated(draw: st.DrawFn, call: Call) -> Call:
    """The call with anything in one place, or without that place."""
    body = json.loads(json.dumps(call))
    *way, last = draw(st.sampled_from(list(_paths(call))))
    held = body
    for step in way:
        held = held[step]
    if draw(st.integers(0, 4)):
        held[last] = draw(LIKE.get(type(held[last]), ANYTHING) | ANYTHING)
    else:
        del held[last]
    return dict(body)


def another(body: Call, call: Call, number: int) -> str:
    """The body with a pod that has not asked before: of one that has, it is known already what it says."""
    uid = call.get("Pod", {"metadata": {"uid": "no pod"}})["metadata"]["uid"]
    return json.dumps(body).replace(uid, f"{uid}-{number}")


def _paths(value: object, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if path:
        yield path
    held: Iterable[tuple[Step, object]] = ()
    if isinstance(value, dict):
        held = value.items()
    elif isinstance(value, list):
        held = enumerate(value)
    for key, inner in held:
        yield from _paths(inner, (*path, key))


@every_call
def test_no_field_of_any_call_can_break_the_service(file: Path) -> None:
    verb, call = read(file)
    with served(call) as service:
        before, numbers = entries(service), count()

        @settings(max_examples=examples(300))
        @given(mutated(call))
        def answered(body: Call) -> None:
            reply = service.post(f"/{verb}", another(body, call, next(numbers)))
            assert reply.status in {200, 400}
            assert FAILED.encode() not in reply.body
            assert b"Traceback" not in reply.body
            assert entries(service) == before

        answered()
        assert service.get("/livez").status == 200


@every_call
def test_a_call_as_a_scheduler_sends_it_is_answered(file: Path) -> None:
    verb, call = read(file)
    with served(call) as service:
        reply = service.post(f"/{verb}", call).json
    if verb == "bind":
        assert reply == {"Error": "not today"}
    elif verb == "prioritize":
        assert {entry["Host"] for entry in reply} == set(call["NodeNames"])
    else:
        key = {"filter": "NodeNames", "preempt": "NodeNameToMetaVictims"}[verb]
        assert sorted(reply[key]) == (sorted(call[key])[:1] if verb == "filter" else sorted(call[key]))


def shape(value: object) -> object:
    """The keys and the kinds of values of a document; names of nodes and of resources are anybody's own."""
    if isinstance(value, dict):
        return sorted(("*" if "/" in key or "-" in key else key, repr(shape(inner))) for key, inner in value.items())
    if isinstance(value, list):
        return sorted({repr(shape(inner)) for inner in value})
    return type(value).__name__


@pytest.mark.skipif(not RECORDED.exists(), reason="the recordings are not here")
@pytest.mark.parametrize("name", ["filter-whole", "filter-share", "prioritize", "preempt"])
def test_our_own_calls_have_the_shape_of_those_that_were_recorded(name: str) -> None:
    ours, theirs = (json.loads((folder / f"{name}.json").read_text("utf-8")) for folder in (OURS, RECORDED))
    assert shape(ours) == shape(theirs)
    assert ours != theirs
