"""Huawei Ascend: descriptor, machines whose chips form HCCS rings, and the reader of `npu-smi info -t topo`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.vendors.ascend import inventory
from linkwise.vendors.link_table.layout import Names, leading, line_of, tables
from linkwise.vendors.link_table.matrix import no_table, read_first
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.reader import Reader
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

if TYPE_CHECKING:
    from linkwise.model.link import Link
    from linkwise.vendors.reader import Reading

__all__ = ["READERS", "VENDOR", "rings_of"]

_KIND: Final = "npu-smi info -t topo"
_NPUS: Final = Names("(?:NPU|Phy-ID)[0-9]{1,3}")
_COMMAND: Final = re.compile(r"npu-smi[ \t]+info[ \t]+(?:-[a-z][ \t]+[^ \t\n]+[ \t]+){0,4}-t[ \t]+topo")
_REFUSAL: Final = re.compile(r"does not support querying topo")
_ERROR: Final = re.compile(
    r"does not support querying topo|npu-smi: .{0,40}not found|dcmi .{0,40}fail|(?i:error|failed)"
)


def _recognises(text: str) -> bool:
    if ("NPU" in text or "Phy-ID" in text) and (_NPUS.link_row.search(text) or _NPUS.whole_header.search(text)):
        return True
    return "topo" in text and bool(_REFUSAL.search(text) or _COMMAND.search(text))


def _read(text: str) -> Reading:
    reading = read_first(list(leading(tables(text, _NPUS))), _KIND)
    if reading is None:
        return no_table(_KIND, line_of(text, _ERROR.search(text)), "the text has no table of NPUs")
    return replace(reading, rings=rings_of(reading.links)) if reading.status == "ok" else reading


def rings_of(links: tuple[tuple[Link, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Sets of two or more devices that reach each other over direct links, by position."""
    left = set(range(len(links)))
    rings = []
    while left:
        reached = [min(left)]
        left.discard(reached[0])
        for device in reached:
            near = {other for other in left if links[device][other].direct or links[other][device].direct}
            left -= near
            reached += sorted(near)
        if len(reached) > 1:
            rings.append(tuple(sorted(reached)))
    return tuple(rings)


READERS: Final = (Reader(_KIND, _recognises, _read),)


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile(
            "atlas-800", "ascend", "Ascend 910A", 32768, grouped(8, "HCCS", group=4), "ascend-910", cpus=192
        ),
        MachineProfile("atlas-a2", "ascend", "Ascend 910B3", 65536, grouped(8, "HCCS"), "ascend-910b", cpus=192),
    )


VENDOR: Final = Vendor(
    name="ascend",
    readers=(*READERS, *inventory.READERS),
    tools={"npu-smi": "npu-smi info -t topo"},
    links=(
        LinkCode("HCCS", "HCCS"),
        LinkCode("HCCS_SW", "HCCS"),  # through a switch
        LinkCode("SIO", "SIO", direct=2),  # between two dies of one module
        LinkCode("UB", "UB"),
    ),
    machines=_machines,
    container_needs=NeedsRule(
        node="/dev/davinci{number}",
        control=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        optional=("/dev/dvpp_cmdlist",),
        visible="ASCEND_VISIBLE_DEVICES",
        runtime=(
            "usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime",
            "usr/local/bin/ascend-docker-runtime",
            "usr/bin/ascend-docker-runtime",
        ),
        runtime_options=(("ASCEND_RUNTIME_OPTIONS", ""),),  # whole chips; parts of chips are VIRTUAL
        cdi="huawei.com/npu",
    ),
)
