"""Vendor descriptor: everything Linkwise knows about one vendor's hardware, in one value.

A vendor is a folder with a `VENDOR`, and one line in `registry.py` or an entry point of the group `linkwise.vendors`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkwise.vendors.machine import MachineProfile
    from linkwise.vendors.reader import Reader

__all__ = ["DriverFiles", "LinkCode", "NeedsRule", "Vendor"]


@dataclass(frozen=True, slots=True)
class LinkCode:
    """A code that the vendor's tools print for a direct link between two devices."""

    code: str
    """as printed, in capitals: `MX`"""
    name: str
    """as people call the link: `MetaXLink`"""
    direct: int = 1
    """its rank beside other links, as a number of NVLinks"""


@dataclass(frozen=True, slots=True)
class NeedsRule:
    """What every container with devices of the vendor needs, and what each device adds."""

    node: str
    """the device's own node; `{number}` is its number. `Device.nodes` adds nodes whose numbers do not follow from it"""
    control: tuple[str, ...]
    """nodes that every container needs once"""
    cdi: str
    """kind of the CDI names"""
    optional: tuple[str, ...] = ()
    visible: str = ""
    """the variable that names the devices; empty: there is none"""
    runtime: tuple[str, ...] = ()
    """programs of the vendor's container runtime, one of which is on the host if it is installed; empty: there is none"""
    runtime_options: tuple[tuple[str, str], ...] = ()
    """variables that this runtime reads beside the one that names the devices"""
    used: str = ""
    """the variable that names the devices to use among the visible ones; empty: there is none"""
    named_by: Literal["uuid", "number", "index"] = "number"
    """how the variable and the CDI names call a device"""
    first: int | None = 0
    """number of the device with index 0, where its minor is not known; None: the index does not determine it"""


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """Files of a driver that containers need, for hosts without the vendor's container toolkit, which adds them."""

    toolkit: tuple[str, ...]
    """programs of which the host has one if the toolkit is installed"""
    libraries: str
    """regular expression of the names of libraries"""
    programs: tuple[str, ...]
    inside: str
    """folder in which images look for `lib64` and `bin` with these files"""
    folders: tuple[str, ...] = ()
    """of programs, beside those of every host"""


def _no_machines() -> tuple[MachineProfile, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's hardware: tools, links, machines, and the needs of containers."""

    name: str
    readers: tuple[Reader, ...] = ()
    """of the outputs of its tools"""
    tools: Mapping[str, str] = field(default_factory=dict)
    """names of its tools, each with the command to try where a text names the tool and has no table"""
    links: tuple[LinkCode, ...] = ()
    machines: Callable[[], tuple[MachineProfile, ...]] = _no_machines
    """its machine profiles; called once all link codes are registered"""
    container_needs: NeedsRule | None = None
    driver_files: DriverFiles | None = None
    """None: images bring everything that is not in the kernel"""
    runtime_variable: str = ""
    """the variable by which its container runtime selects devices, if the container needs do not name it"""
    device_taints: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """what the device taints of its DRA driver say, by key; called with the value of a taint"""
