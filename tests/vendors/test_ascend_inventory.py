"""Lists of Ascend devices; the texts are made up, save those that lie beside the checkout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.ascend import INVENTORY_READERS
from linkwise.vendors.readers import clean

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.vendors.reader import Reading

CARDS = """\
+-----------------------------------------------------------------------+
| npu-smi 23.9.rc9            Version: 23.9.rc9                         |
+-----------------+---------------+-------------------------------------+
| NPU   Name      | Health        | Power(W)  Temp(C)   Hugepages-Usage |
| Chip            | Bus-Id        | AICore(%) Memory-Usage HBM-Usage(MB)|
+=================+===============+=====================================+
| 3     910B2     | Warning       | 90.0      40        0    / 0        |
| 0               | 0000:5A:00.0  | 0         0    / 0  30001/ 65536    |
+=================+===============+=====================================+
| 5     910B2     | OK            | NA        40        0    / 0        |
| 0               | NA            | 0         0    / 0  77   / 65536    |
+=================+===============+=====================================+
| NPU     Chip    | Process id    | Process name    | Process memory(MB)|
+=================+===============+=====================================+
| 5       0       | 4242          | python          | 77                |
+=================+===============+=====================================+
"""
DIES = """\
| NPU   Name      | Health | Power(W) Temp(C) Hugepages-Usage(page) |
| Chip  Phy-ID    | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |
| 1     Ascend910 | OK     | 170.1    40      0    / 0 |
| 0     2         | 0000:99:00.0 | 0  0 / 0  3001 / 65536 |
+---------------------------------------------------------+
| 1     Ascend910 | OK     | -        41      0    / 0 |
| 1     3         | 0000:99:00.0 | 0  0 / 0  3002 / 65536 |
"""
SMALL = """\
| NPU     Name    | Health | Power(W) Temp(C) Hugepages-Usage(page) |
| Chip    Device  | Bus-Id | AICore(%) Memory-Usage(MB)             |
| 32      310     | Alarm  | 9.6      56      15 / 15 |
| 0       4       | 0000:06:00.0 | 0  1596 / 44280 |
"""
NEWEST = """\
| NPU ID | Name      | Health | Power(W)    Temp(C)  Hugepages-Usage(page) |
|        |           | Bus-Id | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB) |
+========+===========+========+=============================================+
| 6      | Ascend950 | OK     | 300.5 41 0 / 0 |
|        |           | NA     | 0 0 / 0 512 / 131072 |
"""
MAP = """\
\tNPU ID      Chip ID     Chip Logic ID     Chip Name
\t8           0           0                 Ascend 910X
\t8           1           -                 Mcu
\t9           0           9                 Ascend 910X
"""
CHIPS = """\
\tTotal Count                    : 2

\tNPU ID                         : 4
\tProduct Name                   : Board 7
\tChip Count                     : 1

