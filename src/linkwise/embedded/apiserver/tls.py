"""Self-signed TLS certificate, created at each start: kubectl sends its token only over TLS.

The standard library can use certificates but not create them, so this module has the P-256 arithmetic and the ASN.1
encoding that one key and its self-signature take. The key lives as long as the process and protects loopback only.
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

__all__ = ["Certificate", "make_certificate"]

# The curve P-256: y^2 = x^3 - 3x + b over the field of p, a base point, and its order. Source: FIPS 186-4, D.1.2.3.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_BASE: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_KEY_OIDS: Final = "2a8648ce3d0201", "2a8648ce3d030107"
_SIGNATURE_OID: Final = "2a8648ce3d040302"
_COMMON_NAME_OID: Final = "550403"
_VALID_DAYS: Final = 365

Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate and its key, as PEM."""

    text: str
    key: str

    def context(self) -> ssl.SSLContext:
        """A server-side TLS context."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="linkwise-") as folder:  # the library reads nothing but files
            file = Path(folder) / "server.pem"
            file.touch(0o600)
            file.write_text(self.key + self.text)
            context.load_cert_chain(file)
        return context


def make_certificate(hosts: Sequence[str], addresses: Sequence[str], now: datetime | None = None) -> Certificate:
    """Generate a key and a certificate for these host names and addresses."""
    private_key = secrets.randbelow(_N - 1) + 1
    public = _encode_point(_multiply(private_key, _BASE))
    name = _sequence(_set(_sequence(_oid(_COMMON_NAME_OID), _text(0x0C, "linkwise embedded"))))
    not_before = (now or datetime.now(UTC)) - timedelta(hours=1)
    validity = _sequence(
        *(_text(0x17, f"{moment:%y%m%d%H%M%SZ}") for moment in (not_before, not_before + timedelta(days=_VALID_DAYS)))
    )
    key = _sequence(_sequence(*map(_oid, _KEY_OIDS)), _bits(public))
    algorithm = _sequence(_oid(_SIGNATURE_OID))
    serial = _integer(secrets.randbits(120))
    extensions = _tagged(0xA3, _sequence(*_extensions(public, hosts, addresses)))
    body = _sequence(_tagged(0xA0, _integer(2)), serial, algorithm, name, validity, name, key, extensions)
    certificate = _sequence(body, algorithm, _bits(_signature(private_key, body)))
    encoded_key = _sequence(
        _integer(1), _tagged(0x04, private_key.to_bytes(32, "big")), _tagged(0xA0, _oid(_KEY_OIDS[1]))
    )
    return Certificate(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", encoded_key))


def _extensions(public: bytes, hosts: Sequence[str], addresses: Sequence[str]) -> list[bytes]:
    key_id = hashlib.sha1(public, usedforsecurity=False).digest()
    names = [_text(0x82, host) for host in hosts]
    names += [_tagged(0x87, ipaddress.ip_address(address).packed) for address in addresses]
    true = b"\x01\x01\xff"
    return [
        _sequence(_oid("551d13"), true, _tagged(0x04, _sequence(true))),  # it is its own authority
        _sequence(_oid("551d0f"), true, _tagged(0x04, b"\x03\x02\x02\x84")),  # signs messages and certificates
        _sequence(_oid("551d25"), _tagged(0x04, _sequence(_oid("2b06010505070301")))),  # serves
        _sequence(_oid("551d0e"), _tagged(0x04, _tagged(0x04, key_id))),
        _sequence(_oid("551d23"), _tagged(0x04, _sequence(_tagged(0x80, key_id)))),
        _sequence(_oid("551d11"), _tagged(0x04, _sequence(*names))),
    ]


def _signature(private_key: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        r = _multiply(nonce, _BASE)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * private_key) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


def _multiply(scalar: int, point: Point) -> Point:
    result: Point | None = None
    while scalar:
        if scalar & 1:
            result = point if result is None else _add(result, point)
        point, scalar = _add(point, point), scalar >> 1
    if result is None:
        raise AssertionError("the scalar must not be zero")
    return result


def _add(left: Point, right: Point) -> Point:
    if left == right:
        slope = (3 * left[0] * left[0] - 3) * pow(2 * left[1], -1, _P)
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, _P)
    x = (slope * slope - left[0] - right[0]) % _P
    return x, (slope * (left[0] - x) - left[1]) % _P


def _encode_point(point: Point) -> bytes:
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
