"""What the text of a tool told: whole, incomplete, or an error; nothing is filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.model.link import Link
    from linkwise.model.topology import Matrix

__all__ = ["DeviceFacts", "Reader", "Reading", "Status"]

Status = Literal["ok", "incomplete", "error", "no matrix"]
"""`no matrix`: the text was understood and tells nothing about pairs of devices"""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a tool tells of one device; an empty string or None where it tells nothing."""

    name: str
    """as the tool calls it: GPU0, NPU3"""
    uuid: str = ""
    model: str = ""
    bus_id: str = ""
    memory: int | None = None  # MiB
    memory_used: int | None = None  # MiB
    numa: str | None = None
    """as printed, a list of ranges; None: not in the text, empty: an empty cell"""
    cpus: str | None = None
    health: str = ""
    driver: str = ""
    parts: tuple[str, ...] = ()
    """ids of the parts it is divided into (MIG devices)"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One text, read. Rows and columns of the matrices belong to the devices in order."""

    kind: str
    """the tool and its table: `nvidia-smi topo -m`"""
    status: Status
    devices: tuple[str, ...] = ()
    links: tuple[tuple[Link, ...], ...] = ()
    """square; a cell that the text lacks is `?`"""
    bandwidth: Matrix = ()
    """square, GB/s from row to column; 0 where there is no value"""
    latency: Matrix = ()
    """square, microseconds"""
    rings: tuple[tuple[int, ...], ...] = ()
    nics: tuple[str, ...] = ()
    facts: tuple[DeviceFacts, ...] = ()
    problems: tuple[str, ...] = ()
    """why it is not whole; empty when it is"""
    warnings: tuple[str, ...] = ()
    """what looks odd in a whole text: a device unlike the others, directions that differ"""


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of text: how it is told from others, and how it is read."""

    kind: str
    recognises: Callable[[str], bool]
    """whether this tool wrote the (cleaned) text, or a part of it"""
    read: Callable[[str], Reading]
    """what the (cleaned) text told; never an exception, whatever the text"""
