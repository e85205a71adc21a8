"""Driver for Ascend NPUs through DCMI.

The library is initialised once and read once per discovery. A dead chip degrades itself only; see `known_devices` for
chips that are no longer reported.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from linkwise.drivers.dcmi.chips import Chip, Place, read_chip
from linkwise.drivers.dcmi.library import Library
from linkwise.drivers.dcmi.usage import read_usage
from linkwise.drivers.device_facts import Failure, common
from linkwise.drivers.host_files import HOST, chip_addresses
from linkwise.drivers.known_devices import KnownDevices, Unreadable
from linkwise.errors import DriverError
from linkwise.model.discovery import Discovery
from linkwise.model.driver import Driver
from linkwise.model.link import SELF, UNKNOWN_LINK, Link
from linkwise.model.topology import MAX_DEVICES, Topology
from linkwise.model.usage import UsageReading
from linkwise.vendors.ascend.chips import chip_name
from linkwise.vendors.ascend.topo import rings_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["DcmiDriver"]

_MOST_CARDS: Final = 64
_MOST_CHIPS: Final = 16
"""of one card"""
_NPU: Final = 0
"""DCMI_UNIT_TYPE_NPU; others are the management controller and the CPU of a card"""
# The numbers are not in the order of bandwidth.
_PATHS: Final = {1: "SYS", 2: "PHB", 3: "HCCS", 4: "PXB", 5: "PIX"}


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
        found = Discovery(
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
        whole = self._known.complete(found, unreadable)
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
