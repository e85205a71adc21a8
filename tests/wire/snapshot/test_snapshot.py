"""Snapshots as JSON: what is written is read as the same, and what is wrong is named with its place."""

from __future__ import annotations

import json
from dataclasses import fields
from math import inf
from typing import Any

import msgspec
import pytest

from linkwise.errors import InputError
from linkwise.model.ask import Ask, ContainerAsk
from linkwise.model.ledger_entry import Entry
from linkwise.model.settings import BandwidthSettings, PlacingSettings, ShareSettings
from linkwise.model.snapshot import (
    BrokerState,
    EffectKept,
    GroupsKept,
    LevelKept,
    OfferKept,
    PlacementKept,
    PlanKept,
    ShortKept,
    Snapshot,
    ToldKept,
    Tried,
)
from linkwise.model.verdict import Grant, Offer, Part, Reason
from linkwise.model.views import ContainerView, NodeView, PodView
from linkwise.wire.snapshot.group_records import (
    GroupsRecord,
    LevelRecord,
    PlanRecord,
    ReasonRecord,
    ShortRecord,
    ToldRecord,
)
from linkwise.wire.snapshot.records import AskRecord, ContainerRecord, EntryRecord, GrantRecord, OfferRecord, PartRecord
from linkwise.wire.snapshot.snapshot import _Kept, _Snapshot, decode_snapshot, encode_snapshot

POD = PodView("team", "train", "u-1", (ContainerView("main", limits={"nvidia.com/gpu": "2"}),), created=5.0, version=7)
GRANT = Grant(
    "u-1", "bandwidth", Offer("n1", (Part("main", ("a", "b"), 3, 4),), (1, -2), ("a note",)), "plan", 2, "percent"
)
ASK = Ask("x", (ContainerAsk("main", 1, 2, 3),), "team", "ascend-910", "share", ("a",), in_bytes=True)
FULL = Snapshot(
    12.5,
    PlacingSettings(3, 4.0, share=ShareSettings("spread"), bandwidth=BandwidthSettings(1.5), policies={"a": "b"}),
    (NodeView("n1", capacity={"cpu": "4"}),),
    {"n1": {"Device": {"spec": {"topology": [1.25, None, "x"]}}}},
    (POD,),
    BrokerState(
        entries=(Entry(GRANT, "PLANNED", "team", 5.0, ASK, 3, (2, 3), "unknown", 9.75),),
        serial=3,
        asked=(POD, PodView("team", "other", "u-2", version=1)),
        pending=(OfferKept("u-1", ("n1", "n2"), 14.5),),
        offered={"u-1": ("n1", "n2")},
        tried={"u-2": Tried(("n3",), 2)},
        freed=("n4",),
        refused=("u-2",),
        times={"n1": 1_700_000_000_000_000_001},
        gone={"u-9": True, "u-3": False},
        changed={"u-1": GRANT},
        moved={"u-1": ("n1", "n2")},
        late=(EffectKept("Wake", {"namespace": "a", "name": "b", "uid": "c", "sentence": "d"}),),
        groups=GroupsKept(
            plans=(
                PlanKept(
                    "team/g/2",
                    (PlacementKept("u-1", "n1", GRANT.offer), PlacementKept("u-2", "n2")),
                    "team/g/2",
                    3,
                    70.5,
                    7,
                    ("team/h",),
                    (LevelKept("nodes", (1,)), LevelKept("bottleneck", (inf, 46.5), proven=False)),
                    ("zone-a",),
                    ("u-9",),
                ),
            ),
            short=(ShortKept("team/s", Reason("001.gang", 3, ("a", "b"), "short", "ring"), ("u-3",), 22.0),),
            satisfied=("team/h",),
            first_seen={"team/g/2": 5.5},
            allowed={"team/z": {"u-1": ("n1", "n2")}},
            rests={"team/g/2": (2, 11.5)},
            refused={"u-1": 2},
            avoided={"team/g/2": ("n7",)},
            places={"team/h": (12.5, ("u-8/place",))},
            told={"team/g/2": (ToldKept("u-1", "OtherReplica", "make them equal"),)},
            halved=("team/h",),
            touched=("team/t",),
            generations={"team/g/2": 4},
        ),
    ),
    {"Topology.kueue.x-k8s.io": {"default": {"spec": {"levels": []}}}},
)


def changed(document: dict[str, Any], *path: str | int, to: object) -> bytes:
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(document).encode()


def test_all_of_it_is_read_as_it_was_written() -> None:
    assert decode_snapshot(encode_snapshot(FULL)) == FULL
    assert decode_snapshot(encode_snapshot(Snapshot())) == Snapshot()


def test_equal_snapshots_give_equal_bytes() -> None:
    assert encode_snapshot(decode_snapshot(encode_snapshot(FULL))) == encode_snapshot(FULL)


def test_a_pod_that_asked_as_it_is_seen_is_named_by_its_uid_alone() -> None:
    asked = json.loads(encode_snapshot(FULL))["kept"]["asked"]
    assert asked[0] == "u-1"
    assert asked[1]["metadata"]["uid"] == "u-2"


