"""Records of NVIDIA devices; the texts are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.vendors.nvidia.inventory import READERS
from linkwise.vendors.readers import clean

if TYPE_CHECKING:
    from linkwise.vendors.reader import Reading

LOG = """\
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 09:00:00 2026
Driver Version                            : 570.11.22 [rc]

Attached GPUs                             : 2
GPU 00000000:1A:00.0
    Product Name                          : NVIDIA A30
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 11968 MiB
            Used                          : 5 MiB
    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555
    FB Memory Usage
        Total                             : 24576 MiB
        Reserved                          : 300 MiB
        Used                              : 12 MiB
    BAR1 Memory Usage
        Total                             : 32768 MiB

GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A30
    MIG Mode
        Current                           : Disabled
    GPU UUID                              : GPU-66666666-2222-3333-4444-555555555555
    FB Memory Usage
        Total                             : N/A
        Used                              : N/A
"""
CSV = """\
index, name, pci.bus_id, fan.speed [%], memory.total [MiB], memory.used [MiB], mig.mode.current
0, NVIDIA L4, 00000000:01:00.0, [N/A], 23034 MiB, 7 MiB, [N/A]
2, NVIDIA L4, 00000000:02:00.0, 30 %, [Insufficient Permissions], 0 MiB, Enabled
"""


def read(text: str) -> Reading:
    cleaned = clean(text)
    return next(reader for reader in READERS if reader.recognises(cleaned)).read(cleaned)


def test_a_log_reports_the_device_and_not_its_parts() -> None:
    found = read(LOG)
    first, second = found.facts
    assert (found.kind, found.status, found.problems) == ("nvidia-smi -q", "no matrix", ())
    assert (first.name, first.bus_id, first.memory, first.memory_used) == ("GPU0", "00000000:1A:00.0", 24576, 12)
    assert (first.uuid, first.driver) == ("GPU-11111111-2222-3333-4444-555555555555", "570.11.22")
    assert (first.parts, second.parts, second.memory) == (("2/0",), (), None)
    assert found.warnings == ("GPU0 is in MIG mode",)


def test_a_quoted_log_is_read_alike() -> None:
    assert read("".join(f"> {line}\n" for line in LOG.splitlines())) == read(LOG)
    assert read("".join(f"    {line}\n" for line in LOG.splitlines())) == read(LOG)


def test_a_log_with_fewer_devices_than_attached_is_incomplete() -> None:
    found = read(LOG[: LOG.index("GPU 00000000:3B")])
    assert (found.status, found.problems) == ("incomplete", ("1 of 2 GPUs are in the text",))


def test_a_log_cut_in_a_block_names_what_is_missing() -> None:
    found = read(LOG[: LOG.rindex("    FB Memory")])
    assert found.problems == ("GPU1: memory, memory_used missing",)


def test_a_log_of_chosen_sections_is_whole() -> None:
    text = "==NVSMI LOG==\n\nAttached GPUs : 1\nGPU 0000:01:00.0\n    FB Memory Usage\n        Total : 4095 MiB\n"
    found = read(text)
    assert (found.status, found.facts[0].memory, found.facts[0].model) == ("no matrix", 4095, "")


def test_a_table_is_read_by_its_columns() -> None:
    found = read(CSV)
    first, second = found.facts
    assert (found.kind, found.status, found.devices) == ("nvidia-smi --query-gpu", "no matrix", ("GPU0", "GPU2"))
    assert (first.memory, first.memory_used, first.bus_id) == (23034, 7, "00000000:01:00.0")
    assert (second.memory, second.model) == (None, "NVIDIA L4")
    assert found.warnings == ("GPU2 is in MIG mode",)


def test_a_table_without_an_index_counts_past_a_lost_device() -> None:
    text = (
        "Unable to determine the device handle for GPU1: 0000:04:00.0: Unknown Error\nuuid, name\nGPU-a, A\nGPU-b, B\n"
    )
    found = read(text)
    assert (found.status, found.devices) == ("incomplete", ("GPU0", "GPU2"))
    assert found.problems == (text.partition("\n")[0],)


def test_text_behind_a_table_is_not_a_row() -> None:
    assert read(CSV + "root@host:~#").status == "no matrix"
    assert read(CSV + "\nthis, is, a, line, of, seven, cells\n").devices == ("GPU0", "GPU2")


def test_a_table_that_repeats_keeps_the_first_row_of_each_device() -> None:
    found = read(CSV + CSV.partition("\n")[2])
    assert found.devices == ("GPU0", "GPU2")
    assert "GPU0 is listed more than once; the first row is used" in found.warnings


def test_a_number_at_a_cut_is_not_believed() -> None:
    found = read("name, memory.total [MiB]\nNVIDIA L4, 230")
    assert (found.status, found.facts[0].memory) == ("incomplete", None)
    assert found.problems == ("GPU0: memory cut off",)
    assert read("name, memory.total [MiB]\nNVIDIA L4, 230 MiB").facts[0].memory == 230
