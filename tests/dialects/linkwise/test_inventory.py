"""DeviceInventory objects: what is written is what is read, and what is broken costs only itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise.dialects.json_fields import Fields, Report
from linkwise.dialects.linkwise.inventory import (
    _plain_devices,
    _read_devices,
    inventory_enforced,
    inventory_facts,
    inventory_object,
)
from linkwise.model.device import Device
from linkwise.model.inventory import NodeFacts
from linkwise.model.link import SELF, Link, Pcie
from linkwise.model.topology import Topology
from linkwise.testing.machines import DGX1
from support.builders.seed_machines import M2

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=10)
names = texts.filter(bool)
counts = st.integers(0, 2**31 - 1)
kinds = st.sampled_from(["NV2", "NV12+PHB", "SYS", "PIX", "HCCS", "?", "NEW-KIND"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def topologies(draw: DrawFn, ids: list[str]) -> Topology:
    size = range(len(ids))
    written = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    speeds = st.floats(0, 1e12) | st.integers(0, 1000)
    return Topology(
        tuple(draw(st.permutations(ids))),
        tuple(tuple(SELF if i == j else Link(draw(kinds)) for j in size) for i in size) if written[0] else (),
        tuple(tuple(draw(speeds) for _ in size) for _ in size) if written[1] else (),
        (tuple(size),) if ids and written[2] else (),
        tuple(draw(st.lists(names, max_size=2))),
        tuple(draw(st.lists(names, max_size=2))),
    )


@st.composite
def facts(draw: DrawFn) -> NodeFacts:
    ids = draw(st.lists(names, max_size=4, unique=True))
    optional = st.none() | counts
    return NodeFacts(
        "linkwise",
        tuple(
            Device(uuid, i, draw(optional), draw(optional), draw(texts), draw(texts), draw(counts), draw(st.booleans()))
            for i, uuid in enumerate(ids)
        ),
        draw(st.none() | topologies(ids)),
        draw(texts),
        draw(st.sampled_from(["any", "whole", "share", "percent"])),
        draw(texts),
        draw(st.dictionaries(names, texts, max_size=3)),
        draw(st.dictionaries(names, st.lists(names, max_size=3, unique=True).map(tuple), max_size=3)),
    )


def sample() -> NodeFacts:
    ids = tuple(f"GPU-{i}" for i in range(8))
    return NodeFacts(
        "linkwise",
        tuple(Device(uuid, i, i, i // 4, f"0000:0{i}:00.0", "V100", 16276, i != 3) for i, uuid in enumerate(ids)),
        replace(DGX1, devices=ids, bandwidth=M2),
        mode="share",
        unit="MiB",
        labels={"driver": "550.1"},
        allocations={"uid-1": ("GPU-0", "GPU-1")},
    )


def with_field(name: str, value: object) -> dict[str, object]:
    raw = inventory_object("n1", sample(), enforced=True)
    spec = raw["spec"]
    assert isinstance(spec, dict)
    return raw | {"spec": spec | {name: value}}


@given(written=facts(), enforced=st.booleans())
def test_an_inventory_that_is_written_is_read_back_as_it_was(written: NodeFacts, *, enforced: bool) -> None:
    raw = json.loads(json.dumps(inventory_object("n1", written, enforced=enforced), allow_nan=False))
    assert inventory_facts(raw) == written
    assert inventory_enforced(raw) is enforced


def test_the_counts_that_kubectl_shows_are_written() -> None:
    raw = json.dumps(inventory_object("n1", sample(), enforced=True, pods={"uid-1": ("team", "trainer-0")}))
    assert '"deviceCount": 8, "healthyCount": 7' in raw
    assert '{"podUID": "uid-1", "namespace": "team", "name": "trainer-0", "devices": ["GPU-0", "GPU-1"]}' in raw


def test_a_path_that_another_output_reported_is_not_lost() -> None:
    link = Link("NV2", pcie=Pcie.PHB)
    written = NodeFacts("linkwise", topology=Topology(("a", "b"), ((SELF, link), (link, SELF))))
    read = inventory_facts(inventory_object("n1", written, enforced=False)).topology
    assert read is not None
    assert (read.links[0][1].direct, read.links[0][1].pcie) == (2, Pcie.PHB)


def test_a_diagonal_that_json_can_t_hold_is_written_as_nothing() -> None:
    written = NodeFacts("linkwise", topology=Topology(("a", "b"), bandwidth=((float("nan"), 5), (6, -1))))
    raw = json.dumps(inventory_object("n1", written, enforced=False), allow_nan=False)
    assert '"bandwidth": [[0, 5], [6, 0]]' in raw


def test_without_rows_the_devices_stand_as_they_are_listed() -> None:
    raw = with_field("rows", None)
    assert isinstance(raw["spec"], dict)
    del raw["spec"]["rows"]
    assert inventory_facts(raw) == sample()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bandwidth", [[1, 2], [3]], "bandwidth row 1 has 1 values, expected 2"),
        ("bandwidth", [[1, [16**5000]]], "bandwidth row 0 column 1 is a list"),
        ("bandwidth", [[0.0] * 7] * 7, "bandwidth has 7 rows for 8 devices"),
        ("links", [["X", 5], [5, "X"]], "links row 0 column 1 is 5"),
        ("links", [["X", {}], [5, "X"]], "links row 0 column 1 is an object"),
        ("links", "NV2", "links is not a list of lists"),
        ("rings", [[0, 0]], "device 0 is in two rings"),
        ("rings", [[True]], "rings hold something else"),
        ("rows", ["GPU-0", "GPU-0"], "device 'GPU-0' is listed twice"),
        ("rows", [5], "spec.rows lists 5"),
    ],
)
def test_a_broken_matrix_leaves_the_devices_known(name: str, value: object, message: str) -> None:
    read = inventory_facts(with_field(name, value))
    assert read.devices == sample().devices
    assert read.topology is None
    assert message in read.problems[0].sentence
    assert read.problems[0].where == "node n1"


@pytest.mark.parametrize(
    ("entry", "count", "message"),
    [
        ({"index": 0, "healthy": True}, 0, "spec.devices[0].uuid is missing"),
        ({"uuid": "a", "healthy": True}, 0, "spec.devices[0].index is missing"),
        ({"uuid": "a", "index": 0}, 1, "spec.devices[0].healthy is missing; true or false"),
        ({"uuid": "a", "index": 0, "healthy": True, "numa": -1}, 1, "spec.devices[0].numa is -1"),
        ({"uuid": "a", "index": 0, "healthy": True, "colour": 1}, 1, "spec.devices[0].colour is not a known field"),
        (7, 0, "spec.devices[0] is 7; an object is expected"),
    ],
)
def test_a_broken_device_costs_only_itself(entry: object, count: int, message: str) -> None:
    raw = {"metadata": {"name": "n1"}, "spec": {"mode": "whole", "devices": [entry]}}
    read = inventory_facts(raw)
    assert len(read.devices) == count
    assert message in read.problems[0].sentence


def test_a_device_whose_health_is_not_said_is_not_given() -> None:
    read = inventory_facts({"spec": {"devices": [{"uuid": "a", "index": 0, "healthy": "yes"}]}})
    assert not read.devices[0].healthy


@pytest.mark.parametrize("second", [("GPU-0", 1), ("GPU-1", 0)])
def test_devices_that_can_t_be_distinguished_are_not_both_believed(second: tuple[str, int]) -> None:
    listed = [{"uuid": uuid, "index": index, "healthy": True} for uuid, index in (("GPU-0", 0), second)]
    read = inventory_facts({"spec": {"devices": listed}})
    assert [device.id for device in read.devices] == ["GPU-0"]
    assert "an earlier device" in read.problems[0].sentence


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"apiVersion": "linkwise.dev/v2", "spec": {}}, "we know linkwise.dev/v1alpha1 only"),
        ({"kind": "Device", "spec": {}}, "kind is 'Device'"),
        ({}, "spec is null; an object is expected"),
        (["spec"], "the value is a list"),
    ],
)
def test_another_object_is_not_believed(raw: object, message: str) -> None:
    read = inventory_facts(raw)
    assert replace(read, problems=()) == NodeFacts("linkwise")
    assert message in read.problems[0].sentence


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mode", "both", "spec.mode is 'both'; one of any, whole, share, percent"),
        ("unit", 5, "spec.unit is 5"),
        ("deviceCount", 7, "spec.deviceCount is 7; the list has 8, which is used"),
        ("facts", {"driver": 550}, "spec.facts.driver is 550"),
        ("colour", "red", "spec.colour is not a known field"),
    ],
)
def test_a_broken_field_is_named(name: str, value: object, message: str) -> None:
    assert [message in problem.sentence for problem in inventory_facts(with_field(name, value)).problems] == [True]


def test_a_pod_listed_twice_has_what_both_entries_say() -> None:
    listed = [{"podUID": "u", "devices": ["a"]}, {"podUID": "u", "devices": ["b", "a"]}, {"podUID": "", "devices": []}]
    read = inventory_facts({"spec": {}, "status": {"allocations": listed}})
    assert read.allocations == {"u": ("a", "b")}
    assert len(read.problems) == 2


@pytest.mark.parametrize(
    "odd", [-1, 1e13, float("inf"), float("nan"), 16**500, None], ids=["-1", "much", "inf", "nan", "huge", "none"]
)
def test_whatever_stands_for_a_device_with_itself_is_not_read(odd: object) -> None:
    spec = {"devices": [{"uuid": "a", "index": 0}, {"uuid": "b", "index": 1}], "bandwidth": [[0, 5], [6, odd]]}
    topology = inventory_facts({"spec": spec}).topology
    assert topology
    assert topology.bandwidth == ((0, 5), (6, 0))


@pytest.mark.parametrize("name", ["devices", "links", "bandwidth", "rings", "rows", "facts", "mode", "deviceCount"])
@pytest.mark.parametrize("nest", [0, 1, 2, 3])
def test_a_number_that_can_t_be_printed_is_a_problem_like_any_other(name: str, nest: int) -> None:
    value: object = 16**5000
    for _ in range(nest):
        value = [0, value]
    assert inventory_facts(with_field(name, value)).problems


@given(anything)
def test_no_object_can_raise(raw: object) -> None:
    assert inventory_facts(raw).problems
    inventory_enforced(raw)


@given(st.dictionaries(st.sampled_from(["spec", "status", "metadata", "kind"]), anything))
def test_no_half_right_object_can_raise(raw: dict[str, object]) -> None:
    inventory_facts({"metadata": {"name": "n1"}, "spec": {}} | raw)
    inventory_enforced(raw)


@given(st.sampled_from(["devices", "links", "bandwidth", "rings", "rows", "facts", "mode", "deviceCount"]), anything)
def test_no_field_can_raise(name: str, value: object) -> None:
    inventory_facts(with_field(name, value))


entries = st.dictionaries(st.sampled_from(["uuid", "index", "healthy", "memory", "podUID", "devices"]), anything)


@given(st.lists(entries, max_size=2))
def test_no_entry_can_raise(listed: list[dict[str, object]]) -> None:
    inventory_facts({"spec": {"devices": listed}, "status": {"allocations": listed}})


@st.composite
def listed_devices(draw: DrawFn) -> list[dict[str, object]]:
    """Devices as the agent writes them, with something odd here and there."""
    odd: st.SearchStrategy[object] = st.sampled_from([-1, 2**63, True, None, "", "a\nb", 1.0, []])
    found: list[dict[str, object]] = []
    placed = draw(st.booleans())
    for index in range(draw(st.integers(1, 3))):
        device: dict[str, object] = {"uuid": f"GPU-{index}", "index": index, "minor": index, "busID": "0000:1a:00.0"}
        device |= {"model": "V100", "memory": 16276, "healthy": True} | ({"numa": index // 2} if placed else {})
        found.append(device | draw(st.dictionaries(st.sampled_from(sorted(device)), odd, max_size=1)))
    if draw(st.integers(0, 3)) == 0:
        found[-1].pop(draw(st.sampled_from(sorted(found[-1]))))
    return found


@given(listed_devices())
def test_the_fast_path_reads_what_the_slow_one_reads_without_problems(listed: list[dict[str, object]]) -> None:
    report = Report("node n", "DeviceInventory")
    spec = Fields.of({"devices": listed}, "spec", report)
    assert spec
    slow, fast = _read_devices(spec), _plain_devices(listed)
    assert fast is None or (fast == slow and not report.problems)


@pytest.mark.parametrize("numa", [{}, {"numa": 1}])
def test_what_the_agent_writes_takes_the_fast_path(numa: dict[str, int]) -> None:
    device = {"uuid": "a", "index": 0, "minor": 0, "busID": "", "model": "V100", "memory": 1, "healthy": True, **numa}
    assert _plain_devices([device]) == {"a": Device("a", 0, 0, numa.get("numa"), "", "V100", 1)}


def test_faults_and_conditions_are_written_for_people() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Because", "message": ""}
    raw = json.loads(
        json.dumps(inventory_object("n1", sample(), enforced=True, faults={"GPU-3": "Xid 79"}, conditions=[condition]))
    )
    assert raw["spec"]["devices"][3]["facts"] == {"fault": "Xid 79"}
    assert raw["status"]["conditions"] == [condition]
    assert inventory_facts(raw) == sample()
