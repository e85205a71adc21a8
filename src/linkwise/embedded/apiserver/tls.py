"""A certificate for one start of the server: kubectl sends its token to nobody who does not show one.

The standard library can use certificates but not make them, so the few lines of arithmetic and of ASN.1 that a key on the
curve P-256 and its own signature take stand here. The key lives as long as the process and guards the loopback only.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import secrets
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Certificate", "certify"]

# The curve P-256: y^2 = x^3 - 3x + b over the field of p, a base point, and its order. Source: FIPS 186-4, D.1.2.3.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_ON_CURVE: Final = "2a8648ce3d0201", "2a8648ce3d030107"
_SIGNED: Final = "2a8648ce3d040302"
_COMMON_NAME: Final = "550403"
_DAYS: Final = 365

Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that vouches for itself, and its key, as PEM."""

    text: str
    key: str

    def context(self) -> ssl.SSLContext:
        """What a server shows to its clients."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="linkwise-") as folder:  # the library reads nothing but files
            file = Path(folder) / "server.pem"
            file.touch(0o600)
            file.write_text(self.key + self.text)
            made.load_cert_chain(file)
        return made


def certify(hosts: Sequence[str], addresses: Sequence[str], now: datetime | None = None) -> Certificate:
    """A new key, and a certificate of it for these names and addresses."""
    number = secrets.randbelow(_N - 1) + 1
    public = _point(_times(number, _BASE))
    name = _sequence(_set(_sequence(_oid(_COMMON_NAME), _text(0x0C, "linkwise embedded"))))
    begin = (now or datetime.now(UTC)) - timedelta(hours=1)
    valid = _sequence(*(_text(0x17, f"{at:%y%m%d%H%M%SZ}") for at in (begin, begin + timedelta(days=_DAYS))))
    key = _sequence(_sequence(*map(_oid, _ON_CURVE)), _bits(public))
    algorithm = _sequence(_oid(_SIGNED))
    serial = _integer(secrets.randbits(120))
    extensions = _tagged(0xA3, _sequence(*_extensions(public, hosts, addresses)))
    body = _sequence(_tagged(0xA0, _integer(2)), serial, algorithm, name, valid, name, key, extensions)
    whole = _sequence(body, algorithm, _bits(_signature(number, body)))
    secret = _sequence(_integer(1), _tagged(0x04, number.to_bytes(32, "big")), _tagged(0xA0, _oid(_ON_CURVE[1])))
    return Certificate(_pem("CERTIFICATE", whole), _pem("EC PRIVATE KEY", secret))


def _extensions(public: bytes, hosts: Sequence[str], addresses: Sequence[str]) -> list[bytes]:
    print_of_key = hashlib.sha1(public, usedforsecurity=False).digest()
    names = [_text(0x82, host) for host in hosts]
    names += [_tagged(0x87, ipaddress.ip_address(address).packed) for address in addresses]
    yes = b"\x01\x01\xff"
    return [
        _sequence(_oid("551d13"), yes, _tagged(0x04, _sequence(yes))),  # it is its own authority
        _sequence(_oid("551d0f"), yes, _tagged(0x04, b"\x03\x02\x02\x84")),  # signs messages and certificates
        _sequence(_oid("551d25"), _tagged(0x04, _sequence(_oid("2b06010505070301")))),  # serves
        _sequence(_oid("551d0e"), _tagged(0x04, _tagged(0x04, print_of_key))),
        _sequence(_oid("551d23"), _tagged(0x04, _sequence(_tagged(0x80, print_of_key)))),
        _sequence(_oid("551d11"), _tagged(0x04, _sequence(*names))),
    ]


def _signature(number: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        once = secrets.randbelow(_N - 1) + 1
        first = _times(once, _BASE)[0] % _N
        second = pow(once, -1, _N) * (digest + first * number) % _N
        if first and second:
            return _sequence(_integer(first), _integer(second))


def _times(number: int, point: Point) -> Point:
    found: Point | None = None
    while number:
        if number & 1:
            found = point if found is None else _sum(found, point)
        point, number = _sum(point, point), number >> 1
    if found is None:
        raise AssertionError("zero times a point is none")
    return found


def _sum(one: Point, other: Point) -> Point:
    if one == other:
        slope = (3 * one[0] * one[0] - 3) * pow(2 * one[1], -1, _P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, _P)
    first = (slope * slope - one[0] - other[0]) % _P
    return first, (slope * (one[0] - first) - one[1]) % _P


def _point(point: Point) -> bytes:
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _set(part: bytes) -> bytes:
    return _tagged(0x31, part)


def _oid(content: str) -> bytes:
    return _tagged(0x06, bytes.fromhex(content))


def _text(tag: int, text: str) -> bytes:
    return _tagged(tag, text.encode("ascii"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + content)


def _integer(number: int) -> bytes:
    return _tagged(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _pem(kind: str, content: bytes) -> str:
    encoded = base64.b64encode(content).decode("ascii")
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
