"""Snapshots as JSON: what is written is read as the same, and what is wrong is named with its place."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from linkwise.broker.snapshot import BrokerState
from linkwise.engine.index.node_index import Query
from linkwise.engine.queue.scheduling_queue import QueuedPod
from linkwise.errors import InputError
from linkwise.model.settings import PlacingSettings
from linkwise.model.snapshot import Snapshot
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.wire.snapshot import _codec, _Snapshot, decode_snapshot, encode_snapshot
from support.records import filled, record_classes

POD = PodView("team", "train", "u-1", (ContainerView("main", limits={"nvidia.com/gpu": "2"}),), created=5.0, version=7)
OTHER = PodView("team", "other", "u-2", version=1)
LEAVES = {PodView: OTHER, Query: None}
"""a pod is written as a Kubernetes object, and a query is derived from its pod"""
RECORDS = sorted({*record_classes(BrokerState, *LEAVES)}, key=str)
FULL = Snapshot(
    12.5,
    filled(PlacingSettings),
    (NodeView("n1", capacity={"cpu": "4"}),),
    {"n1": {"Device": {"spec": {"topology": [1.25, None, "x"]}}}},
    (POD,),
    {"Topology.kueue.x-k8s.io": {"default": {"spec": {"levels": []}}}},
    filled(BrokerState, LEAVES),
)


def decoded(data: bytes) -> Snapshot[BrokerState]:
    return decode_snapshot(data, BrokerState)


def changed(document: dict[str, Any], *path: str | int, to: object) -> bytes:
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(document).encode()


def test_all_of_it_is_read_as_it_was_written() -> None:
    assert decoded(encode_snapshot(FULL)) == FULL
    assert decoded(encode_snapshot(Snapshot())) == Snapshot()


def test_equal_snapshots_give_equal_bytes() -> None:
    assert encode_snapshot(decoded(encode_snapshot(FULL))) == encode_snapshot(FULL)


def test_a_pod_that_asked_as_it_is_seen_is_named_by_its_uid_alone() -> None:
    queue = (QueuedPod(POD, 3.0), QueuedPod(OTHER, 4.0))
    taken = Snapshot(pods=(POD,), state=BrokerState(queue=queue))
    first, second = json.loads(encode_snapshot(taken))["state"]["queue"]
    assert first["pod"] == "u-1"
    assert second["pod"]["metadata"]["uid"] == "u-2"
    assert decoded(encode_snapshot(taken)) == taken


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_every_record_is_written_and_read(kind: type[Any]) -> None:
    record, codec = filled(kind, LEAVES), _codec(())
    written = codec.encode(record, kind)
    assert written.keys() == {each.name for each in fields(kind) if each.compare}
    assert codec.decode(json.loads(json.dumps(written)), kind) == record


def test_a_document_has_every_field_of_a_snapshot() -> None:
    known = {field.name for field in fields(Snapshot)} | {"version"}
    assert known == {field.name for field in msgspec.structs.fields(_Snapshot)}


def test_every_object_and_record_is_on_a_line_of_its_own() -> None:
    lines = encode_snapshot(FULL).decode().splitlines()
    assert len([line for line in lines if '"kind":"Pod"' in line]) == len(FULL.pods) + 1
    assert len([line for line in lines if '"state":"OFFERED"' in line]) == 1


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("version",), 2, "version: 2 is not supported; this Linkwise reads version 3"),
        (("version",), "1", "version: expected a whole number or nothing, got text"),
        (("now",), "soon", "now: expected a number, got text"),
        (("plans",), [], "field 'plans' is not known"),
        (("state", "plans"), [], "state: field 'plans' is not known"),
        (
            ("state", "groups", "x", "stage"),
            {"type": "Idle", "x": 1},
            "state.groups['x'].stage: field 'x' is not known",
        ),
        (("state", "entries", 0, "state"), "DONE", "state.entries[0].state: 'DONE' is not known"),
        (
            ("state", "entries", 0, "grant", "offer", "parts", 0, "share"),
            1.5,
            "state.entries[0].grant.offer.parts[0].share: expected a whole number, got a number",
        ),
        (("state", "queue", 0, "pod"), "u-7", "state.queue[0].pod: no pod has the UID 'u-7'"),
        (("settings", "breath"), 3, "settings: field 'breath' is not known; the fields are breadth, "),
        (("settings", "share", "order"), "tight", "settings.share.order: 'tight' is not known"),
        (("settings", "share", "orders"), "x", "settings.share: field 'orders' is not known; the fields are order, "),
        (("pods", 0, "spec", "containers", 0, "name"), 3, "pods[0].spec.containers[0].name: expected text, got"),
        (
            ("pods", 0, "metadata", "creationTimestamp"),
            "noon",
            "pods[0].metadata.creationTimestamp: 'noon' is not a timestamp",
        ),
        (("objects", "n1", "Device"), [], "objects[...][...]: expected an object, got a list"),
        (("state", "queue", 0, "pod", "spec"), [], "state.queue[0].pod.spec: expected an object, got a list"),
        (("nodes",), {}, "nodes: expected a list, got an object"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: tuple[str | int, ...], to: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        decoded(changed(json.loads(encode_snapshot(FULL)), *path, to=to))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("part", ["nodes", "pods"])
def test_nothing_stands_in_it_twice(part: str) -> None:
    document = json.loads(encode_snapshot(FULL))
    with pytest.raises(InputError, match=rf"{part}\[1\]: duplicate: .* is listed before"):
        decoded(changed(document, part, to=document[part] * 2))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"now": 1}', b'"text"'])
def test_what_is_no_snapshot_at_all_is_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError):
        decoded(data)


def objects(*items: dict[str, Any], kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


def test_a_list_of_kubectl_is_a_snapshot() -> None:
    found = decoded(
        objects(
            {"kind": "Node", "metadata": {"name": "n1"}},
            {"kind": "Pod", "metadata": {"name": "p", "uid": "u", "creationTimestamp": "1970-01-01T00:01:40Z"}},
            {"kind": "DeviceInventory", "metadata": {"name": "n1"}, "spec": {}},
            {"kind": "ConfigMap", "metadata": {"name": "mindx-dl-deviceinfo-n1"}, "data": {}},
            {"kind": "ConfigMap", "metadata": {"name": "coredns"}},
        )
    )
    assert (found.now, found.state) == (100.0, None)
    assert [node.name for node in found.nodes] == ["n1"]
    assert [pod.uid for pod in found.pods] == ["u"]
    assert list(found.objects["n1"]) == ["DeviceInventory", "ConfigMap/mindx-dl-deviceinfo-n1"]


def test_a_list_may_say_the_kind_once_and_leave_out_uids() -> None:
    found = decoded(objects({"metadata": {"name": "p", "namespace": "team"}}, kind="PodList"))
    assert [pod.uid for pod in found.pods] == ["team/p"]


def test_the_longest_name_of_a_node_has_the_config_map() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("1", "gpu-1")]
    found = decoded(objects(*nodes, {"kind": "ConfigMap", "metadata": {"name": "unhealthy-gpu-gpu-1"}}))
    assert list(found.objects) == ["gpu-1"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"kind": "Secret"}, "items[0].kind: 'Secret' is not supported; use Node, Pod, "),
        ({"kind": "Pod", "spec": {"priority": "high"}}, "items[0].spec.priority: expected a whole number or nothing"),
        ({"kind": "Pod", "metadata": {"creationTimestamp": "x"}}, "items[0].metadata.creationTimestamp: 'x' is no"),
    ],
)
def test_what_is_wrong_in_a_list_is_named_with_its_place(item: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        decoded(objects(item))
    assert str(caught.value).startswith(said)


def test_a_list_may_contain_objects_of_groups() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "x"},
    }
    level = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "default"}}
    found = decoded(json.dumps({"kind": "List", "items": [group, level]}).encode())
    assert found.shared == {
        "PodGroup.scheduling.volcano.sh": {"x/g": group},
        "Topology.kueue.x-k8s.io": {"default": level},
    }
