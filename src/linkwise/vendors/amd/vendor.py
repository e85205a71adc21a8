"""AMD: descriptor."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.amd import inventory, topo, topo_json
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

__all__ = ["VENDOR"]


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile(
            "mi300",
            "amd",
            "AMD Instinct MI300X",
            196592,
            grouped(8, "XGMI"),
            cpus=192,
            host_memory=2048,
            first_minor=128,
            nodes=("/dev/dri/card{index}",),
        ),
    )


VENDOR: Final = Vendor(
    name="amd",
    readers=(*topo.READERS, *topo_json.READERS, *inventory.READERS),
    tools={"rocm-smi": "rocm-smi --showtopo", "amd-smi": "amd-smi topology"},
    links=(LinkCode("XGMI", "XGMI"),),
    machines=_machines,
    # No variable selects devices: ROCm uses every GPU whose render node the container has, counted from 0.
    container_needs=NeedsRule(
        node="/dev/dri/renderD{number}",
        control=("/dev/kfd",),
        cdi="amd.com/gpu",
        named_by="index",
        # Other graphics devices have render nodes too; a guess would open another device.
        first=None,
    ),
    runtime_variable="AMD_VISIBLE_DEVICES",
)
