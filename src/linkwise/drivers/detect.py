"""Detection: opens the driver that a user selected, or the first one that finds devices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.drivers.amd.commands import AmdSmiDriver, RocmSmiDriver
from linkwise.drivers.amd.driver import AmdSmiLibraryDriver
from linkwise.drivers.dcmi import DcmiDriver
from linkwise.drivers.host_files import HOST
from linkwise.drivers.measured_bandwidth import MeasuredDriver
from linkwise.drivers.nvml.driver import NvmlDriver
from linkwise.drivers.smi import NpuSmiDriver, NvidiaSmiDriver
from linkwise.drivers.without_hardware import RecordedDriver, SimulatedDriver
from linkwise.errors import DriverError, InputError
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.usage import UsageReading
from linkwise.vendors.nvidia.xid import HARMLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from linkwise.drivers.tool_outputs import ToolDriver

__all__ = ["AUTO", "DRIVERS", "AutoDriver", "DriverOptions", "open_driver"]

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """What a driver is opened with."""

    node: str
    """name of this node, from which devices without a UUID get their ids"""
    source: str = ""
    """what the driver reads: a path or a name, see `DRIVERS`"""
    host: Path = HOST
    """where the file system of the host is mounted"""
    harmless_xids: Collection[int] = HARMLESS
    """Xid events that leave an NVIDIA GPU in use"""


def _nvml(options: DriverOptions) -> Driver:
    return NvmlDriver(options.source, host=options.host, harmless=options.harmless_xids)


def _library(driver: type[DcmiDriver | AmdSmiLibraryDriver]) -> Callable[[DriverOptions], Driver]:
    return lambda options: driver(options.source, host=options.host)


def _tool(driver: type[ToolDriver]) -> Callable[[DriverOptions], Driver]:
    return lambda options: driver(options.source, node=options.node, host=options.host)


def _recorded(options: DriverOptions) -> Driver:
    if not options.source:
        raise InputError("the driver recorded needs a source: the folder with the outputs of the tools")
    return RecordedDriver(Path(options.source), options.node)


def _simulated(options: DriverOptions) -> Driver:
    if not options.source:
        raise InputError("the driver simulated needs a source: the name of a machine profile, such as dgx1-v100")
    machine, _, file = options.source.partition(":")
    return SimulatedDriver(machine, options.node, file=Path(file) if file else None)


DRIVERS: Final[Mapping[str, Callable[[DriverOptions], Driver]]] = {
    "nvml": _nvml,  # source: path of libnvidia-ml.so.1, optional
    "nvidia-smi": _tool(NvidiaSmiDriver),  # source: path of the tool, optional
    "dcmi": _library(DcmiDriver),  # source: path of libdcmi.so, optional
    "npu-smi": _tool(NpuSmiDriver),  # source: path of the tool, optional
    "amdsmi": _library(AmdSmiLibraryDriver),  # source: path of libamd_smi.so, optional
    "amd-smi": _tool(AmdSmiDriver),  # source: path of the tool, optional
    "rocm-smi": _tool(RocmSmiDriver),  # source: path of the tool, optional
    "recorded": _recorded,  # source: folder
    "simulated": _simulated,  # source: name of a machine profile; behind a colon, file of unhealthy devices
}
"""by name: one line per driver, in the order in which `auto` tries those of real hardware"""

_DETECTED: Final = tuple(name for name in DRIVERS if name not in {"recorded", "simulated"})
"""drivers of real hardware, in the order in which they are tried"""


def open_driver(  # noqa: PLR0913 - one per setting
    name: str,
    *,
    node: str,
    source: str = "",
    bandwidth: str = "",
    host_root: str = "/",
    harmless_xids: Collection[int] = HARMLESS,
) -> Driver:
    """The driver of that name, or with `auto` one that detects the hardware.

    Args:
        name: `auto`, or a key of `DRIVERS`.
        node: name of this node.
        source: what the driver reads; not for `auto`.
        bandwidth: file with the output of a bandwidth test, which every discovery adds.
        host_root: where the file system of the host is mounted.
        harmless_xids: Xid events that leave an NVIDIA GPU in use.

    Raises:
        InputError: unknown driver, or invalid source.
        DriverError: the selected driver can't read this machine; `auto` raises none, because a node may have no devices.
    """
    options = DriverOptions(node, source, Path(host_root), harmless_xids)
    if name == AUTO:
        if source:
            raise InputError(f"source {source!r} needs a driver: one of {', '.join(DRIVERS)}")
        driver: Driver = AutoDriver(options)
    elif name in DRIVERS:
        driver = DRIVERS[name](options)
    else:
        raise InputError(f"unknown driver {name!r}; use one of {', '.join((AUTO, *DRIVERS))}")
    return MeasuredDriver(driver, Path(bandwidth)) if bandwidth else driver


class AutoDriver(Driver):
    """The first driver that finds devices; until there is one, every discovery tries all of them again.

    A node without devices is valid: its hardware driver may be loaded later, without a restart of the agent.
    """

    def __init__(self, options: DriverOptions) -> None:
        self.name = AUTO
        """that of the driver in use, once there is one"""
        self._options: Final = options
        self._driver: Driver | None = None

    def discover(self) -> Discovery:
        """The devices; none, with what was tried, if no driver finds any."""
        if self._driver is not None:
            return self._driver.discover()
        tried: list[str] = []
        # rule 002.detect: the hardware itself is asked, so no flag or label has to say what a node has.
        for name in _DETECTED:
            driver: Driver | None = None
            try:
                driver = DRIVERS[name](self._options)
                discovery = driver.discover()
            except DriverError as error:
                tried.append(str(error))
            else:
                if discovery.devices:
                    self._driver, self.name = driver, driver.name
                    return discovery
                tried.append(f"{name}: {'; '.join(discovery.problems) or 'there are no devices'}")
            if driver is not None:
                with suppress(DriverError):
                    driver.close()
        return Discovery("", problems=(f"no devices were found. Tried: {'. '.join(tried)}",))

    def usage(self) -> UsageReading:
        """The usage as the driver in use reads it; nothing without one."""
        return UsageReading() if self._driver is None else self._driver.usage()

    def wait(self, seconds: float) -> Mapping[str, str] | None:
        """Wait for faults of the driver in use."""
        return None if self._driver is None else self._driver.wait(seconds)

    def close(self) -> None:
        """Close the driver in use."""
        if self._driver is not None:
            self._driver.close()
