"""Driver for NVIDIA GPUs through `nvidia-smi`, for nodes on which NVML can't be loaded into this process."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.host_files import HOST, minor_number, near_nics, numa_node
from linkwise.drivers.tool_command import ToolDriver
from linkwise.drivers.tool_outputs import read_outputs
from linkwise.errors import DriverError
from linkwise.model.usage import UsageReading
from linkwise.vendors.nvidia.usage import DEVICE_FIELDS, PROCESS_FIELDS, device_usages

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.tool_command import Answer
    from linkwise.model.device import Device
    from linkwise.model.discovery import Discovery

__all__ = ["NvidiaSmiDriver"]

_FIELDS: Final = ("index", "uuid", "name", "pci.bus_id", "memory.total", "driver_version")
"""fields that every driver knows"""
_NEWER: Final = ("mig.mode.current",)
_PLAIN: Final = "--format=csv,noheader,nounits"
_UNKNOWN_FIELD: Final = "not a valid field to query"
_NO_DEVICES: Final = "no devices were found"
_CUDA: Final = re.compile(r"CUDA (?:UMD )?Version *: *([0-9]{1,3}\.[0-9]{1,3})")


class NvidiaSmiDriver(ToolDriver):
    """GPUs of this machine, as the tool lists them."""

    name = "nvidia-smi"
    hangs = "a GPU may hang, see `dmesg`"
    missing = "install the NVIDIA driver, or give the path of the tool"

    def __init__(self, tool: str = "", *, node: str = "", timeout: float = 30, host: Path = HOST) -> None:
        super().__init__(tool, node=node, timeout=timeout, host=host)
        self._cuda: dict[str, str] = {}
        """CUDA version by version of the driver"""

    def discover(self) -> Discovery:
        """Run the tool for the list of devices and for their links.

        Raises:
            DriverError: the tool can't be run, does not end in time, or lists nothing.
        """
        listed = self._list()
        texts = {"nvidia-smi --query-gpu": listed.text}
        problems: list[str] = []
        self._add(texts, problems, "topo", "-m")
        outputs = read_outputs(texts, self._node)
        found = outputs.discovery
        if not found.devices and not outputs.unreadable and _NO_DEVICES not in listed.text.lower():
            raise DriverError(f"nvidia-smi: {listed.message} (exit code {listed.code}); run `nvidia-smi` on the node")
        if listed.code and found.devices:
            problems.append(f"nvidia-smi --query-gpu failed with exit code {listed.code}")
        found = replace(
            found,
            devices=tuple(self._located(device) for device in found.devices),
            facts={**found.facts, **self._cuda_fact(found.facts.get("driver", ""))},
            problems=tuple(dict.fromkeys((*found.problems, *problems))),
        )
        whole = self._known.complete(found, outputs.unreadable)
        return replace(whole, vendor="nvidia" if whole.devices else "")

    def usage(self) -> UsageReading:
        """Run the tool for memory and utilization of the devices, and for the processes on them.

        Raises:
            DriverError: the tool can't be run, or does not end in time.
        """
        listed = self._run(f"--query-gpu={','.join(DEVICE_FIELDS)}", _PLAIN)
        running = self._run(f"--query-compute-apps={','.join(PROCESS_FIELDS)}", _PLAIN)
        failed = [answer for answer in (listed, running) if answer.code]
        return UsageReading(
            device_usages(listed.text, None if running.code else running.text),
            tuple(map(self._failure, failed)),
        )

    def _list(self) -> Answer:
        answer = self._run(f"--query-gpu={','.join((*_FIELDS, *_NEWER))}", "--format=csv")
        if _UNKNOWN_FIELD in answer.text:
            answer = self._run(f"--query-gpu={','.join(_FIELDS)}", "--format=csv")
        return answer

    def _located(self, device: Device) -> Device:
        numa = numa_node(device.bus_id, self._host)
        return replace(
            device,
            minor=minor_number(device.bus_id, self._host),
            numa=device.numa if numa is None else numa,
            nics=device.nics or near_nics(device.bus_id, self._host),
        )

    def _cuda_fact(self, driver: str) -> dict[str, str]:
        """The CUDA version, which only the tool's banner has; it is read once per version of the driver."""
        if driver and driver not in self._cuda:
            try:
                found = _CUDA.search(self._run().text)
            except DriverError:
                found = None
            self._cuda = {driver: found[1]} if found else {}
        version = self._cuda.get(driver, "")
        return {"cuda": version} if version else {}
