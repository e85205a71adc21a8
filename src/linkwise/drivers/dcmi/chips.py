"""One Ascend chip as DCMI reports it; what can't be read of a chip is a fault of that chip alone."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

from linkwise.drivers.c_library import printable
from linkwise.drivers.dcmi.library import (
    ChipInfo,
    HbmInfo,
    IpAddress,
    MemoryInfo,
    PcieInfo,
)
from linkwise.drivers.device_facts import DeviceFacts, Failure
from linkwise.drivers.host_files import near_nics, numa_node
from linkwise.drivers.known_devices import Unreadable
from linkwise.model.device import Device
from linkwise.vendors.ascend.chips import HEALTH_STATES, NETWORK_STATES, chip_name, is_usable

if TYPE_CHECKING:
    from pathlib import Path

    from linkwise.drivers.dcmi.library import Library

__all__ = ["Chip", "Place", "read_chip"]

_MIB: Final = 1024 * 1024
_MOST_MEMORY: Final = 1 << 30
"""MiB; more is an error code in place of a size"""
_MOST_CODES: Final = 128
_SHOWN_CODES: Final = 8
_NETWORK_PORT: Final = 1
"""DCMI_ROCE_PORT"""
_IPV6: Final = 1


@dataclass(frozen=True, slots=True)
class Place:
    """How DCMI addresses a chip."""

    card: int
    chip: int
    """its number on the card"""


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip in one discovery."""

    place: Place
    device: Device
    faults: tuple[str, ...] = ()
    """why it is unhealthy, or what is not known"""
    address: str = ""
    """IP address of its network port"""
    network_fault: str = ""
    """why other machines can't reach it"""


def read_chip(library: Library, place: Place, host: Path, last_model: str = "") -> Chip | Unreadable:
    """The chip at a place, with what can be read of it; `last_model` is that of the chip when it was read last."""
    number = _physical_id(library, place)
    if isinstance(number, Failure):
        return Unreadable(place.card, f"DCMI can't read its physical id ({number})")
    facts = DeviceFacts("DCMI", number)
    model = _model(facts, library, place) or last_model
    memory = _memory(facts, library, place)
    bus = _bus_id(facts, library, place)
    _health(facts, library, place)
    return Chip(
        place,
        Device(
            chip_name(model, number),
            number,
            minor=number,  # the N of /dev/davinciN
            numa=numa_node(bus, host),
            nics=near_nics(bus, host),
            bus_id=bus,
            model=model,
            memory=memory,
            healthy=facts.healthy,
            bytes=memory * _MIB,
        ),
        tuple(facts.faults),
        _address(library, place),
        _network_fault(library, place),
    )


def _physical_id(library: Library, place: Place) -> int | Failure:
    logic = ctypes.c_int(0)
    failure = library.call("dcmi_get_device_logic_id", ctypes.byref(logic), place.card, place.chip)
    if failure is not None:
        return failure
    return library.number("dcmi_get_device_phyid_from_logicid", ctypes.c_uint(logic.value), kind=ctypes.c_uint)


def _model(facts: DeviceFacts, library: Library, place: Place) -> str:
    info = ChipInfo()
    failure = library.call("dcmi_get_device_chip_info_v2", place.card, place.chip, ctypes.byref(info))
    if failure is not None and failure.unsupported:
        failure = library.call("dcmi_get_device_chip_info", place.card, place.chip, ctypes.byref(info))
    if failure is not None:
        facts.take("model", failure)
        return ""
    return " ".join(filter(None, (printable(info.type), printable(info.name))))


def _memory(facts: DeviceFacts, library: Library, place: Place) -> int:
    """MiB of the chip's memory: HBM, or DDR where it has no HBM."""
    high = HbmInfo()
    failure = library.call("dcmi_get_device_hbm_info", place.card, place.chip, ctypes.byref(high))
    size = int(high.size)
    if (failure is not None and failure.unsupported) or (failure is None and not size):
        plain = MemoryInfo()
        failure = library.call("dcmi_get_device_memory_info_v3", place.card, place.chip, ctypes.byref(plain))
        size = int(plain.size)
    if failure is not None:
        facts.take("memory", failure)
        return 0
    if size > _MOST_MEMORY:
        facts.note(f"its memory is unknown ({size} MiB are reported)")
        return 0
    return size


def _bus_id(facts: DeviceFacts, library: Library, place: Place) -> str:
    info = PcieInfo()
    failure = library.call("dcmi_get_device_pcie_info_v2", place.card, place.chip, ctypes.byref(info))
    if failure is not None:
        facts.take("bus id", failure)
        return ""
    return f"{info.domain & 0xFFFF:04X}:{info.bus & 0xFF:02X}:{info.device & 0x1F:02X}.{info.function & 7:X}"


def _health(facts: DeviceFacts, library: Library, place: Place) -> None:
    state = library.number("dcmi_get_device_health", place.card, place.chip, kind=ctypes.c_uint)
    if isinstance(state, Failure):
        # Without its health a chip must not be allocated: a dead one often answers nothing else.
        facts.kill(f"DCMI can't read its health ({state})")
        return
    if state == 0:
        return
    word = HEALTH_STATES.get(state, f"unknown state {state}")
    codes = _error_codes(library, place)
    why = f"its health is {word}{codes}"
    # rule 003.faulty: a chip that reports a fault leaves the pool, and returns when it reports none.
    if is_usable(state):
        facts.note(f"works, but {why}")
    else:
        facts.kill(why)


def _error_codes(library: Library, place: Place) -> str:
    count, codes = ctypes.c_int(0), (ctypes.c_uint * _MOST_CODES)()
    failure = library.call(
        "dcmi_get_device_errorcode_v2",
        place.card,
        place.chip,
        ctypes.byref(count),
        codes,
        ctypes.c_uint(_MOST_CODES),
    )
    known = [f"0x{code:08X}" for code in codes[: max(0, min(count.value, _SHOWN_CODES))]] if failure is None else []
    return f" (error {', '.join(known)})" if known else ""


def _address(library: Library, place: Place) -> str:
    """The IP address of the chip's network port; empty if it has none or none is set."""
    address, mask = IpAddress(), IpAddress()
    failure = library.call(
        "dcmi_get_device_ip", place.card, place.chip, _NETWORK_PORT, 0, ctypes.byref(address), ctypes.byref(mask)
    )
    if failure is not None:
        return ""
    raw = bytes(address.bytes)
    found = IPv6Address(raw) if address.type == _IPV6 else IPv4Address(raw[:4])
    return "" if found.is_unspecified else str(found)


def _network_fault(library: Library, place: Place) -> str:
    state = library.number("dcmi_get_device_network_health", place.card, place.chip)
    return "" if isinstance(state, Failure) else NETWORK_STATES.get(state, "")
