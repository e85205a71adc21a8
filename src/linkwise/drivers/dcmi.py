"""Driver for Ascend NPUs through DCMI, Huawei's device management library, and the C functions that it calls.

The library is initialised once and read once per discovery. What can't be read of a chip is a fault of that chip alone; see
`known_devices` for chips that are no longer reported.

There is no Python package for it: functions of libdcmi.so are called through ctypes, with the structures of its header.
Source: contract device-plugin, section 9.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.drivers.c_library import CLibrary, printable
from linkwise.drivers.device_facts import DeviceFacts, Failure, common
from linkwise.drivers.host_files import HOST, chip_addresses, near_nics, numa_node
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.errors import DriverError
from linkwise.model.device import MIB, Device
from linkwise.model.driver import Driver
from linkwise.model.inventory import Discovery
from linkwise.model.link import SELF, UNKNOWN_LINK, Link
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.model.usage import DeviceUsage, ProcessUsage, UsageReading
from linkwise.vendors.ascend import HEALTH_STATES, NETWORK_STATES, chip_name, is_usable, rings_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "Chip",
    "ChipInfo",
    "DcmiDriver",
    "HbmInfo",
    "IpAddress",
    "Library",
    "MemoryInfo",
    "PcieInfo",
    "Place",
    "read_chip",
    "read_usage",
]

_MOST_CARDS: Final = 64
_MOST_CHIPS: Final = 16
"""of one card"""
_NPU: Final = 0
"""DCMI_UNIT_TYPE_NPU; others are the management controller and the CPU of a card"""
# The numbers are not in the order of bandwidth.
_PATHS: Final = {1: "SYS", 2: "PHB", 3: "HCCS", 4: "PXB", 5: "PIX"}
_MOST_MEMORY: Final = 1 << 30
"""MiB; more is an error code in place of a size"""
_MOST_CODES: Final = 128
_SHOWN_CODES: Final = 8
_NETWORK_PORT: Final = 1
"""DCMI_ROCE_PORT"""
_IPV6: Final = 1
_AI_CORE: Final = 2
"""DCMI_UTILIZATION_RATE_AICORE"""
_MOST_PROCESSES: Final = 32
"""that the library writes"""
NOT_SUPPORTED: Final = -8255
NOT_SUPPORTED_IN_CONTAINER: Final = -8013
_WORDS: Final = {
    -8001: "invalid parameter",
    -8002: "operation not permitted",
    -8003: "memory operation failed",
    -8005: "internal error",
    -8006: "timeout",
    -8007: "invalid device id",
    -8008: "the device does not exist",
    -8009: "ioctl failed",
    -8010: "sending a message failed",
    -8011: "receiving a message failed",
    -8012: "not ready",
    NOT_SUPPORTED_IN_CONTAINER: "not supported in a container",
    -8015: "reset failed",
    -8017: "an upgrade is running",
    -8020: "the resource is occupied",
    NOT_SUPPORTED: "not supported",
}
_ADVICE: Final = {
    -8002: "no permission to open /dev/davinci_manager; run the agent as root in a privileged container",
    -8005: "the Ascend kernel driver does not answer; check `npu-smi info` and `dmesg` on the node",
    -8008: "the Ascend kernel driver reports no devices; check `lspci | grep d80` and `dmesg` on the node",
    -8009: "the Ascend kernel driver is not loaded; check `lsmod | grep drv_` and `dmesg` on the node",
    -8012: "the Ascend driver is still starting",
    -8017: "an upgrade of the Ascend firmware is running; the agent tries again",
}
_NAME_BYTES: Final = 32


class DcmiDriver(Driver):
    """NPUs of this machine, as DCMI reports them."""

    name = "dcmi"

    def __init__(self, library: str = "", *, host: Path = HOST) -> None:
        """Load and initialise DCMI; `library` is the path of libdcmi.so if it is not where the driver installs it.

        Raises:
            DriverError: it can't be loaded or initialised.
        """
        self._library: Final = Library(library, host)
        self._host: Final = host
        self._known: Final = KnownDevices()
        self._identities: dict[Place, tuple[int, str]] = {}
        """number and model of each chip when it was read last"""
        self._paths: dict[tuple[int, int], Link] = {}
        """links by the numbers of two chips: they do not change while the machine runs"""

    def discover(self) -> Discovery:
        """Read all chips.

        Raises:
            DriverError: DCMI lists no cards.
        """
        read = [self._read(place) for place in self._places()]
        chips = sorted((one for one in read if isinstance(one, Chip)), key=lambda chip: chip.device.index)
        chips, twice = _distinct(chips)
        unreadable = [one for one in read if isinstance(one, Unreadable)]
        addresses = chip_addresses(self._host)
        discovery = Discovery(
            "ascend" if chips else "",
            tuple(chip.device for chip in chips),
            self._topology(chips),
            self._facts(chips),
            {chip.device.id: "; ".join(chip.faults) for chip in chips if chip.faults},
            tuple(twice),
            {
                chip.device.id: address
                for chip in chips
                if (address := chip.address or addresses.get(chip.device.index, ""))
            },
            {chip.device.id: chip.network_fault for chip in chips if chip.network_fault},
        )
        whole = self._known.complete(discovery, unreadable)
        return replace(whole, vendor="ascend" if whole.devices else "")

    def usage(self) -> UsageReading:
        """Read memory, busy AI cores and processes of the chips that the last discovery read."""
        return UsageReading(
            tuple(
                read_usage(self._library, place, chip_name(model, number))
                for place, (number, model) in self._identities.items()
            )
        )

    def _read(self, place: Place) -> Chip | Unreadable:
        """The chip at a place; one that no longer gives its number or model is the one that was there before."""
        number, model = self._identities.get(place, (place.card, ""))
        read = read_chip(self._library, place, self._host, model)
        if isinstance(read, Unreadable):
            return replace(read, index=number)
        self._identities[place] = read.device.index, read.device.model
        return read

    def _places(self) -> list[Place]:
        cards = self._cards()
        if isinstance(cards, Failure):
            self._library.initialise()  # the driver may have been reloaded
            cards = self._cards()
        if isinstance(cards, Failure):
            raise DriverError(f"dcmi: the cards can't be listed ({cards}); check `npu-smi info -l` on the node")
        return [place for card in cards for place in self._chips_of(card)]

    def _cards(self) -> list[int] | Failure:
        count, cards = ctypes.c_int(0), (ctypes.c_int * _MOST_CARDS)()
        failure = self._library.call("dcmi_get_card_list", ctypes.byref(count), cards, _MOST_CARDS)
        return failure or list(cards[: max(0, min(count.value, _MOST_CARDS))])

    def _chips_of(self, card: int) -> list[Place]:
        count = self._library.number("dcmi_get_device_num_in_card", card)
        if isinstance(count, Failure):
            count = 1  # what is wrong with the card shows when its chip is read
        places = [Place(card, number) for number in range(min(count, _MOST_CHIPS))]
        kinds = {place: self._library.number("dcmi_get_device_type", place.card, place.chip) for place in places}
        return [place for place, kind in kinds.items() if isinstance(kind, Failure) or kind == _NPU]

    def _facts(self, chips: Sequence[Chip]) -> dict[str, str]:
        driver = self._library.text("dcmi_get_driver_version")
        facts = {
            "driver": "" if isinstance(driver, Failure) else driver,
            "model": common(chip.device.model for chip in chips),
        }
        return {name: value for name, value in facts.items() if value}

    def _topology(self, chips: Sequence[Chip]) -> Topology | None:
        """The links; without any where the hardware does not report them, as the first 910."""
        if not chips:
            return None
        ids = tuple(chip.device.id for chip in chips)
        links = {(i, j): self._link(chips[i], chips[j]) for i, j in combinations(range(len(chips)), 2)}
        if all(link == UNKNOWN_LINK for link in links.values()):
            return Topology(ids)
        rows = tuple(
            tuple(SELF if i == j else links[min(i, j), max(i, j)] for j in range(len(chips))) for i in range(len(chips))
        )
        return Topology(ids, rows, rings=rings_of(rows))

    def _link(self, one: Chip, other: Chip) -> Link:
        key = (one.device.index, other.device.index)
        if key not in self._paths:
            places = (one.place.card, one.place.chip, other.place.card, other.place.chip)
            path = self._library.number("dcmi_get_topo_info_by_device_id", *places)
            if isinstance(path, Failure) or path not in _PATHS:
                return UNKNOWN_LINK
            self._paths[key] = Link(_PATHS[path])
        return self._paths[key]


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
            bytes=memory * MIB,
        ),
        tuple(facts.faults),
        _address(library, place),
        _network_fault(library, place),
    )


class _ProcessInfo(ctypes.Structure):
    """`struct dcmi_proc_mem_info`."""

    _fields_ = (("id", ctypes.c_int), ("memory", ctypes.c_ulong))  # bytes


def read_usage(library: Library, place: Place, id_: str) -> DeviceUsage:
    """The usage of the chip at a place."""
    total, used = _used_memory(library, place)
    busy = library.number("dcmi_get_device_utilization_rate", place.card, place.chip, _AI_CORE, kind=ctypes.c_uint)
    return DeviceUsage(id_, total, used, busy if isinstance(busy, int) else None, _processes(library, place))


class ChipInfo(ctypes.Structure):
    """`struct dcmi_chip_info_v2`; the older one is its beginning."""

    _fields_ = (
        ("type", ctypes.c_char * _NAME_BYTES),
        ("name", ctypes.c_char * _NAME_BYTES),
        ("version", ctypes.c_char * _NAME_BYTES),
        ("cores", ctypes.c_uint),
        ("npu_name", ctypes.c_char * _NAME_BYTES),
    )


class HbmInfo(ctypes.Structure):
    """`struct dcmi_hbm_info`."""

    _fields_ = (
        ("size", ctypes.c_ulonglong),  # MB
        ("frequency", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),  # MB
        ("temperature", ctypes.c_int),
        ("bandwidth", ctypes.c_uint),  # percent
    )


class MemoryInfo(ctypes.Structure):
    """`struct dcmi_get_memory_info_stru`, for chips without HBM."""

    _fields_ = (
        ("size", ctypes.c_ulonglong),  # MB
        ("available", ctypes.c_ulonglong),
        ("frequency", ctypes.c_uint),
        ("huge_page", ctypes.c_ulong),
        ("huge_pages", ctypes.c_ulong),
        ("huge_pages_free", ctypes.c_ulong),
        ("used_percent", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 60),
    )


class PcieInfo(ctypes.Structure):
    """`struct dcmi_pcie_info_all`."""

    _fields_ = (
        ("vendor", ctypes.c_uint),
        ("subvendor", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subdevice_id", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("function", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 32),
    )


class IpAddress(ctypes.Structure):
    """`struct dcmi_ip_addr`."""

    _fields_ = (("bytes", ctypes.c_ubyte * 16), ("type", ctypes.c_int))


class Library(CLibrary):
    """DCMI, initialised. It has no function to end the use of it."""

    driver = "dcmi"
    file = pattern = "libdcmi.so"
    folders = (
        "usr/local/dcmi",
        "usr/local/Ascend/driver/lib64/driver",
        "usr/local/Ascend/driver/lib64",
        "usr/lib64",
    )
    install = (
        "install the Ascend driver, or mount /usr/local/dcmi and /usr/local/Ascend/driver of the host in the agent's"
        " container and add /usr/local/Ascend/driver/lib64/driver to LD_LIBRARY_PATH"
    )
    integer = ctypes.c_int
    words = _WORDS
    dead = frozenset({-8007, -8008, -8009, -8010, -8011})
    unsupported = frozenset({NOT_SUPPORTED, NOT_SUPPORTED_IN_CONTAINER})

    def initialise(self) -> None:
        """Initialise the library, again if the driver was reloaded.

        Raises:
            DriverError: it can't be; the text says what to check.
        """
        failure = self.call("dcmi_init")
        if failure is not None:
            advice = _ADVICE.get(failure.code, "check that `npu-smi info` works on the node")
            raise DriverError(f"dcmi: DCMI can't be initialised ({failure}); {advice}")


def _distinct(chips: Sequence[Chip]) -> tuple[list[Chip], list[str]]:
    """The chips, each number once, and sentences about the others."""
    known: dict[str, Chip] = {}
    problems = []
    for chip in chips:
        if chip.device.id in known:
            place = f"card {chip.place.card} chip {chip.place.chip}"
            problems.append(f"{place} is left out: it has the physical id of another chip, {chip.device.index}")
        known.setdefault(chip.device.id, chip)
    return list(known.values())[:MAX_DEVICES], problems


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
    parsed = IPv6Address(raw) if address.type == _IPV6 else IPv4Address(raw[:4])
    return "" if parsed.is_unspecified else str(parsed)


def _network_fault(library: Library, place: Place) -> str:
    state = library.number("dcmi_get_device_network_health", place.card, place.chip)
    return "" if isinstance(state, Failure) else NETWORK_STATES.get(state, "")


def _used_memory(library: Library, place: Place) -> tuple[int | None, int | None]:
    """Bytes of HBM, or of DDR where the chip has no HBM, and those in use."""
    high = HbmInfo()
    failure = library.call("dcmi_get_device_hbm_info", place.card, place.chip, ctypes.byref(high))
    if failure is None and high.size:
        return int(high.size) * MIB, int(high.used) * MIB
    plain = MemoryInfo()
    failure = library.call("dcmi_get_device_memory_info_v3", place.card, place.chip, ctypes.byref(plain))
    if failure is not None or not plain.size:
        return None, None
    return int(plain.size) * MIB, int(plain.size) * min(100, int(plain.used_percent)) // 100 * MIB


def _processes(library: Library, place: Place) -> tuple[ProcessUsage, ...] | None:
    infos, count = (_ProcessInfo * _MOST_PROCESSES)(), ctypes.c_int(0)
    failure = library.call(
        "dcmi_get_device_resource_info", place.card, place.chip, ctypes.byref(infos), ctypes.byref(count)
    )
    if failure is not None:
        return None
    return tuple(ProcessUsage(one.id, int(one.memory)) for one in infos[: max(0, min(count.value, _MOST_PROCESSES))])
