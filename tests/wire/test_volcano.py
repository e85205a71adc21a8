"""Messages of Volcano's extender plugin, in the shapes of all its versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from linkwise.errors import InputError
from linkwise.wire.decoding import MOST_VALUES
from linkwise.wire.volcano import (
    decode_evict,
    decode_job,
    decode_prioritize,
    decode_task,
    keys_of,
    predicate_reply,
    scores_reply,
    victims_reply,
)
from support.builders.volcano import job_info, node_info, task_info, volcano_pod

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED: Final = Path(__file__).parents[3] / "shared/data/recorded/volcano-1.14.1"
POD: Final = volcano_pod("a", 2, "g")


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_task_is_read_without_the_node_that_volcano_set_in_its_copy() -> None:
    args = decode_task(body(task=task_info(POD, "n", 2), node=node_info("n")))
    assert args.task is not None
    assert args.node is not None
    view = args.task.view()
    assert (args.task.uid, args.task.node, args.node.name, args.task.pipelined) == (POD.uid, "n", "n", False)
    assert view is not None
    assert (view.uid, view.node, view.scheduler, view.annotations) == (POD.uid, "", "volcano", POD.annotations)


def test_a_pipelined_task_is_known_by_its_status() -> None:
    assert [
        task.pipelined for status in (1, 2, 4, 8) if (task := decode_task(body(task=task_info(POD, "n", status))).task)
    ] == [False, False, True, False]


def test_newer_annotations_of_the_task_go_before_those_of_the_pod() -> None:
    task = decode_task(body(task={**task_info(POD), "PodAnnotations": {"huawei.com/Ascend910": "Ascend910-1"}})).task
    view = task.view() if task else None
    assert view is not None
    assert view.annotations == {**POD.annotations, "huawei.com/Ascend910": "Ascend910-1"}


@pytest.mark.parametrize("pod", [None, "missing"])
def test_a_task_without_a_pod_has_no_view(pod: str | None) -> None:
    document: dict[str, Any] = {**task_info(POD), "Pod": None}
    if pod:
        del document["Pod"]
    task = decode_task(body(task=document)).task
    assert task is not None
    assert task.view() is None


def test_node_names_are_read_in_either_spelling_each_once() -> None:
    nodes = [node_info("b"), {"name": "a"}, None, {"Name": ""}, node_info("b")]
    assert decode_prioritize(body(task=task_info(POD), nodes=nodes)).names == ["b", "a"]
    assert decode_prioritize(body(task=task_info(POD), nodes=None)).names == []


def test_pod_groups_are_read_in_the_shapes_of_old_and_new_versions() -> None:
    new = job_info("j", {"huawei.com/Ascend910": "16"}, {"w": 2})
    old = {
        **new,
        "PodGroup": {
            "name": "j",
            "namespace": "default",
            "Spec": {"MinMember": 2, "MinTaskMember": {"w": 2}, "MinResources": {"huawei.com/Ascend910": 16}},
            "Status": {},
            "Version": "v1beta1",
        },
    }
    for document in (new, old):
        job = decode_job(body(job=document)).job
        assert job is not None
        assert (job.resources, job.members) == ({"huawei.com/Ascend910": "16"}, {"w": 2})
    bare = decode_job(body(job=job_info("j", None))).job
    assert bare is not None
    assert (bare.resources, bare.members) == ({}, {})


def test_victims_are_returned_byte_for_byte() -> None:
    spaced = b'{"UID":"x",  "Odd":[1.50, null],"Pod":{"metadata":{"uid":"x"}}}'
    args = decode_evict(b'{"evictor":{"UID":"e"},"evictees":[' + spaced + b',{"UID":"y"},null]}')
    evictees = args.by_uid()
    assert list(evictees) == ["x", "y"]
    assert victims_reply(1, evictees, ("x",)) == b'{"status":1,"victims":[' + spaced + b"]}"


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        ({"task": {}, "node": {}}, {"task", "node"}),
        ({"task": {}, "nodes": []}, {"task", "nodes"}),
        ({"job": {}}, {"job"}),
        ({"queue": {}}, {"queue"}),
        ({"evictor": {}, "evictees": []}, {"evictor"}),
        ({"other": 1}, set()),
    ],
)
def test_the_keys_of_a_body_say_what_it_is_about(fields: dict[str, object], keys: set[str]) -> None:
    assert keys_of(body(**fields)) == keys


def test_a_fit_is_valid_for_every_version() -> None:
    for shape in ("string", "list"):
        assert json.loads(predicate_reply(0, "", shape)) == {"errorMessage": "", "status": None, "code": 0}


def test_a_refusal_has_the_shape_of_its_version() -> None:
    assert json.loads(predicate_reply(2, "full", "string")) == {"errorMessage": "full", "status": "full", "code": 2}
    listed = json.loads(predicate_reply(3, "odd", "list"))
    assert listed["status"] == [{"Code": 3, "Reason": "odd"}]


def test_scores_are_never_null() -> None:
    assert json.loads(scores_reply({}, "no")) == {"nodeScore": {}, "errorMessage": "no"}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"task": 3}', b'{"task": {"UID": 3}}', b"\xff", b"[" * 100_000])
def test_a_broken_call_is_refused_with_words(raw: bytes) -> None:
    with pytest.raises(InputError):
        decode_task(raw)


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_what_volcano_really_sends_is_read(file: Path) -> None:
    data = file.read_bytes()
    document = json.loads(data)
    if "job" in document:
        job = decode_job(data).job
        assert job is not None
        assert job.uid == document["job"]["UID"]
        assert "huawei.com/Ascend910" in job.resources
    elif "nodes" in document:
        assert decode_prioritize(data).names == [node["Name"] for node in document["nodes"]]
    elif "task" in document:
        args = decode_task(data)
        assert args.task is not None
        view = args.task.view()
        assert view is not None
        assert (view.uid, view.node) == (document["task"]["UID"], "")
    else:
        assert keys_of(data) == {"queue"}


def test_the_tasks_of_a_node_are_skipped_unread() -> None:
    tasks = [task_info(volcano_pod(f"p{number}", 1, "g"), "n", 32) for number in range(20)]
    broken = body(task=task_info(POD), node=node_info("n", [{**task, "UID": 3, "Pod": []} for task in tasks]))
    assert decode_task(broken) == decode_task(body(task=task_info(POD), node=node_info("n", tasks)))


def test_numbers_of_any_size_in_what_is_skipped_do_no_harm() -> None:
    huge = msgspec.json.encode({"Name": "n", "Idle": {"MilliCPU": 1e308}, "Generation": 2**63})
    args = decode_task(b'{"task":{"UID":"u"},"node":' + huge + b"}")
    assert args.node is not None
    assert args.node.name == "n"


@pytest.mark.parametrize("decode", [decode_task, decode_prioritize, decode_evict, decode_job, keys_of])
def test_a_call_with_more_values_than_whole_nodes_have_is_not_decoded(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(InputError, match="more than 3000000 values"):
        decode(b'{"nodes":[' + b"{}," * (MOST_VALUES + 1) + b"3")
