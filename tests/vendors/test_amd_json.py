"""JSON of amd-smi and rocm-smi: the same machine as their tables, and nothing that the document lacks."""

from __future__ import annotations

import json

import pytest

from linkwise.model.link import UNKNOWN_LINK, Pcie
from linkwise.vendors.readers import device_facts, parse_topology, readings
from support.amdsmi_stub.machine import cpx, mi100_four, mi300
from support.builders.amd_smi_json import amd_smi_json, rocm_smi_json

PAIR = "(Topology) Link type between DRM devices 0 and 1"


@pytest.mark.rule("002.vendors")
@pytest.mark.parametrize(
    "text",
    [
        amd_smi_json(mi100_four(), "topology"),
        amd_smi_json(mi100_four(), "topology", wrapped=True),
        rocm_smi_json(mi100_four(), "topology"),
        f"WARNING: not in the group render\n{amd_smi_json(mi100_four(), 'topology')}",
    ],
)
def test_links_are_graded_as_those_of_the_tables(text: str) -> None:
    topology = parse_topology(text)
    assert (topology.devices, topology.problems) == (("GPU0", "GPU1", "GPU2", "GPU3"), ())
    assert [link.pcie for link in topology.links[1]] == [Pcie.SYS, Pcie.UNKNOWN, Pcie.SYS, Pcie.PHB]


def test_each_document_is_read_by_one_reader() -> None:
    texts = [amd_smi_json(mi300(2), command) for command in ("list", "static", "topology", "metric")]
    texts += [rocm_smi_json(mi300(2), command) for command in ("list", "topology")]
    assert [[reading.kind for reading in readings(text)] for text in texts] == [
        ["amd-smi static --json"],
        ["amd-smi static --json"],
        ["amd-smi topology --json"],
        ["amd-smi static --json"],
        ["rocm-smi --showuniqueid --json"],
        ["rocm-smi --showtopo --json"],
    ]


def test_a_pair_that_the_document_lacks_is_unknown_and_counted_and_the_others_are_known() -> None:
    records = json.loads(amd_smi_json(mi300(4), "topology"))
    del records[1]["links"][2]
    topology = parse_topology(json.dumps(records))
    assert (topology.links[1][2], topology.links[1][3]) == (UNKNOWN_LINK, "XGMI")
    assert "'Link Type' lacks 1 of 6 pairs: GPU1-GPU2" in topology.problems
    assert topology.warnings == ("no link is known for 1 of 6 pairs, which count as the slowest: GPU1-GPU2",)


@pytest.mark.parametrize("value", [None, ..., ""], ids=["null", "absent", "empty"])
def test_a_pair_without_a_link_type_in_rocm_smi_s_document_is_counted_alone(value: object) -> None:
    document = json.loads(rocm_smi_json(mi300(4), "topology"))
    del document["system"][PAIR]
    if value is not ...:
        document["system"][PAIR] = value
    topology = parse_topology(json.dumps(document))
    assert topology.links[0] == ("X", UNKNOWN_LINK, "XGMI", "XGMI")
    assert topology.warnings == ("no link is known for 1 of 6 pairs, which count as the slowest: GPU0-GPU1",)
    assert bool(topology.problems) == (value != "")


def test_pairs_without_peer_access_are_warned_of() -> None:
    records = json.loads(amd_smi_json(mi300(2), "topology"))
    records[0]["links"][1]["link_status"] = "DISABLED"
    assert "no peer access between GPU0-GPU1" in parse_topology(json.dumps(records)).warnings


def test_facts_are_read_from_lists_and_static_data() -> None:
    listed, static = (device_facts(amd_smi_json(mi300(2), command))[1] for command in ("list", "static"))
    assert (listed.uuid, listed.bus_id) == ("11ff74a1-0000-1000-80bd-5ee800000000", "0000:1c:00.0")
    assert (static.model, static.memory, static.numa, static.driver) == ("AMD Instinct MI300X", 196592, "0", "6.12.12")


def test_partitions_have_ids_of_their_own() -> None:
    uuids = [facts.uuid for facts in device_facts(amd_smi_json(cpx(), "list"))]
    assert uuids == [f"10ff74a1-0000-1000-80bd-5ee800000000-{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("size", "memory"),
    [
        ({"value": 196592, "unit": "MB"}, 196592),
        ({"value": 2, "unit": "GB"}, 2048),
        ("64 GB", 65536),
        ("N/A", None),
        (7, None),
    ],
)
def test_memory_is_read_in_all_its_forms(size: object, memory: int | None) -> None:
    (facts,) = device_facts(json.dumps([{"gpu": 0, "vram": {"size": size}}]))
    assert facts.memory == memory


@pytest.mark.parametrize("line", ['[{"gpu": 0, "links": [', '{"card0": {', "[", '{"gpu_data": ', "[]"])
def test_megabytes_of_broken_documents_are_read_in_time(line: str) -> None:
    assert len(readings(f"{line}\n" * 100_000)) <= 1


def test_more_devices_than_a_machine_has_are_an_error() -> None:
    records = [{"gpu": n, "links": [{"gpu": 0, "link_type": "XGMI"}]} for n in range(300)]
    (reading,) = readings(json.dumps(records))
    assert (reading.status, reading.devices) == ("error", ())
