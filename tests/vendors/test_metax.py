"""`mx-smi topo`: MetaXLink, and the NUMA node before the CPUs."""

from __future__ import annotations

import pytest

from linkwise.vendors.metax import READERS
from linkwise.vendors.readers import readings

BANNER = "mx-smi  version: 9.9\n\n===== MetaX System Management Interface Log =====\nAttached GPUs : 2\n"
TABLE = """\
        GPU0    GPU1    GPU2    Node Affinity  CPU Affinity
GPU0    X       MX      SYS     2              16-23
GPU1    MX      X       SYS     2              16-23
GPU2    SYS     SYS     X       5              40-47
"""
LINKS = (("X", "MX", "SYS"), ("MX", "X", "SYS"), ("SYS", "SYS", "X"))


@pytest.mark.rule("000.links")
@pytest.mark.parametrize("text", [TABLE, BANNER + TABLE, f"$ mx-smi topo -m\n{TABLE}\nLegend:\n  MX = MetaXLink\n"])
def test_the_node_stands_before_the_cpus(text: str) -> None:
    reading = READERS[0].read(text)
    assert READERS[0].recognises(text)
    assert (reading.kind, reading.status, reading.links) == ("mx-smi topo", "ok", LINKS)
    assert [facts.numa for facts in reading.facts] == ["2", "2", "5"]
    assert [facts.cpus for facts in reading.facts] == ["16-23", "16-23", "40-47"]
    assert reading.links[0][1].direct == 1


def test_a_table_without_affinity_is_known_by_its_links() -> None:
    text = "GPU0 GPU1\nGPU0 X MX\nGPU1 MX X\n"
    assert READERS[0].recognises(text)
    assert READERS[0].read(text).links == (("X", "MX"), ("MX", "X"))
    assert READERS[0].read(text).facts[0].cpus is None


def test_what_is_metax_is_not_nvidia() -> None:
    assert [reading.kind for reading in readings(BANNER + TABLE)] == ["mx-smi topo"]
    assert not READERS[0].recognises("nvidia-smi topo -m  # or mx-smi topo\nGPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n")


def test_an_error_instead_of_a_table_is_an_error() -> None:
    text = "$ mx-smi topo -m\nbash: mx-smi: command not found\n"
    assert READERS[0].recognises(text)
    assert READERS[0].read(text).problems == ("bash: mx-smi: command not found",)
    assert READERS[0].read("$ mx-smi topo -m\n").status == "no matrix"


@pytest.mark.parametrize("text", ["", "GPU0 X NV1", "MetaX C500", "mx-smi"])
def test_texts_of_others_are_not_ours(text: str) -> None:
    assert not READERS[0].recognises(text)
