"""Measured bandwidth as JSON: the state file of a node, which `linkwise agent measure` writes and the agent reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from linkwise.errors import InputError
from linkwise.model.measurement import Measurement
from linkwise.model.topology import whole_matrix
from linkwise.wire.decoding import check_unique, decode_as

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["decode_measurements", "encode_measurements", "measurement_document"]

_VERSION: Final = 1
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


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
