"""Objects that Go clients send as protobuf, read as the JSON that they would be; answers are JSON, which they read as well.

`kubectl create namespace` and its like, drain and every typed client write so, and do not ask whether it is understood.
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

__all__ = ["INLINE", "PROTOBUF", "is_message", "messages", "object_in"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
INLINE: Final = frozenset(
    {"volumeSource", "handler", "localObjectReference", "ephemeralContainerCommon", "persistentVolumeSource"}
)
"""messages whose fields stand in JSON beside those of the message around them"""
_DEEPEST: Final = 60

Fields = dict[int, tuple[str, str]]


def object_in(body: bytes) -> Raw:
    """The object in a body; RefusedError if it is broken or of a kind that is not known."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix 107 56 115 0")
    try:
        outer = dict(_wire(body[len(_MAGIC) :]))
        about = {number: _as_bytes(value).decode() for number, value in _wire(_as_bytes(outer[1]))}
        kind = about.get(2, "")
        fields = messages().get(kind)
        if fields is None:
            raise bad_request(f'the kind "{kind}" can only be sent as JSON')
        found = _message(fields, _as_bytes(outer.get(2, b"")), 0)
    except (ValueError, IndexError, KeyError, TypeError, struct.error, OverflowError) as error:
        raise bad_request(f"the body is no protobuf message: {error}") from error
    return {"apiVersion": about.get(1, ""), "kind": kind, **found}


@cache
def messages() -> dict[str, Fields]:
    """The fields of all messages that are known, by their numbers."""
    text = resources.files(__package__).joinpath("protobuf.txt").read_text("utf-8")
    found: dict[str, Fields] = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name != "#":
            entries = (field.replace("=", ":").split(":") for field in fields)
            found[name] = {int(number): (word, kind) for word, number, kind in entries}
    return found


def is_message(kind: str) -> bool:
    """Whether a type has fields of its own."""
    return kind in messages()


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and values as they are on the wire."""
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
                raise ValueError("a field is longer than the message")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found & (2**64 - 1), at
        if shift > 63:
            raise ValueError("a number is too long")


def _message(fields: Fields, data: bytes, depth: int) -> Raw:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    found: Raw = {}
    for number, raw in _wire(data):
        if number not in fields:
            continue
        word, kind = fields[number]
        if kind.startswith("*"):
            found.setdefault(word, []).append(_value(kind[1:], raw, depth))
        elif kind.startswith("{"):
            key, value = _entry(kind[1:-1], _as_bytes(raw), depth)
            found.setdefault(word, {})[key] = value
        elif word in INLINE:
            found |= _value(kind, raw, depth)
        elif (value := _value(kind, raw, depth)) or kind not in _TEXTS:
            found[word] = value
    return found


def _entry(kind: str, data: bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_wire(data))
    return _as_bytes(parts.get(1, b"")).decode(), _value(kind, parts.get(2, b""), depth)


def _value(kind: str, raw: int | bytes, depth: int) -> Any:  # noqa: ANN401 - JSON
    read = _SCALARS.get(kind)
    return read(raw) if read is not None else _message(messages()[kind], _as_bytes(raw), depth + 1)


def _as_bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ValueError("a number where bytes are expected")  # noqa: TRY004 - the body is wrong
    return raw


def _signed(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        raise ValueError("bytes where a number is expected")  # noqa: TRY004 - the body is wrong
    return raw - 2**64 if raw >= 2**63 else raw


def _time(raw: int | bytes) -> str | None:
    parts = dict(_wire(_as_bytes(raw)))
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts or seconds < 0:
        return None
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if nanos else f"{text}Z"


def _quantity(raw: int | bytes) -> str:
    return _as_bytes(dict(_wire(_as_bytes(raw))).get(1, b"0")).decode()


def _either(raw: int | bytes) -> int | str:
    parts = dict(_wire(_as_bytes(raw)))
    return _as_bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))


def _embedded(raw: int | bytes) -> Any:  # noqa: ANN401 - JSON
    return msgspec.json.decode(_as_bytes(dict(_wire(_as_bytes(raw))).get(1, b"null")))


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
    "IntOrString": _either,
    "FieldsV1": _embedded,
    "RawExtension": _embedded,
}
_TEXTS: Final = frozenset({"s", "Time", "MicroTime"})
"""what Go writes also where it is empty, and JSON does not"""