@pytest.mark.parametrize(
    ("values", "record"),
    [
        ((Entry,), EntryRecord),
        ((Ask,), AskRecord),
        ((ContainerAsk,), ContainerRecord),
        ((Part,), PartRecord),
        ((OfferKept,), OfferRecord),
        ((GroupsKept,), GroupsRecord),
        ((PlanKept,), PlanRecord),
        ((LevelKept,), LevelRecord),
        ((ShortKept,), ShortRecord),
        ((ToldKept,), ToldRecord),
        ((Reason,), ReasonRecord),
        ((BrokerState,), _Kept),
    ],
)
def test_a_record_has_every_field_of_its_value(values: tuple[type, ...], record: type[msgspec.Struct]) -> None:
    known = {field.name for value in values for field in fields(value)}
    assert known == {field.name for field in msgspec.structs.fields(record)}


def test_the_record_of_a_grant_has_every_field_of_grant_and_offer() -> None:
    known = {field.name for value in (Grant, Offer) for field in fields(value)} - {"offer"}
    assert known == {field.name for field in msgspec.structs.fields(GrantRecord)}
    assert {field.name for field in fields(Snapshot)} | {"version"} == {
        field.name for field in msgspec.structs.fields(_Snapshot)
    }


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("version",), 2, "version: 2 is not supported; this Linkwise reads version 1"),
        (("version",), "1", "version: expected a whole number or nothing, got text"),
        (("now",), "soon", "now: expected a number, got text"),
        (("plans",), [], "field 'plans' is not known"),
        (("kept", "plans"), [], "kept: field 'plans' is not known"),
        (("kept", "entries", 0, "state"), "DONE", "kept.entries[0].state: 'DONE' is not known"),
        (("kept", "entries", 0, "grant", "parts", 0, "share"), 1.5, "kept.entries[0].grant.parts[0].share: expected"),
        (("kept", "asked", 0), "u-7", "kept.asked[0]: no pod has the UID 'u-7'"),
        (("settings", "breath"), 3, "settings.breath: unknown setting; "),
        (("settings", "share", "order"), "tight", "settings.share.order: 'tight' is not known"),
        (("settings", "share", "orders"), "x", "settings.share.orders: unknown setting; "),
        (("pods", 0, "spec", "containers", 0, "name"), 3, "pods[0].spec.containers[0].name: expected text, got"),
        (
            ("pods", 0, "metadata", "creationTimestamp"),
            "noon",
            "pods[0].metadata.creationTimestamp: 'noon' is not a timestamp",
        ),
        (("objects", 0, "document"), [], "objects[0].document: expected an object, got a list"),
        (("nodes",), {}, "nodes: expected a list, got an object"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: tuple[str | int, ...], to: object, said: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_snapshot(changed(json.loads(encode_snapshot(FULL)), *path, to=to))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("part", ["nodes", "pods", "objects"])
def test_nothing_stands_in_it_twice(part: str) -> None:
    document = json.loads(encode_snapshot(FULL))
    with pytest.raises(InputError, match=rf"{part}\[1\]: duplicate: .* is listed before"):
        decode_snapshot(changed(document, part, to=document[part] * 2))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"now": 1}', b'"text"'])
def test_what_is_no_snapshot_at_all_is_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError):
        decode_snapshot(data)


def objects(*items: dict[str, Any], kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


def test_a_list_of_kubectl_is_a_snapshot() -> None:
    found = decode_snapshot(
        objects(
            {"kind": "Node", "metadata": {"name": "n1"}},
            {"kind": "Pod", "metadata": {"name": "p", "uid": "u", "creationTimestamp": "1970-01-01T00:01:40Z"}},
            {"kind": "DeviceInventory", "metadata": {"name": "n1"}, "spec": {}},
            {"kind": "ConfigMap", "metadata": {"name": "mindx-dl-deviceinfo-n1"}, "data": {}},
            {"kind": "ConfigMap", "metadata": {"name": "coredns"}},
        )
    )
    assert (found.now, found.kept) == (100.0, None)
    assert [node.name for node in found.nodes] == ["n1"]
    assert [pod.uid for pod in found.pods] == ["u"]
    assert list(found.objects["n1"]) == ["DeviceInventory", "ConfigMap/mindx-dl-deviceinfo-n1"]


def test_a_list_may_say_the_kind_once_and_leave_out_uids() -> None:
    found = decode_snapshot(objects({"metadata": {"name": "p", "namespace": "team"}}, kind="PodList"))
    assert [pod.uid for pod in found.pods] == ["team/p"]


def test_the_longest_name_of_a_node_has_the_config_map() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("1", "gpu-1")]
    found = decode_snapshot(objects(*nodes, {"kind": "ConfigMap", "metadata": {"name": "unhealthy-gpu-gpu-1"}}))
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
        decode_snapshot(objects(item))
    assert str(caught.value).startswith(said)


def test_a_list_may_contain_objects_of_groups() -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "x"},
    }
    level = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "default"}}
    found = decode_snapshot(json.dumps({"kind": "List", "items": [group, level]}).encode())
    assert found.shared == {
        "PodGroup.scheduling.volcano.sh": {"x/g": group},
        "Topology.kueue.x-k8s.io": {"default": level},
    }


def test_a_group_has_one_plan() -> None:
    document = json.loads(encode_snapshot(FULL))
    document["kept"]["groups"]["plans"] *= 2
    with pytest.raises(
        InputError, match=r"kept\.groups\.plans\[1\]: duplicate: the plan of group 'team/g/2' is listed before"
    ):
        decode_snapshot(json.dumps(document).encode())
