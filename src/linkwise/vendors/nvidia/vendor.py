"""NVIDIA: descriptor. Link codes NV1, NV2, ... are counts of NVLinks, which the model knows by itself."""

from __future__ import annotations

from typing import Final

from linkwise.vendors.nvidia import inventory, nvbandwidth, p2p_test, topo
from linkwise.vendors.nvidia.machines import machines
from linkwise.vendors.vendor import DriverFiles, NeedsRule, Vendor

__all__ = ["VENDOR"]

VENDOR: Final = Vendor(
    name="nvidia",
    readers=(*topo.READERS, *p2p_test.READERS, *nvbandwidth.READERS, *inventory.READERS),
    tools={
        "nvidia-smi": "nvidia-smi topo -m",
        "NVIDIA-SMI": "nvidia-smi topo -m",
        "nvbandwidth": "nvbandwidth -t device_to_device_memcpy_read_ce",
    },
    machines=machines,
    # rule 002.nodes: each device maps to a list of nodes, its own and those of the driver.
    container_needs=NeedsRule(
        node="/dev/nvidia{number}",
        control=("/dev/nvidiactl", "/dev/nvidia-uvm"),
        optional=("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"),
        visible="NVIDIA_VISIBLE_DEVICES",
        used="CUDA_VISIBLE_DEVICES",
        named_by="uuid",
        cdi="nvidia.com/gpu",
        # NVML's index differs from the minor on some hosts; a guess would open another device.
        first=None,
    ),
    driver_files=DriverFiles(
        toolkit=("nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk", "nvidia-cdi-hook"),
        libraries=(
            r"lib(?:cuda|cudadebugger"
            r"|nvidia-(?:ml|ptxjitcompiler|nvvm|gpucomp|allocator|fatbinaryloader|opencl|cfg|encode))\.so(?:\.[0-9.]+)?"
        ),
        programs=("nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"),
        inside="/usr/local/nvidia",
        folders=("usr/local/nvidia/toolkit", "opt/nvidia/toolkit"),
    ),
)
