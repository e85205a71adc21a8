"""Volcano's calls over a real socket: every answer is a 200 with its reason, and nothing is written before the bind."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from linkwise.broker.effects import Event, Record
from linkwise.testing.cluster import ASCEND, FakeNode, broker_of, device_pod
from linkwise.testing.recorder import Recorder
from support.builders.volcano import job_info, node_info, pod_group, task_info, volcano_pod
from support.fakes.http_service import Served
from support.profile import examples

if TYPE_CHECKING:
    from linkwise.model.views import PodView

RECORDED: Final = Path(__file__).parents[3] / "shared/data/recorded/volcano-1.14.1"
RING: Final = FakeNode("n", "ring", 8)
VERBS: Final = (
    *("predicate", "prioritize", "preemptable", "reclaimable", "jobEnqueueable"),
    *("allocateFunc", "deallocateFunc", "jobReady", "queueOverused"),
)
POD: Final = volcano_pod("a", 2)


def calls(pod: PodView = POD) -> dict[str, dict[str, Any]]:
    """A call of each verb."""
    other = replace(volcano_pod("victim", 8), node="n", version=2)
    evict = {"evictor": task_info(pod), "evictees": [task_info(other, "n", 32)]}
    return {
        "predicate": {"task": task_info(pod), "node": node_info("n", [task_info(other, "n", 32)])},
        "prioritize": {"task": task_info(pod), "nodes": [node_info("n"), node_info("m")]},
        "preemptable": evict,
        "reclaimable": evict,
        "jobEnqueueable": {"job": job_info("j", {ASCEND: "8"}, {"w": 1})},
        "allocateFunc": {"task": task_info(pod, "n", 2)},
        "deallocateFunc": {"task": task_info(pod, "n", 64)},
        "jobReady": {"job": job_info("j", {ASCEND: "8"}, {"w": 1}, [pod])},
        "queueOverused": {"queue": {"UID": "default", "Name": "default", "Weight": 1}},
    }


async def observed(served: Served, pod: PodView) -> None:
    served.service.observe([pod])


def test_a_pod_is_asked_about_allocated_bound_and_written() -> None:
    broker = broker_of(RING, FakeNode("m", "ring", 8))
    broker.observe([POD], 0.0)
    with Served(broker) as served:
        answers = {verb: served.post(f"/volcano/{verb}", body).json for verb, body in calls().items()}
        again = served.post("/volcano/allocateFunc", calls()["allocateFunc"]).json
        assert [effect for effect in served.performer.effects if isinstance(effect, Record)] == []
        served.on_loop(observed(served, replace(POD, node="n", version=2)))
        (record,) = [effect for effect in served.performer.effects if isinstance(effect, Record)]
        metrics = served.get("/metrics").text
    assert answers["predicate"] == {"errorMessage": "", "status": None, "code": 0}
    assert sorted(answers["prioritize"]["nodeScore"]) == ["m", "n"]
    assert answers["jobEnqueueable"] == {"status": 0}
    assert (answers["allocateFunc"], answers["deallocateFunc"], again) == ({"errorMessage": ""},) * 3
    assert (answers["jobReady"], answers["queueOverused"]) == ({"status": True}, {"overused": False})
    assert record.annotations[ASCEND].startswith("Ascend910-")
    assert 'linkwise_volcano_bookings_total{result="booked"} 2.0' in metrics
    assert 'linkwise_requests_total{code="200",verb="volcano_predicate"} 1.0' in metrics


def test_old_versions_send_jobs_and_queues_to_other_routes() -> None:
    broker = broker_of(RING)
    broker.observe([POD], 0.0)
    bad = {"job": job_info("bad", {ASCEND: "7"})}
    with Served(broker) as served:
        for path in ("/volcano/reclaimable", "/volcano/", "/volcano"):
            assert served.post(path, bad).json == {"status": -1}
            assert served.post(path, calls()["queueOverused"]).json == {"overused": False}
            assert served.post(path, calls()["preemptable"]).json == {"status": 0, "victims": []}
        assert served.post("/volcano/", calls()["predicate"]).json["code"] == 0
        assert served.post("/volcano/", calls()["prioritize"]).json["errorMessage"] == ""
        nothing = served.post("/volcano/", {"task": {}})
    assert (nothing.status, "no verb" in nothing.json["errorMessage"]) == (200, True)


@pytest.mark.rule("003.valid-job")
def test_an_invalid_job_is_refused_when_it_is_enqueued_with_one_event_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Served(broker_of(RING)) as served:
        for _ in range(5):
            assert served.post("/volcano/jobEnqueueable", {"job": job_info("bad", {ASCEND: "7"})}).json == {
                "status": -1
            }
        metrics = served.get("/metrics").text
        (event,) = [effect for effect in served.performer.effects if isinstance(effect, Event)]
    sentence = "7 devices can't be allocated on ascend-910; request 1, 2, 4 or 8"
    assert event == Event("Warning", "JobRefused", sentence, "default", "bad", "uid-bad", about="PodGroup")
    lines = [record.getMessage() for record in caplog.records if "job refused" in record.getMessage()]
    assert len(lines) == 1
    assert "default/bad" in lines[0]
    assert 'linkwise_volcano_jobs_total{verdict="refused"} 5.0' in metrics


def test_victims_are_those_that_were_sent() -> None:
    broker = broker_of(RING)
    low = replace(device_pod("low", 8, ASCEND), annotations={ASCEND: ",".join(f"Ascend910-{i}" for i in range(8))})
    low, high = replace(low, node="n", scheduler="volcano", version=2), replace(POD, priority=9)
    broker.observe([low, high], 0.0)
    sent = task_info(low, "n", 32)
    with Served(broker) as served:
        reply = served.post("/volcano/preemptable", {"evictor": task_info(high), "evictees": [sent]}).json
    assert reply == {"status": 1, "victims": [sent]}


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b"{", b'{"task":null}', b'{"task":{"Pod":null}}', b"\xff"]
)
def test_whatever_is_sent_the_answer_is_a_200_of_the_right_shape(verb: str, body: bytes, *, synced: bool) -> None:
    with Served(broker_of(RING), synced=synced) as served:
        reply = served.post(f"/volcano/{verb}", body)
        assert served.performer.effects == []
    assert reply.status == 200
    expected = {
        "predicate": {"errorMessage", "status", "code"},
        "prioritize": {"nodeScore", "errorMessage"},
        "preemptable": {"status", "victims"},
        "reclaimable": {"status", "victims"},
        "jobEnqueueable": {"status"},
        "allocateFunc": {"errorMessage"},
        "deallocateFunc": {"errorMessage"},
        "jobReady": {"status"},
        "queueOverused": {"overused"},
    }
    assert set(reply.json) == expected[verb]
    if verb in {"predicate", "prioritize", "allocateFunc"}:
        assert reply.json["errorMessage"]


FINITE: Final = st.floats(allow_nan=False, allow_infinity=False)
SCALARS: Final = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=5), FINITE)
ANYTHING: Final = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


def _places(document: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found += _places(value, (*path, key))
    return found


@pytest.fixture(scope="module")
def shared_service() -> Any:  # noqa: ANN401 - a generator
    hours = count(0.0, 30.0)
    broker = broker_of(RING, FakeNode("m", "ring", 8))
    broker.observe([POD, pod_group("g", 1), volcano_pod("b", 4, "g")], 0.0)
    with Served(broker, Recorder(), clock=lambda: next(hours)) as served:
        yield served


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_garbage_in_any_field_never_fails_and_books_nothing_twice(
    shared_service: Served, verb: str, data: st.DataObject
) -> None:
    document = json.loads(json.dumps(calls(data.draw(st.sampled_from([POD, volcano_pod("b", 4, "g")])))[verb]))
    path = data.draw(st.sampled_from(_places(document)))
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = data.draw(ANYTHING)
    reply = shared_service.post(f"/volcano/{verb}", document)
    assert reply.status == 200
    assert "bug" not in reply.text
    broker = shared_service.service.broker
    taken = [(entry.node, device) for entry in broker.entries() for device in entry.grant.offer.devices]
    assert len(taken) == len(set(taken))
    assert not [effect for effect in shared_service.performer.effects if not isinstance(effect, Event)]


def test_fifty_allocations_at_once_get_different_devices() -> None:
    nodes = [FakeNode(f"n{number}", "ring", 8) for number in range(4)]
    broker, pods = broker_of(*nodes), [volcano_pod(f"p{number}", 1) for number in range(50)]
    broker.observe(pods, 0.0)
    with Served(broker) as served, ThreadPoolExecutor(16) as pool:
        bodies = [{"task": task_info(pod, f"n{number % 4}", 2)} for number, pod in enumerate(pods)]
        errors = list(pool.map(lambda body: served.post("/volcano/allocateFunc", body).json["errorMessage"], bodies))
        entries = list(broker.entries())
        back = list(
            pool.map(lambda body: served.post("/volcano/deallocateFunc", body).json["errorMessage"], bodies * 3)
        )
    assert errors.count("") == 32
    devices = [device for entry in entries for device in entry.grant.offer.devices]
    assert len(devices) == len(set(devices)) == 32
    assert (set(back), list(broker.entries())) == ({""}, [])


def test_a_huge_body_is_answered() -> None:
    tasks = [task_info(volcano_pod(f"p{number}", 1), "n", 32) for number in range(2000)]
    broker = broker_of(RING)
    broker.observe([POD], 0.0)
    with Served(broker) as served:
        reply = served.post("/volcano/predicate", {"task": task_info(POD), "node": node_info("n", tasks)})
    assert (reply.status, reply.json["code"]) == (200, 0)


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_what_volcano_really_sends_is_answered(file: Path) -> None:
    broker = broker_of(*(FakeNode(f"npu-{number}", "ring", 8) for number in range(3)))
    verb = file.stem.partition("-")[0]
    with Served(broker) as served:
        reply = served.post(f"/volcano/{verb}", file.read_bytes())
    assert reply.status == 200
    assert set(reply.json) <= {"errorMessage", "status", "code", "nodeScore", "overused"}
