"""Protobuf decoding of request bodies into the equivalent JSON.

Typed Go clients, and kubectl for some commands (`create namespace`, `drain`), send protobuf without negotiation. Responses are
always JSON, which those clients accept.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.embedded.storage.collection import Raw

__all__ = ["INLINE", "PROTOBUF", "decode_object", "is_message", "messages"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
INLINE: Final = frozenset(
    {
        *("volumeSource", "handler", "localObjectReference", "ephemeralContainerCommon", "persistentVolumeSource"),
        "deviceConfiguration",
    }
)
"""messages that JSON inlines into their parent"""
_MAX_DEPTH: Final = 60

MessageFields = dict[int, tuple[str, str]]


def decode_object(body: bytes) -> Raw:
    """Decode the object in a body; ApiError 400 if it is malformed or of an unknown kind."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix 107 56 115 0")
    try:
        envelope = dict(_wire_fields(body[len(_MAGIC) :]))
        type_meta = {number: _as_bytes(value).decode() for number, value in _wire_fields(_as_bytes(envelope[1]))}
        kind = type_meta.get(2, "")
        fields = messages().get(kind)
        if fields is None:
            raise bad_request(f'no kind "{kind}" is registered for protobuf; send JSON instead')
        document = _message(fields, _as_bytes(envelope.get(2, b"")), 0)
    except (ValueError, IndexError, KeyError, TypeError, struct.error, OverflowError) as error:
        raise bad_request(f"couldn't decode the protobuf message: {error}") from error
    return {"apiVersion": type_meta.get(1, ""), "kind": kind, **document}


@cache
def messages() -> dict[str, MessageFields]:
    """The fields of all known messages, by field number."""
    text = resources.files(__package__).joinpath("protobuf.txt").read_text("utf-8")
    table: dict[str, MessageFields] = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name != "#":
            entries = (field.replace("=", ":").split(":") for field in fields)
            table[name] = {int(number): (field_name, kind) for field_name, number, kind in entries}
    return table


def is_message(kind: str) -> bool:
    """Whether a type is a message."""
    return kind in messages()


def _wire_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and undecoded values of a message."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        number, kind = head >> 3, head & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
            yield number, data[at : at + size]
            at += size
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected end of message")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"unsupported wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (2**64 - 1), at
        if shift > 63:
            raise ValueError("varint overflow")


def _message(fields: MessageFields, data: bytes, depth: int) -> Raw:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    document: Raw = {}
    for number, raw in _wire_fields(data):
        if number not in fields:
            continue
        field_name, kind = fields[number]
        if kind.startswith("*"):
            document.setdefault(field_name, []).append(_value(kind[1:], raw, depth))
        elif kind.startswith("{"):
            key, value = _entry(kind[1:-1], _as_bytes(raw), depth)
            document.setdefault(field_name, {})[key] = value
        elif field_name in INLINE:
            document |= _value(kind, raw, depth)
        elif (value := _value(kind, raw, depth)) or kind not in _OMIT_EMPTY:
            document[field_name] = value
    return document


def _entry(kind: str, data: bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_wire_fields(data))
    return _as_bytes(parts.get(1, b"")).decode(), _value(kind, parts.get(2, b""), depth)


def _value(kind: str, raw: int | bytes, depth: int) -> Any:  # noqa: ANN401 - JSON
    read = _SCALARS.get(kind)
    return read(raw) if read is not None else _message(messages()[kind], _as_bytes(raw), depth + 1)


def _as_bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ValueError("expected bytes, got a number")  # noqa: TRY004 - the body is wrong
    return raw


def _signed(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        raise ValueError("expected a number, got bytes")  # noqa: TRY004 - the body is wrong
    return raw - 2**64 if raw >= 2**63 else raw


def _time(raw: int | bytes) -> str | None:
    parts = dict(_wire_fields(_as_bytes(raw)))
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts or seconds < 0:
        return None
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if nanos else f"{text}Z"


def _quantity(raw: int | bytes) -> str:
    return _as_bytes(dict(_wire_fields(_as_bytes(raw))).get(1, b"0")).decode()


def _int_or_string(raw: int | bytes) -> int | str:
    parts = dict(_wire_fields(_as_bytes(raw)))
    return _as_bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))


def _raw_json(raw: int | bytes) -> Any:  # noqa: ANN401 - JSON
    return msgspec.json.decode(_as_bytes(dict(_wire_fields(_as_bytes(raw))).get(1, b"null")))


def _double(raw: int | bytes) -> float:
    return float(struct.unpack("<d", _as_bytes(raw))[0])


_SCALARS: Final[dict[str, Callable[[int | bytes], Any]]] = {
    "s": lambda raw: _as_bytes(raw).decode(),
    "i": _signed,
    "b": bool,
    "y": lambda raw: base64.b64encode(_as_bytes(raw)).decode("ascii"),
    "d": _double,
    "Time": _time,
    "MicroTime": _time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _raw_json,
    "RawExtension": _raw_json,
}
_OMIT_EMPTY: Final = frozenset({"s", "Time", "MicroTime"})
"""types that Go sends even if empty, and that JSON omits"""
