"""Drivers for AMD GPUs through `amd-smi` and, for older releases of ROCm, `rocm-smi`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkwise.drivers.amd.driver import with_processes
from linkwise.drivers.amd.kernel import gpu_nodes, versions
from linkwise.drivers.host_files import numa_node, pci_address
from linkwise.drivers.tool_outputs import ToolDriver, read_outputs
from linkwise.errors import DriverError
from linkwise.model.usage import UsageReading
from linkwise.vendors.amd.inventory import card_usages, gpu_usages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.drivers.amd.kernel import GpuNodes
    from linkwise.model.device import Device
    from linkwise.model.inventory import Discovery
    from linkwise.model.usage import DeviceUsage

__all__ = ["AmdSmiDriver", "RocmSmiDriver"]


class _CommandDriver(ToolDriver):
    """GPUs of this machine, as a tool lists them in JSON.

    The tools do not print how many pages of memory are retired without being root, so that only the library finds that.
    """

    hangs = "a GPU may hang, see `dmesg`"
    missing = "install ROCm, or give the path of the tool"
    _list: tuple[str, ...]
    """the command that lists the GPUs; without its answer there is nothing to read"""
    _more: tuple[tuple[str, ...], ...]
    """commands whose answers add to it"""
    _usage: tuple[str, ...]
    """the command that prints memory and utilization, by the number of the GPU"""
    _usages: Callable[[str], dict[int, DeviceUsage]]
    """the reader of its answer"""

    def discover(self) -> Discovery:
        """Run the tool for the list of GPUs and for their links.

        Raises:
            DriverError: the tool can't be run, does not end in time, or lists nothing.
        """
        listed = self._run(*self._list)
        texts, problems = {" ".join((self.name, *self._list)): listed.text}, list[str]()
        for arguments in self._more:
            self._add(texts, problems, *arguments)
        own = read_outputs({self.name: listed.text}, self._node)
        if not own.discovery.devices and not own.unreadable:
            raise DriverError(
                f"{self.name}: {listed.message} (exit code {listed.code}); run `{' '.join((self.name, *self._list))}` on"
                " the node"
            )
        outputs = read_outputs(texts, self._node)
        discovery = outputs.discovery
        nodes = gpu_nodes(self._host)
        facts = versions((device.bus_id for device in discovery.devices), self._host)
        discovery = replace(
            discovery,
            devices=tuple(self._located(device, nodes) for device in discovery.devices),
            facts={**facts, **discovery.facts},
            problems=tuple(dict.fromkeys((*discovery.problems, *problems))),
        )
        whole = self._known.complete(discovery, outputs.unreadable)
        return replace(whole, vendor="amd" if whole.devices else "")

    def usage(self) -> UsageReading:
        """Run the tool for memory and utilization of the GPUs, and for their ids: it may have numbered them again.

        Raises:
            DriverError: the tool can't be run, or does not end in time.
        """
        listed, measured = self._run(*self._list), self._run(*self._usage)
        problems = [
            self._failure(answer, *arguments)
            for arguments, answer in ((self._list, listed), (self._usage, measured))
            if answer.code
        ]
        nodes, usages = gpu_nodes(self._host), self._usages(measured.text)
        located = [
            (self._located(device, nodes), replace(usages[device.index], id=device.id))
            for device in read_outputs({self.name: listed.text}, self._node).discovery.devices
            if device.index in usages
        ]
        return UsageReading(with_processes(located, nodes, self._host), tuple(problems))

    def _located(self, device: Device, nodes: Mapping[tuple[str, int], GpuNodes]) -> Device:
        address = pci_address(device.bus_id)
        node = nodes.get((address, 0))
        if node is None and address:  # a partition: the tool numbers them as functions
            node = nodes.get((f"{address[:-1]}0", int(address[-1], 16)))
        numa = numa_node(f"{address[:-1]}0", self._host) if address else None
        return replace(
            device,
            minor=node.render if node else None,
            nodes=(node.card,) if node and node.card else (),
            numa=device.numa if numa is None else numa,
        )


class AmdSmiDriver(_CommandDriver):
    """GPUs by amd-smi, of ROCm 6 and later."""

    name = "amd-smi"
    installed = ("opt/rocm/bin/amd-smi", "usr/bin/amd-smi")
    _list = ("list", "--json")
    _more = (("static", "--json"), ("topology", "--json"), ("metric", "--ecc", "--json"))
    _usage = ("metric", "--usage", "--mem-usage", "--json")
    _usages = staticmethod(gpu_usages)


class RocmSmiDriver(_CommandDriver):
    """GPUs by rocm-smi; it does not print errors of the memory."""

    name = "rocm-smi"
    installed = ("opt/rocm/bin/rocm-smi", "usr/bin/rocm-smi")
    _list = (
        "--showuniqueid",
        "--showbus",
        "--showproductname",
        "--showmeminfo",
        "vram",
        "--showdriverversion",
        "--json",
    )
    _more = (("--showtopo", "--json"),)
    _usage = ("--showuse", "--showmeminfo", "vram", "--json")
    _usages = staticmethod(card_usages)
