"""Lists of NVIDIA devices and what their tool says instead; the texts are made up, save those that lie beside the checkout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.nvidia.inventory import READERS, nvlinks
from linkwise.vendors.readers import clean

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.vendors.reader import Reading

LIST = """\
GPU 0: NVIDIA A30 (UUID: GPU-11111111-2222-3333-4444-555555555555)
  MIG 2g.12gb     Device  0: (UUID: MIG-aaaaaaaa-0000-0000-0000-000000000001)
  MIG 1g.6gb+me   Device  1: (UUID: MIG-aaaaaaaa-0000-0000-0000-000000000002)
GPU 1: NVIDIA A30 (UUID: GPU-66666666-2222-3333-4444-555555555555)
"""
LINKS = """\
GPU 0: NVIDIA A40 (UUID: GPU-11111111-2222-3333-4444-555555555555)
\t Link 0: 14.062 GB/s
\t Link 1: <inactive>
\t Link 2: 14.062 GB/s
GPU 1: Tesla T4 (UUID: GPU-22222222-2222-3333-4444-555555555555) Device does not have or support Nvlink
GPU 2: NVIDIA A40 (UUID: GPU-33333333-2222-3333-4444-555555555555)
NVML: Unable to retrieve NVLink information as all links are inActive
GPU 3: NVIDIA A30 (UUID: GPU-44444444-2222-3333-4444-555555555555)
NVLink status is not supported for Devices in MIG mode
"""


def read(text: str) -> Reading:
    cleaned = clean(text)
    return next(reader for reader in READERS if reader.recognises(cleaned)).read(cleaned)


def test_a_list_reports_names_uuids_and_parts() -> None:
    found = read("root@host:~# nvidia-smi -L\n" + LIST)
    assert (found.kind, found.status, found.devices) == ("nvidia-smi -L", "no matrix", ("GPU0", "GPU1"))
    assert [device.model for device in found.facts] == ["NVIDIA A30"] * 2
    assert found.facts[0].uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert found.facts[0].parts == (
        "MIG-aaaaaaaa-0000-0000-0000-000000000001",
        "MIG-aaaaaaaa-0000-0000-0000-000000000002",
    )
    assert found.warnings == ("GPU0 is divided into 2g.12gb, 1g.6gb+me",)


def test_masked_uuids_do_not_hide_parts() -> None:
    masked = "GPU 0: A (UUID: GPU-xx)\n  MIG 1g.6gb Device 0: (UUID: MIG-xx)\n  MIG 1g.6gb Device 1: (UUID: MIG-xx)\n"
    assert read(masked).facts[0].parts == ("MIG-xx", "MIG-xx")


def test_a_cut_list_names_the_device_and_what_is_missing() -> None:
    found = read(LIST[:-20])
    assert (found.status, found.facts[1].uuid) == ("incomplete", "")
    assert found.problems == ("GPU1: the UUID is cut off",)
    assert read(LIST[: LIST.index("1: (UUID")]).problems == (
        "GPU0: lines are missing after it, at 'MIG 1g.6gb+me   Device'",
    )


def test_a_device_listed_twice_is_said() -> None:
    found = read("GPU 0: A (UUID: GPU-aa)\nGPU 0: B (UUID: GPU-bb)\n")
    assert (found.devices, found.facts[0].model) == (("GPU0",), "A")
    assert found.warnings == ("GPU0 is listed twice with different UUIDs; the first is used",)


def test_nvlinks_are_counted_with_their_rates() -> None:
    found = read(LINKS)
    assert (found.kind, found.status) == ("nvidia-smi nvlink -s", "no matrix")
    assert found.devices == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert found.warnings == (
        "GPU0: 2 of 3 NVLinks are active, 14.062 GB/s each",
        "GPU1: there is no NVLink",
        "GPU2: all NVLinks are inactive",
        "GPU3: NVLinks are not listed in MIG mode",
    )
    first = nvlinks(LINKS)[0]
    assert (first.active, first.rates) == (2, (14.062, None, 14.062))


def test_a_device_with_fewer_links_than_its_like_is_incomplete() -> None:
    block = "GPU {}: NVIDIA A40\n Link 0: 14.062 GB/s\n Link 1: 14.062 GB/s\n"
    found = read((block.format(0) + block.format(1)).rstrip("\n").rpartition("\n")[0])
    assert found.problems == ("GPU1: 1 NVLinks are listed, 2 elsewhere",)


def test_links_left_out_by_a_writer_are_said() -> None:
    found = read("GPU 0: NVIDIA A40\n Link 0: 14.062 GB/s\n  [...]\n Link 3: 14.062 GB/s\n")
    assert (found.status, found.problems) == ("incomplete", ("GPU0: lines are missing after it, at '[...]'",))


def test_an_empty_nvlink_output_has_no_matrix() -> None:
    reader = next(reader for reader in READERS if reader.kind == "nvidia-smi nvlink -s")
    assert (reader.recognises(""), reader.read("").status) == (False, "no matrix")
    assert reader.read("Device does not have or support Nvlink.\n").status == "error"


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 1.2\n",
        "No devices were found\n",
        'Field "gpu.colour" is not a valid field to query.\n',
        "bash: nvidia-smi: command not found\n",
    ],
)
def test_an_error_is_an_error(text: str) -> None:
    found = read(text)
    assert (found.status, found.devices, found.problems) == ("error", (), (text.partition("\n")[0],))


@pytest.mark.parametrize("text", ["", "\n", "GPU0 GPU1\nGPU0 X NV4\n", "name, colour\na, b\n", "Link 1 is fine\n"])
def test_other_texts_are_not_recognised(text: str) -> None:
    assert [reader.kind for reader in READERS if reader.recognises(text)] == []


@pytest.mark.parametrize("piece", ["GPU 0: ", "a, ", " ", "GPU 00000000:1A:00.0\n", "index, name\n0, a\n", "|", "1 /"])
def test_long_texts_are_read_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    for reader in READERS:
        reader.recognises(text)
        assert reader.read(text).kind == reader.kind


def test_published_texts_match_the_index(shared: Path) -> None:
    folder = shared / "data/topology-text"
    known = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines()]
    queries = [case for case in known if case["file"].startswith("query/")]
    assert {case["file"] for case in queries} == {f"query/{file.name}" for file in (folder / "query").iterdir()}
    for case in queries:
        found = read((folder / case["file"]).read_text("utf-8"))
        assert (found.status, len(found.devices)) == ("no matrix", case["n_gpus"]), case["file"]
        assert [device.model for device in found.facts] == case["names"]
        assert_facts(found, case)


def assert_facts(found: Reading, case: dict[str, object]) -> None:
    result = {
        "bus_ids": [device.bus_id for device in found.facts],
        "memory_total_mib": [device.memory for device in found.facts],
        "mig_mode": ["Enabled" if f"{name} is in MIG mode" in found.warnings else "Disabled" for name in found.devices],
        "mig": [profiles(found, name) for name in found.devices],
        "driver": found.facts[0].driver,
    }
    for key in result.keys() & case.keys():
        assert result[key] == case[key], (case["file"], key)
    if "mig" in case:
        assert [len(device.parts) for device in found.facts] == [len(profiles(found, name)) for name in found.devices]


def profiles(found: Reading, name: str) -> list[str]:
    start = f"{name} is divided into "
    return next(
        (warning.removeprefix(start).split(", ") for warning in found.warnings if warning.startswith(start)), []
    )