\tNPU ID                         : 6
\tProduct Name                   : Board 7
\tChip Count                     : 2
"""


def read(text: str) -> Reading:
    cleaned = clean(text)
    return next(reader for reader in INVENTORY_READERS if reader.recognises(cleaned)).read(cleaned)


def test_a_table_of_cards_is_read() -> None:
    found = read("root@host:~# npu-smi info\n" + CARDS)
    first, second = found.facts
    assert (found.kind, found.status, found.devices) == ("npu-smi info", "no matrix", ("NPU3", "NPU5"))
    assert (first.model, first.bus_id, first.memory, first.memory_used) == ("910B2", "0000:5A:00.0", 65536, 30001)
    assert (first.health, first.driver, second.bus_id) == ("Warning", "23.9.rc9", "")
    assert found.warnings == ("NPU3: health is Warning",)


@pytest.mark.parametrize(
    ("text", "devices", "memory", "model"),
    [
        (DIES, ("NPU2", "NPU3"), 65536, "Ascend910"),
        (SMALL, ("NPU4",), 44280, "310"),
        (NEWEST, ("NPU6",), 131072, "Ascend950"),
    ],
)
def test_every_layout_is_read(text: str, devices: tuple[str, ...], memory: int, model: str) -> None:
    found = read(text)
    assert (found.status, found.devices) == ("no matrix", devices)
    assert {(device.memory, device.model) for device in found.facts} == {(memory, model)}


def test_chips_of_one_card_may_share_a_bus_id() -> None:
    assert [device.bus_id for device in read(DIES).facts] == ["0000:99:00.0"] * 2


def test_chips_without_an_id_are_distinguished() -> None:
    again = "| 3  910B2 | OK | 1 2 0 / 0 |\n| 1  | 0000:5B:00.0 | 0 0 / 0 1 / 2 |\n"
    assert read(CARDS.partition("| 5 ")[0] + again).devices == ("NPU3", "NPU3-1")


def test_a_device_cut_in_its_second_line_is_named() -> None:
    found = read(DIES[: DIES.rindex("0 / 0  3002")])
    assert (found.status, found.problems) == ("incomplete", ("NPU3: the memory is cut off",))
    assert found.facts[1].memory is None


def test_a_device_cut_before_its_id_is_absent() -> None:
    found = read(DIES[: DIES.rindex("| 1     3")])
    assert (found.devices, found.problems) == (("NPU2",), ("NPU card 1: the bus id and the memory are missing",))


def test_rows_left_out_by_a_writer_are_said() -> None:
    assert read(DIES + "| ... |\n").problems == ("rows are left out: '...'",)
    assert read(MAP + "\t...\n").problems == ("rows are left out: '...'",)


def test_a_mapping_skips_management_chips() -> None:
    found = read("npu-smi info -m\n" + MAP)
    assert (found.kind, found.status, found.devices) == ("npu-smi info -m", "no matrix", ("NPU8", "NPU9"))
    assert [device.model for device in found.facts] == ["Ascend 910X"] * 2
    assert found.warnings == ("NPU8 has the logic id 0",)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("NPU ID Chip ID Chip Logic ID Chip Phy-ID Chip Name\n7 0 5 12 Ascend910\n7 1 6 13 Ascend910\n", (12, 13)),
        ("NPU ID Slot ID Chip ID Chip Phy-ID Chip Name\n7 -1 0 5 Ascend950\n", (5,)),
    ],
)
def test_a_mapping_with_physical_ids_names_chips_by_them(text: str, devices: tuple[int, ...]) -> None:
    assert read(text).devices == tuple(f"NPU{device}" for device in devices)


def test_a_name_at_a_cut_is_not_believed() -> None:
    found = read(MAP[:-2])
    assert (found.status, found.problems, found.facts[1].model) == ("incomplete", ("NPU9: the name is cut off",), "")


def test_a_list_of_cards_is_read() -> None:
    found = read(CHIPS)
    assert (found.kind, found.status, found.devices) == ("npu-smi info -l", "no matrix", ("NPU4", "NPU6"))
    assert found.facts[0].model == "Board 7"
    assert found.warnings == ("NPU6 is a card of 2 chips; their ids are not in this list",)


def test_a_list_that_lacks_cards_or_lines_is_incomplete() -> None:
    assert read(CHIPS[: CHIPS.rindex("\tNPU ID")]).problems == ("1 of 2 cards are in the text",)
    assert read(CHIPS[: CHIPS.rindex("\tChip")]).problems == ("NPU6: Chip Count missing",)


@pytest.mark.parametrize(
    "text",
    [
        "dcmi module initialize failed. ret is -8005\n",
        "There is no NPU card on this server.\n",
        "-bash: npu-smi: command not found\n",
    ],
)
def test_an_error_is_an_error(text: str) -> None:
    found = read(text)
    assert (found.status, found.problems) == ("error", (text.strip(),))


@pytest.mark.parametrize(
    "text", ["", "NPU0 NPU1\nNPU0 X HCCS\n", "NPU ID : 0\nChip Count : 1\n", "| Name | Health |\n"]
)
def test_other_texts_are_not_recognised(text: str) -> None:
    assert [reader.kind for reader in INVENTORY_READERS if reader.recognises(text)] == []


@pytest.mark.parametrize("piece", ["| 0 ", " ", "1 ", DIES, MAP, CHIPS, "Version: a", "NPU ID\t"])
def test_long_texts_are_read_in_linear_time(piece: str) -> None:
    text = NEWEST + piece * (1_000_000 // len(piece))
    for reader in INVENTORY_READERS:
        reader.recognises(text)
        assert reader.read(text).kind == reader.kind


def test_published_texts_match_the_index(shared: Path) -> None:
    folder = shared / "data/topology-text"
    known = [json.loads(line) for line in (folder / "INDEX.jsonl").read_text("utf-8").splitlines()]
    cases = [case for case in known if case["kind"] in {"npu_info", "npu_map"}]
    assert {case["file"] for case in cases} == {f"ascend/{file.name}" for file in (folder / "ascend").glob("*info*")}
    for case in cases:
        found = read((folder / case["file"]).read_text("utf-8"))
        assert (found.status, len(found.devices)) == ("no matrix", case["n_gpus"]), case["file"]
        result = {
            "names": [device.model for device in found.facts],
            "bus_ids": [device.bus_id for device in found.facts],
            "health": [device.health for device in found.facts],
            "hbm_total_mb": [device.memory for device in found.facts],
            "hbm_used_mb": [device.memory_used for device in found.facts],
        }
        for key in result.keys() & case.keys():
            assert result[key] == case[key], (case["file"], key)


def test_a_chip_whose_first_line_is_lost_is_named() -> None:
    text = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                              |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0                         | 0000:81:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
"""
    found = [reader.read(text) for reader in INVENTORY_READERS if reader.recognises(text)]
    assert "the first line of the chip at 0000:81:00.0 is missing" in found[0].problems
