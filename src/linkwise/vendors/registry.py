"""Registered vendors: the built-in ones, and those that the process adds at start.

A vendor that is not usable is refused here, so that a mistake stops the start and not a pod. The resources that pods
request are registered in `dialects.registry`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.errors import PluginError
from linkwise.model.link import is_link_code, set_vendor_links
from linkwise.vendors.amd.vendor import VENDOR as AMD
from linkwise.vendors.ascend import VENDOR as ASCEND
from linkwise.vendors.machine import MachineProfile
from linkwise.vendors.metax import VENDOR as METAX
from linkwise.vendors.nvidia.vendor import VENDOR as NVIDIA
from linkwise.vendors.reader import Reader
from linkwise.vendors.vendor import LinkCode, NeedsRule, Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["VENDORS", "register", "set_vendors"]

# rule 002.vendors: one line per vendor.
_BUILT_IN: Final = (
    NVIDIA,
    ASCEND,
    METAX,
    AMD,
)

VENDORS: Final[dict[str, Vendor]] = {}
"""by name, in the order of registration; change it with `register` only"""

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]*")


def register(vendor: object) -> None:
    """Add a vendor, before anything is read or placed.

    Raises:
        PluginError: a part of it is of the wrong type, or its name, a link code, a kind of text or a machine is taken.
    """
    if not isinstance(vendor, Vendor):
        raise PluginError(f"expected a linkwise.vendors.vendor.Vendor, got {_kind(vendor)}")
    _check_name(vendor)
    _check_links(vendor)
    _check_readers(vendor)
    before = tuple(VENDORS.values())
    set_vendors((*before, vendor))  # its machines use its link codes
    try:
        _check_machines(vendor, before)
    except PluginError:
        set_vendors(before)
        raise


def set_vendors(vendors: Iterable[Vendor]) -> None:
    """Make these, and no others, the registered vendors."""
    registered = {vendor.name: vendor for vendor in vendors}
    VENDORS.clear()
    VENDORS.update(registered)
    set_vendor_links({link.code: link.direct for vendor in registered.values() for link in vendor.links})


def _check_name(vendor: Vendor) -> None:
    if not _NAME.fullmatch(str(vendor.name)):
        raise PluginError(f"vendor name {vendor.name!r}: use lower-case letters, digits and dashes")
    if vendor.name in VENDORS:
        raise PluginError(f"vendor {vendor.name!r} is already registered")
    if vendor.container_needs is not None and not isinstance(vendor.container_needs, NeedsRule):
        raise PluginError(f"container_needs: expected a NeedsRule, got {_kind(vendor.container_needs)}")


def _check_links(vendor: Vendor) -> None:
    codes: set[str] = set()
    for link in vendor.links:
        if not isinstance(link, LinkCode):
            raise PluginError(f"links: expected a LinkCode, got {_kind(link)}")
        if not _CODE.fullmatch(link.code) or link.direct < 1:
            raise PluginError(f"link code {link.code!r}: use capitals, and a rank of 1 or more")
        if is_link_code(link.code) or link.code in codes:
            raise PluginError(f"link code {link.code!r} is already in use")
        codes.add(link.code)


def _check_readers(vendor: Vendor) -> None:
    kinds = {reader.kind for other in VENDORS.values() for reader in other.readers}
    for reader in vendor.readers:
        if not isinstance(reader, Reader):
            raise PluginError(f"readers: expected a Reader, got {_kind(reader)}")
        if reader.kind in kinds:
            raise PluginError(f"readers: {reader.kind!r} is already read by another reader")
        kinds.add(reader.kind)


def _check_machines(vendor: Vendor, others: Iterable[Vendor]) -> None:
    names = {machine.name for other in others for machine in other.machines()}
    try:
        machines = vendor.machines()
    except Exception as error:  # whatever the author's code raises
        raise PluginError(f"machines: {type(error).__name__}: {error}") from error
    for machine in machines:
        if not isinstance(machine, MachineProfile):
            raise PluginError(f"machines: expected a MachineProfile, got {_kind(machine)}")
        if machine.vendor != vendor.name:
            raise PluginError(f"machine {machine.name!r} names the vendor {machine.vendor!r}, not {vendor.name!r}")
        if machine.name in names:
            raise PluginError(f"machine profile {machine.name!r} is already registered")
        names.add(machine.name)


def _kind(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"a value of type {type(value).__name__}"


set_vendors(_BUILT_IN)
