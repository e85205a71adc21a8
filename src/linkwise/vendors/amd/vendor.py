"""AMD: descriptor."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.amd import topo
from linkwise.vendors.machine import MachineProfile, grouped
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

__all__ = ["VENDOR"]


def _machines() -> tuple[MachineProfile, ...]:
    return (
        MachineProfile("mi300", "amd", "AMD Instinct MI300X", 196592, grouped(8, "XGMI"), cpus=192, host_memory=2048),
    )


VENDOR: Final = Vendor(
    name="amd",
    readers=topo.READERS,
    tools={"rocm-smi": "rocm-smi --showtopo", "amd-smi": "amd-smi topology"},
    links=(LinkCode("XGMI", "XGMI"),),
    machines=_machines,
    container_needs=NeedsRule(node="/dev/dri/renderD{number}", control=("/dev/kfd",), cdi="amd.com/gpu", first=128),
    runtime_variable="AMD_VISIBLE_DEVICES",
)
