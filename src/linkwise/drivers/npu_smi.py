"""Driver for Ascend NPUs through `npu-smi`, for nodes on which DCMI can't be loaded into this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from linkwise.drivers.host_files import HOST, chip_addresses, numa_node
from linkwise.drivers.tool_command import ToolDriver
from linkwise.drivers.tool_outputs import read_outputs
from linkwise.errors import DriverError
from linkwise.model.usage import UsageReading
from linkwise.vendors.ascend.chips import chip_name
from linkwise.vendors.ascend.usage import chip_usages

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.tool_command import Answer
    from linkwise.model.discovery import Discovery

__all__ = ["NpuSmiDriver"]

_NO_CARDS: Final = "there is no npu card"


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
        found = self._listed(listed, texts)
        found = _named(replace(found, problems=tuple(dict.fromkeys((*found.problems, *problems)))))
        addresses = chip_addresses(self._host)
        found = replace(
            found,
            devices=tuple(
                replace(device, minor=device.index, numa=numa_node(device.bus_id, self._host))
                for device in found.devices
            ),
            addresses={
                device.id: addresses[device.index] for device in found.devices if addresses.get(device.index, "")
            },
        )
        whole = self._known.complete(found)
        self._ids = {device.index: device.id for device in whole.devices}
        return replace(whole, vendor="ascend" if whole.devices else "")

    def usage(self) -> UsageReading:
        """Run the tool for memory, busy AI cores and processes of the chips.

        Raises:
            DriverError: the tool can't be run, or does not end in time.
        """
        listed = self._run("info")
        found = chip_usages(listed.text)
        return UsageReading(
            tuple(replace(found[number], id=id_) for number, id_ in self._ids.items() if number in found),
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
        found = read_outputs(texts, self._node).discovery
        return replace(found, devices=tuple(device for device in found.devices if device.index in rows))

    def _cards(self, listed: Answer) -> Discovery:
        """The list of cards, for versions whose table can't be read; it has no health."""
        cards = self._run("info", "-l")
        found = read_outputs({"npu-smi info -l": cards.text}, self._node).discovery
        if not found.devices and _NO_CARDS not in f"{listed.text} {cards.text}".lower():
            raise DriverError(f"npu-smi: {listed.message} (exit code {listed.code}); run `npu-smi info` on the node")
        unread = "npu-smi info can't be read, so that the health of the chips is not known"
        return replace(found, problems=(unread, *found.problems)) if found.devices else found


def _named(found: Discovery) -> Discovery:
    """The discovery with Huawei's names of the chips as ids."""
    names = {device.id: chip_name(device.model, device.index) for device in found.devices}
    topology = found.topology
    return replace(
        found,
        devices=tuple(replace(device, id=names[device.id]) for device in found.devices),
        topology=topology and replace(topology, devices=tuple(names.get(id_, id_) for id_ in topology.devices)),
        faults={names[id_]: sentence for id_, sentence in found.faults.items() if id_ in names},
    )
