"""Messages about holds: one JSON object per line on the agent's socket, between a measurement and the agent."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import decode_as

__all__ = ["LONGEST_LINE", "HoldReply", "HoldRequest", "decode_reply", "decode_request", "encode_line"]

LONGEST_LINE: Final = 64 * 1024  # bytes
SHORTEST: Final = 1.0  # seconds
LONGEST: Final = 3600.0  # seconds
_LONGEST_REASON: Final = 200  # characters


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
