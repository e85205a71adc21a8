"""Drivers through `nvidia-smi` and `npu-smi`, for nodes on which the vendor's library can't be loaded into this process."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.host_files import HOST, chip_addresses, minor_number, near_nics, numa_node
from linkwise.drivers.tool_outputs import ToolDriver, read_outputs
from linkwise.errors import DriverError
from linkwise.model.usage import UsageReading
from linkwise.vendors.ascend import chip_name, chip_usages
from linkwise.vendors.nvidia.inventory import DEVICE_FIELDS, PROCESS_FIELDS, device_usages

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.tool_outputs import Answer
    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery

__all__ = ["NpuSmiDriver", "NvidiaSmiDriver"]

_FIELDS: Final = ("index", "uuid", "name", "pci.bus_id", "memory.total", "driver_version")
"""fields that every driver knows"""
_NEWER: Final = ("mig.mode.current",)
_PLAIN: Final = "--format=csv,noheader,nounits"
_UNKNOWN_FIELD: Final = "not a valid field to query"
_NO_DEVICES: Final = "no devices were found"
_CUDA: Final = re.compile(r"CUDA (?:UMD )?Version *: *([0-9]{1,3}\.[0-9]{1,3})")
_NO_CARDS: Final = "there is no npu card"


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
        discovery = outputs.discovery
        if not discovery.devices and not outputs.unreadable and _NO_DEVICES not in listed.text.lower():
            raise DriverError(f"nvidia-smi: {listed.message} (exit code {listed.code}); run `nvidia-smi` on the node")
        if listed.code and discovery.devices:
            problems.append(f"nvidia-smi --query-gpu failed with exit code {listed.code}")
        discovery = replace(
            discovery,
            devices=tuple(self._located(device) for device in discovery.devices),
            facts={**discovery.facts, **self._cuda_fact(discovery.facts.get("driver", ""))},
            problems=tuple(dict.fromkeys((*discovery.problems, *problems))),
        )
        whole = self._known.complete(discovery, outputs.unreadable)
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
                match = _CUDA.search(self._run().text)
            except DriverError:
                match = None
            self._cuda = {driver: match[1]} if match else {}
        version = self._cuda.get(driver, "")
        return {"cuda": version} if version else {}


class NpuSmiDriver(ToolDriver):
    """NPUs of this machine, as the tool lists them.

    The tool does not print whether a chip's network port works, so that only DCMI finds network faults.
    """

    name = "npu-smi"
    installed = ("usr/local/bin/npu-smi", "usr/local/sbin/npu-smi", "usr/local/Ascend/driver/tools/npu-smi")
    hangs = "a chip may hang, see `dmesg`"
    missing = "install the Ascend driver, or give the path of the tool"

    def __init__(self, tool: str = "", *, node: str = "", timeout: float = 30, host: Path = HOST) -> None:
        super().__init__(tool, node=node, timeout=timeout, host=host)
        self._ids: dict[int, str] = {}
        """of the devices of the last discovery, by number"""

    def discover(self) -> Discovery:
        """Run the tool for the list of chips with their health, and for their links.

        Raises:
            DriverError: the tool can't be run, does not end in time, or lists nothing.
        """
        listed = self._run("info")
        texts = {"npu-smi info": listed.text}
        problems: list[str] = []
        if listed.code:
            problems.append(self._failure(listed, "info"))
        links = self._links(problems)
        if links:
            texts["npu-smi info -t topo"] = links
        discovery = self._listed(listed, texts)
        discovery = _named(replace(discovery, problems=tuple(dict.fromkeys((*discovery.problems, *problems)))))
        addresses = chip_addresses(self._host)
        discovery = replace(
            discovery,
            devices=tuple(
                replace(device, minor=device.index, numa=numa_node(device.bus_id, self._host))
                for device in discovery.devices
            ),
            addresses={
                device.id: addresses[device.index] for device in discovery.devices if addresses.get(device.index, "")
            },
        )
        whole = self._known.complete(discovery)
        self._ids = {device.index: device.id for device in whole.devices}
        return replace(whole, vendor="ascend" if whole.devices else "")

    def usage(self) -> UsageReading:
        """Run the tool for memory, busy AI cores and processes of the chips.

        Raises:
            DriverError: the tool can't be run, or does not end in time.
        """
        listed = self._run("info")
        usages = chip_usages(listed.text)
        return UsageReading(
            tuple(replace(usages[number], id=id_) for number, id_ in self._ids.items() if number in usages),
            (self._failure(listed, "info"),) if listed.code else (),
        )

    def _links(self, problems: list[str]) -> str:
        """The link matrix; empty where the hardware has none to print, as the first 910."""
        try:
            links = self._run("info", "-t", "topo")
        except DriverError as error:
            problems.append(str(error))
            return ""
        if links.code and "does not support" not in links.text:
            problems.append(self._failure(links, "info", "-t", "topo"))
        return "" if links.code else links.text

    def _listed(self, listed: Answer, texts: dict[str, str]) -> Discovery:
        """The chips of the table; one that only the link matrix has is not working, and its health is not known."""
        rows = {device.index for device in read_outputs({"npu-smi info": listed.text}, self._node).discovery.devices}
        if not rows:
            return self._cards(listed)
        discovery = read_outputs(texts, self._node).discovery
        return replace(discovery, devices=tuple(device for device in discovery.devices if device.index in rows))

    def _cards(self, listed: Answer) -> Discovery:
        """The list of cards, for versions whose table can't be read; it has no health."""
        cards = self._run("info", "-l")
        discovery = read_outputs({"npu-smi info -l": cards.text}, self._node).discovery
        if not discovery.devices and _NO_CARDS not in f"{listed.text} {cards.text}".lower():
            raise DriverError(f"npu-smi: {listed.message} (exit code {listed.code}); run `npu-smi info` on the node")
        unread = "npu-smi info can't be read, so that the health of the chips is not known"
        return replace(discovery, problems=(unread, *discovery.problems)) if discovery.devices else discovery


def _named(discovery: Discovery) -> Discovery:
    """The discovery with Huawei's names of the chips as ids."""
    names = {device.id: chip_name(device.model, device.index) for device in discovery.devices}
    topology = discovery.topology
    return replace(
        discovery,
        devices=tuple(replace(device, id=names[device.id]) for device in discovery.devices),
        topology=topology and replace(topology, devices=tuple(names.get(id_, id_) for id_ in topology.devices)),
        faults={names[id_]: sentence for id_, sentence in discovery.faults.items() if id_ in names},
    )
