"""Huawei Ascend: descriptor, with the machines whose chips form HCCS rings."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.ascend import inventory, topo
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

__all__ = ["VENDOR"]


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile(
            "atlas-800", "ascend", "Ascend 910A", 32768, grouped(8, "HCCS", group=4), "ascend-910", cpus=192
        ),
        MachineProfile("atlas-a2", "ascend", "Ascend 910B3", 65536, grouped(8, "HCCS"), "ascend-910b", cpus=192),
    )


VENDOR: Final = Vendor(
    name="ascend",
    readers=(*topo.READERS, *inventory.READERS),
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
