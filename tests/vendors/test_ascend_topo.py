"""`npu-smi info -t topo`: names with gaps, codes of its own, rings of direct links, and a refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.ascend import READERS
from linkwise.vendors.readers import clean

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.vendors.reader import Reading

TWO_RINGS = """\
           NPU2       NPU3       NPU6       NPU9       CPU Affinity
NPU2       X          HCCS       PHB        SYS        0-7
NPU3       HCCS       X          SYS        SYS        0-7
NPU6       PHB        SYS        X          UB         8-15
NPU9       SYS        SYS        UB         X          8-15
"""


def read(text: str) -> Reading:
    (reader,) = READERS
    plain = clean(text)
    assert reader.recognises(plain)
    return reader.read(plain)


@pytest.mark.rule("000.links")
def test_ids_with_gaps_keep_their_names() -> None:
    reading = read(TWO_RINGS)
    assert (reading.kind, reading.status) == ("npu-smi info -t topo", "ok")
    assert reading.devices == ("NPU2", "NPU3", "NPU6", "NPU9")
    assert reading.links[2] == ("PHB", "SYS", "X", "UB")
    assert [facts.cpus for facts in reading.facts] == ["0-7", "0-7", "8-15", "8-15"]


def test_devices_with_direct_links_are_a_ring() -> None:
    assert read(TWO_RINGS).rings == ((0, 1), (2, 3))


def test_devices_without_direct_links_are_none() -> None:
    assert read(TWO_RINGS.replace("HCCS", "PIX ").replace("UB", "PX")).rings == ()


def test_physical_ids_dies_and_switches_are_read() -> None:
    reading = read(
        "\t   Phy-ID0    Phy-ID1    Phy-ID2    CPU Affinity\n"
        "Phy-ID0    X          SIO        HCCS_SW    0-7\n"
        "Phy-ID1    SIO        X          HCCS_SW    0-7\n"
        "Phy-ID2    HCCS_SW    HCCS_SW    X          0-7\n"
    )
    assert (reading.status, reading.devices) == ("ok", ("Phy-ID0", "Phy-ID1", "Phy-ID2"))
    assert reading.links[0] == ("X", "SIO", "HCCS_SW")
    assert reading.rings == ((0, 1, 2),)


def test_a_header_without_its_leading_blank_is_a_header() -> None:
    assert read(TWO_RINGS.lstrip()) == read(TWO_RINGS)


def test_a_cut_switch_link_is_not_a_direct_one() -> None:
    reading = read("NPU0 NPU1 NPU2 CPU Affinity\nNPU0 X HCCS_SW HCCS_SW 0\nNPU1 HCCS_SW X HCCS")
    assert (reading.status, reading.rings) == ("incomplete", ())
    assert reading.problems == ("row NPU1 ends after 2 of 3 cells", "row NPU2 is missing")
    assert reading.links[1] == ("HCCS_SW", "X", "?")


def test_a_refusal_is_an_error() -> None:
    reading = read("$ npu-smi info -t topo\nThis device does not support querying topo.\n")
    assert (reading.status, reading.devices) == ("error", ())
    assert reading.problems == ("This device does not support querying topo.",)


def test_a_command_without_its_output_is_no_matrix() -> None:
    assert read("$ npu-smi info -i 0 -t topo").status == "no matrix"


def test_one_device_off_the_ring_is_warned_about() -> None:
    names = [f"NPU{i}" for i in range(8)]
    rows = [[a, *("X" if a == b else "SYS" if "NPU5" in {a, b} else "HCCS" for b in names)] for a in names]
    reading = read("\n".join(" ".join(row) for row in ([*names, "CPU Affinity"], *rows)) + "\n")
    assert reading.warnings == ("NPU5 has SYS where the others have HCCS: the fabric may be degraded",)
    assert reading.rings == ((0, 1, 2, 3, 4, 6, 7),)


@pytest.mark.parametrize("text", ["", "GPU0 X NV1", "| NPU   Name | Health |", "npu-smi info", "NPU0 is up"])
def test_texts_of_others_are_not_ours(text: str) -> None:
    assert not READERS[0].recognises(text)


def test_published_texts_read_as_people_read_them(shared: Path) -> None:
    folder = shared / "data/topology-text"
    entries = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines()]
    ours = [entry for entry in entries if entry["kind"] == "npu_topo"]
    assert ours
    for entry in ours:
        reading = read((folder / entry["file"]).read_text("utf-8"))
        assert (reading.status, [*reading.devices]) == (entry["expect"], entry["gpus"]), entry["file"]
        assert [[*map(str, row)] for row in reading.links] == (entry["matrix"] or []), entry["file"]
        assert [facts.cpus for facts in reading.facts] == entry.get("cpu_affinity", []), entry["file"]
