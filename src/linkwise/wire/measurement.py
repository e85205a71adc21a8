"""Measurements as JSON: the state file of a node, and the messages about holds between a measurement and the agent.

One JSON object per line is sent on the agent's socket.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from linkwise.errors import InputError
from linkwise.model.inventory import Measurement
from linkwise.model.topology import whole_matrix
from linkwise.wire.decoding import check_unique, decode_as

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "LONGEST_LINE",
    "HoldReply",
    "HoldRequest",
    "decode_measurements",
    "decode_reply",
    "decode_request",
    "encode_line",
    "encode_measurements",
    "measurement_document",
]

_VERSION: Final = 1
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
LONGEST_LINE: Final = 64 * 1024  # bytes
SHORTEST: Final = 1.0  # seconds
LONGEST: Final = 3600.0  # seconds
_LONGEST_REASON: Final = 200  # characters


class _Measurement(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    time: str
    devices: list[str]
    bandwidth: list[list[float]]
    suspects: list[list[str]] = []
    warnings: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    measurements: list[_Measurement]


def decode_measurements(data: bytes) -> tuple[Measurement, ...]:
    """The measurements of a state file, the newest first; InputError names what is invalid."""
    file = decode_as(data, _File)
    if file.version != _VERSION:
        raise InputError(f"version is {file.version}; only version {_VERSION} is known")
    return tuple(_measurement(each, f"measurements[{number}]") for number, each in enumerate(file.measurements))


def encode_measurements(measurements: Iterable[Measurement]) -> bytes:
    """The state file."""
    document = {"version": _VERSION, "measurements": [measurement_document(each) for each in measurements]}
    return msgspec.json.encode(document) + b"\n"


def measurement_document(measurement: Measurement) -> dict[str, object]:
    """One measurement as JSON values; suspect pairs are named by UUID."""
    ids = measurement.devices
    return {
        "tool": measurement.tool,
        "time": datetime.fromtimestamp(measurement.time, UTC).strftime(_TIME),
        "devices": list(ids),
        "bandwidth": [list(row) for row in measurement.bandwidth],
        "suspects": [[ids[i], ids[j]] for i, j in measurement.suspects],
        "warnings": list(measurement.warnings),
    }


class HoldRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A request to hold devices, which lasts as long as the connection is open, and at most that time."""

    seconds: float
    reason: str
    devices: list[str] = []
    """UUIDs; all idle ones if empty"""
    dry_run: bool = False
    """whether to answer only which devices are idle"""


class HoldReply(msgspec.Struct, rename="camel"):
    """An answer of the agent."""

    state: Literal["waiting", "held", "idle", "refused", "revoked"]
    """waiting: more follows. held: the devices may be used. revoked: they must be left, and the connection closed"""
    sentence: str = ""
    devices: list[str] = []


def decode_request(line: bytes) -> HoldRequest:
    """The request of a line; InputError names what is invalid."""
    request = decode_as(line, HoldRequest)
    if not SHORTEST <= request.seconds <= LONGEST:
        raise InputError(f"seconds: {request.seconds:g} is not between {SHORTEST:g} and {LONGEST:g}")
    if not request.reason or not request.reason.isprintable() or len(request.reason) > _LONGEST_REASON:
        raise InputError(f"reason: printable text of up to {_LONGEST_REASON} characters is expected")
    return request


def decode_reply(line: bytes) -> HoldReply:
    """The answer of a line; InputError names what is invalid."""
    return decode_as(line, HoldReply)


def encode_line(message: HoldRequest | HoldReply) -> bytes:
    """The message with the end of its line."""
    return msgspec.json.encode(message) + b"\n"


def _measurement(read: _Measurement, place: str) -> Measurement:
    check_unique(read.devices, f"{place}.devices", "device")
    wrong = [text for text in (read.tool, *read.devices, *read.warnings) if not text or not text.isprintable()]
    if wrong:
        raise InputError(f"{place}: {wrong[0][:60]!r} is not printable text")
    places = {device: number for number, device in enumerate(read.devices)}
    try:
        suspects = tuple((places[a], places[b]) for a, b in read.suspects)
        time = datetime.fromisoformat(read.time).timestamp()
    except (KeyError, ValueError, OverflowError) as error:
        raise InputError(f"{place}: suspects must be pairs of its devices, and time a timestamp") from error
    bandwidth = whole_matrix(read.bandwidth, f"{place}.bandwidth", len(read.devices))
    return Measurement(read.tool, time, tuple(read.devices), bandwidth, suspects, tuple(read.warnings))
