"""TLS certificates: an authority, the certificates it signs, and when each is renewed.

Clients that trust the old authority must not meet a certificate of an unknown one, and kube-scheduler reads the authorities
only when it starts. So a new authority is added to those that are trusted after two thirds of the old one's lifetime, and
signs only when the old one ends before the certificate would: with the default lifetimes three years later.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from linkwise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

__all__ = [
    "Certificate",
    "Described",
    "ServingChain",
    "describe",
    "expiry",
    "is_issued",
    "new_chain",
    "renewed_chain",
    "renewed_client",
    "self_signed",
]

BACKDATED: Final = timedelta(hours=1)
"""how long before it was made a certificate is valid: clocks of other machines may be behind"""
RENEWED_AFTER: Final = 2 / 3
"""of its lifetime"""
AUTHORITY_LIFETIMES: Final = 40
"""lifetime of an authority, in those of its serving certificates"""
MAX_AUTHORITIES: Final = 4
"""that are trusted at a time"""
YEAR: Final = 365 * 86_400.0  # seconds
_LONGEST: Final = datetime(9999, 12, 31, tzinfo=UTC)  # years in certificates have four digits
_MAX_NAME: Final = 253
_MAX_COMMON: Final = 64  # characters of a common name
_KEY_ERRORS: Final = (ValueError, TypeError, x509.InvalidVersion)
_SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
_CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, as PEM."""

    text: str
    key: str = field(repr=False)

    def context(self, kind: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext:
        """A new server-side TLS context."""
        context = kind(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with _as_file(self) as file:
            context.load_cert_chain(file, password=lambda: "")  # an encrypted key is an error, not a prompt
        return context


@dataclass(frozen=True, slots=True)
class ServingChain:
    """A serving certificate, the authorities that clients shall trust, and the keys of those that may still sign."""

    authorities: str
    """PEM, the newest first"""
    authority_keys: str = field(repr=False)
    """PEM, in any order"""
    serving: Certificate


def self_signed(names: Iterable[str], now: datetime | None = None, lifetime: float = YEAR) -> Certificate:
    """A certificate for host names and addresses that is its own authority."""
    return _serving(names, now or datetime.now(UTC), lifetime, None)


def new_chain(names: Iterable[str], now: datetime, lifetime: float) -> ServingChain:
    """A new authority and a serving certificate for these host names and addresses.

    Args:
        names: host names and addresses
        now: by the wall clock
        lifetime: of the serving certificate, in seconds
    """
    authority = _authority(now, lifetime)
    return ServingChain(authority.text, authority.key, _serving(names, now, lifetime, authority))


def renewed_chain(chain: ServingChain, names: Iterable[str], now: datetime, lifetime: float) -> ServingChain:
    """The chain with whatever is due renewed; the same one if nothing is.

    Due is what reached two thirds of its lifetime, what is not valid yet because a clock was set back, and what is broken,
    of another authority, or not for these names. Names that the certificate has already are kept: replicas with different
    names share it.

    Raises:
        InputError: the newest authority and its key are unusable; `new_chain` replaces them.
    """
    authorities = _split(chain.authorities)
    if _is_due(_key_pairs(chain)[0].text, now):
        newer = _authority(now, lifetime)
        valid = [text for text in authorities if _valid(text, now)][: MAX_AUTHORITIES - 1]
        keys = [pair.key for pair in _key_pairs(chain) if pair.text in valid]
        chain = ServingChain("".join([newer.text, *valid]), "".join([newer.key, *keys]), chain.serving)
        if _serves(chain, names, now):
            return chain  # until clients trust the new authority
    if _serves(chain, names, now) and not _is_due(chain.serving.text, now):
        return chain
    wanted = {*names, *_names_of(chain.serving.text)}
    return replace(chain, serving=_serving(wanted, now, lifetime, _signer(chain, now, lifetime)))


def renewed_client(chain: ServingChain, client: Certificate, name: str, now: datetime, lifetime: float) -> Certificate:
    """A certificate by which clients of that common name authenticate; the same one if it is neither due nor broken."""
    try:
        usable = _is_trusted(chain, client, now) and not _is_due(client.text, now) and _authenticates(client, name)
    except InputError:
        usable = False
    return client if usable else _client(name, now, lifetime, _signer(chain, now, lifetime))


def expiry(text: str) -> datetime:
    """When a certificate expires; InputError if it can't be read."""
    return _parsed(text).not_valid_after_utc


@dataclass(frozen=True, slots=True)
class Described:
    """What a certificate says of itself."""

    begins: datetime
    ends: datetime
    names: frozenset[str]


def describe(bundle: str) -> list[Described]:
    """All certificates of a bundle that can be read."""
    try:
        texts = _split(bundle)
    except InputError:
        return []
    parsed = [(_parsed(text), _names_of(text)) for text in texts]
    return [Described(one.not_valid_before_utc, one.not_valid_after_utc, frozenset(names)) for one, names in parsed]


def is_issued(serving: str, bundle: str) -> bool:
    """Whether an authority of the bundle issued the certificate, or the bundle holds the certificate itself."""
    try:
        certificate, authorities = _parsed(serving), _split(bundle)
    except InputError:
        return False
    return any(_issued(certificate, each) or _parsed(each) == certificate for each in authorities)


def _authority(now: datetime, lifetime: float) -> Certificate:
    """An authority, by the lifetime of what it signs."""
    return _make("linkwise-ca", now, AUTHORITY_LIFETIMES * lifetime)


def _serving(names: Iterable[str], now: datetime, lifetime: float, issuer: Certificate | None) -> Certificate:
    wanted = sorted(set(names))
    extensions = (x509.ExtendedKeyUsage([_SERVER]), x509.SubjectAlternativeName(map(_general_name, wanted)))
    return _make(wanted[0], now, lifetime, issuer, extensions)


def _client(name: str, now: datetime, lifetime: float, issuer: Certificate) -> Certificate:
    return _make(name, now, lifetime, issuer, (x509.ExtendedKeyUsage([_CLIENT]),))


def _make(
    name: str,
    now: datetime,
    lifetime: float,
    issuer: Certificate | None = None,
    extensions: Iterable[x509.ExtensionType] = (),
) -> Certificate:
    """Create a key and its certificate, signed by the issuer; without one it is an authority and signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_COMMON])])
    signing = _private_key(issuer.key) if issuer else key
    authority = issuer is None
    now = now.replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_parsed(issuer.text).subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(min(now + timedelta(seconds=lifetime), _LONGEST))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_usage(authority=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signing, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise InputError(f"{name[:_MAX_NAME]!r} is neither a host name nor an address") from error


def _serves(chain: ServingChain, names: Iterable[str], now: datetime) -> bool:
    """Whether clients that trust the authorities accept the serving certificate now, for all of the names."""
    return _is_trusted(chain, chain.serving, now) and {*names} <= _names_of(chain.serving.text)


def _is_trusted(chain: ServingChain, pair: Certificate, now: datetime) -> bool:
    """Whether peers that trust the authorities accept a certificate now."""
    try:
        certificate = _parsed(pair.text)
        _check_pair(pair)
    except InputError:
        return False
    issuers = [text for text in _split(chain.authorities) if _valid(text, now) and _issued(certificate, text)]
    return _valid(pair.text, now) and bool(issuers)


def _authenticates(client: Certificate, name: str) -> bool:
    """Whether servers accept it from a client of that name."""
    certificate = _parsed(client.text)
    common = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return common == [name] and _CLIENT in usage


def _signer(chain: ServingChain, now: datetime, lifetime: float) -> Certificate:
    """The oldest authority that outlives what it signs, since most clients know it; the newest if none does."""
    pairs, end = _key_pairs(chain), now + timedelta(seconds=lifetime)
    lasting = [pair for pair in pairs if _valid(pair.text, now) and expiry(pair.text) >= end]
    return lasting[-1] if lasting else pairs[0]


def _key_pairs(chain: ServingChain) -> list[Certificate]:
    """The authorities whose key is known, the newest first; InputError if that of the newest is not."""
    keys = {_public_bytes(_private_key(text).public_key()): text for text in _parts(chain.authority_keys, _END_KEY)}
    authorities = _split(chain.authorities)
    known = [(text, keys.get(_public_bytes(_parsed(text).public_key()))) for text in authorities]
    if known[0][1] is None:
        raise InputError("the private key is not that of the certificate")
    return [Certificate(text, key) for text, key in known if key is not None]


def _public_bytes(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _issued(certificate: x509.Certificate, authority: str) -> bool:
    try:
        certificate.verify_directly_issued_by(_parsed(authority))
    except Exception:  # noqa: BLE001 - the library raises several unrelated errors for a signature that does not match
        return False
    return True


def _is_due(text: str, now: datetime) -> bool:
    certificate = _parsed(text)
    made = certificate.not_valid_before_utc + BACKDATED
    return not _valid(text, now) or now >= made + (certificate.not_valid_after_utc - made) * RENEWED_AFTER


def _valid(text: str, now: datetime) -> bool:
    certificate = _parsed(text)
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _names_of(text: str) -> set[str]:
    try:
        names = _parsed(text).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InputError, x509.ExtensionNotFound, ValueError):
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _check_pair(pair: Certificate) -> None:
    if _private_key(pair.key).public_key() != _parsed(pair.text).public_key():
        raise InputError("the private key is not that of the certificate")


def _parsed(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except _KEY_ERRORS as error:
        raise InputError("not a certificate in PEM format") from error


def _private_key(text: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except _KEY_ERRORS as error:
        raise InputError("not a private key in PEM format") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("not a private key of an elliptic curve")
    return key


_END: Final = "-----END CERTIFICATE-----\n"
_END_KEY: Final = "-----END PRIVATE KEY-----\n"


def _split(bundle: str) -> list[str]:
    """The certificates of a bundle that can be read; InputError if there is none."""
    blocks = []
    for part in _parts(bundle, _END):
        try:
            _parsed(part)
        except InputError:
            continue
        blocks.append(part)
    if not blocks:
        raise InputError("no certificate in PEM format")
    return blocks


def _parts(bundle: str, end: str) -> list[str]:
    return [part + end for part in bundle.split(end) if part.strip()]


@contextmanager
def _as_file(certificate: Certificate) -> Iterator[str]:
    """The certificate and its key in a file: the library reads nothing else. In memory where the system can."""
    content = (certificate.key + certificate.text).encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("linkwise-certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory(prefix="linkwise-") as folder:
        file = Path(folder) / "server.pem"
        file.touch(0o600)
        file.write_bytes(content)
        yield str(file)
