"""Tables of nvbandwidth, read: in the right direction, of devices and of one node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from linkwise.vendors.nvidia import nvbandwidth
from linkwise.vendors.readers import clean
from support.builders.tool_texts import nvbandwidth_text

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.model.topology import Matrix

WRITE_CE = "device_to_device_memcpy_write_ce"
READ_CE = "device_to_device_memcpy_read_ce"
FAST: Matrix = ((0.0, 41.5, 42.25), (43.75, 0.0, 44.0), (45.5, 46.25, 0.0))
SLOW: Matrix = ((0.0, 11.5, 12.25), (13.75, 0.0, 14.0), (15.5, 16.25, 0.0))


def turned(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def test_a_cut_table_is_incomplete_and_a_whole_one_is_preferred_to_it() -> None:
    text = nvbandwidth_text({READ_CE: ("->", FAST), WRITE_CE: ("<-", SLOW)})
    reading = nvbandwidth.read(text[: text.index("46.2")])
    assert (reading.status, reading.bandwidth[2]) == ("incomplete", (45.5, 0.0, 0.0))
    assert reading.problems == (f"row 2 of '{READ_CE}' ends after 1 of 3 values",)
    assert reading.warnings == ("no value for 1 of 3 pairs (1-2)",)
    assert nvbandwidth.read(text[: text.index("16.2")]).bandwidth == FAST
    assert nvbandwidth.read(text).bandwidth == turned(SLOW)


def test_an_arrow_to_the_left_turns_the_table_round() -> None:
    right = nvbandwidth.read(nvbandwidth_text({READ_CE: ("->", FAST)}))
    left = nvbandwidth.read(nvbandwidth_text({WRITE_CE: ("<-", FAST)}))
    assert (right.bandwidth, left.bandwidth) == (FAST, turned(FAST))
    assert left.kind == f"nvbandwidth {WRITE_CE} (row <- column)"
    assert left.warnings == ()


def test_no_value_is_0_in_the_old_format_and_in_the_new_one() -> None:
    new = nvbandwidth.read(
        nvbandwidth_text({READ_CE: ("->", [[None, 8.5, None], [7.5, None, 6.5], [None, 5.5, None]])})
    )
    old = nvbandwidth.read(nvbandwidth_text({READ_CE: ("->", [[0, 8.5, 0], [7.5, 0, 6.5], [0, 5.5, 0]])}))
    assert new.bandwidth == old.bandwidth == ((0.0, 8.5, 0.0), (7.5, 0.0, 6.5), (0.0, 5.5, 0.0))
    assert new.warnings == old.warnings == ("no value for 1 of 3 pairs (0-2): no peer access",)


def test_a_sum_that_differs_is_warned_of() -> None:
    text = nvbandwidth_text({READ_CE: ("->", [[None, 8.5], [7.5, None]])})
    assert nvbandwidth.read(text).warnings == ()
    reading = nvbandwidth.read(text.replace("16.00", "17.50"))
    assert reading.status == "ok"
    assert reading.warnings == (f"the values of '{READ_CE}' sum up to 16.00, the text says 17.50",)


def test_ranks_of_several_nodes_are_an_error() -> None:
    reading = nvbandwidth.read(nvbandwidth_text({f"multinode_{READ_CE}": ("->", FAST)}))
    assert (reading.status, reading.devices) == ("error", ())
    assert "not the devices of one" in reading.problems[0]


def test_tables_of_cpu_and_gpu_alone_are_no_matrix() -> None:
    host = {"host_to_device_memcpy_ce": ("->", [[51.5, 52.5]])}
    assert nvbandwidth.read(nvbandwidth_text(host)).status == "no matrix"
    assert nvbandwidth.read(nvbandwidth_text({**host, READ_CE: ("->", FAST)})).bandwidth == FAST


def test_one_direction_is_preferred_to_both_and_the_total_to_its_parts() -> None:
    both = """Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0         1
 0       N/A     31.50
 1     32.50       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_read1 64.00

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A     61.50
 1     62.50       N/A

SUM device_to_device_bidirectional_memcpy_read_ce_total 124.00
"""
    assert nvbandwidth.read(both).bandwidth == ((0.0, 61.5), (62.5, 0.0))
    assert nvbandwidth.read(both + nvbandwidth_text({READ_CE: ("->", FAST)})).bandwidth == FAST


def test_latency_in_nanoseconds_becomes_microseconds() -> None:
    text = nvbandwidth_text({READ_CE: ("->", [[None, 8.5], [7.5, None]])}) + (
        "Running device_to_device_latency_sm.\nDevice to Device Latency SM GPU(row) <-> GPU(column) (ns)\n"
        "           0         1\n 0       N/A    750.00\n 1    812.50       N/A\n"
    )
    assert nvbandwidth.read(text).latency == ((0.0, 0.75), (0.8125, 0.0))


def test_a_second_run_in_the_same_text_is_warned_of() -> None:
    text = nvbandwidth_text({READ_CE: ("->", FAST)}) + "\n" + nvbandwidth_text({READ_CE: ("->", SLOW)})
    reading = nvbandwidth.read(text)
    assert reading.bandwidth == FAST
    assert "more than once" in reading.warnings[0]


@pytest.mark.parametrize("file", ["06_nvbandwidth_readme_8gpu.txt", "15_nvbandwidth_old_zero_diagonal.txt"])
def test_published_outputs_of_nvbandwidth_are_read_as_people_read_them(file: str, shared: Path) -> None:
    text = clean((shared / "data/topology-text/p2p" / file).read_text("utf-8"))
    index = (shared / "data/topology-text/INDEX.jsonl").read_text("utf-8").splitlines()
    truth = next(line for line in map(json.loads, index) if line["file"] == f"p2p/{file}")
    reading = nvbandwidth.read(text)
    ((name, rows),) = truth["matrices"].items()
    printed = tuple(map(tuple, rows))
    back = truth.get("direction") == "row <- column"
    assert nvbandwidth.sections(text)[name].matrix() == printed
    assert (reading.status, len(reading.devices)) == (truth["expect"], truth["n_gpus"])
    assert reading.bandwidth == (turned(printed) if back else printed)
    assert ("<-" in reading.kind) == back
