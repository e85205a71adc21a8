"""Certificates are renewed in time, and no client ever meets one that it does not trust."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from linkwise.errors import InputError
from linkwise.net.certificates import (
    AUTHORITY_LIFETIMES,
    Certificate,
    ServingChain,
    expiry,
    new_chain,
    renewed_chain,
    renewed_client,
    self_signed,
)

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
LIFETIME = 90 * 86_400.0
NAMES = ["localhost", "127.0.0.1", "linkwise-webhook.linkwise-system.svc"]


def accepted(context: ssl.SSLContext, authorities: str, name: str = "localhost") -> bool:
    """Whether a client that trusts these authorities accepts the server at that name."""
    trust = ssl.create_default_context(cadata=authorities)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = threading.Thread(target=answer, args=(context, ours))
        server.start()
        try:
            with trust.wrap_socket(theirs, server_hostname=name) as client:
                return client.recv(2) == b"ok"
        except ssl.SSLError:
            return False
        finally:
            theirs.close()
            server.join()


def answer(context: ssl.SSLContext, ours: socket.socket) -> None:
    try:
        with context.wrap_socket(ours, server_side=True) as connection:
            connection.sendall(b"ok")
    except (ssl.SSLError, OSError):
        pass


def chain(now: datetime = NOW) -> ServingChain:
    return new_chain(NAMES, now, LIFETIME)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_accepts_every_name(name: str) -> None:
    made = chain()
    assert accepted(made.serving.context(), made.authorities, name)


def test_a_client_accepts_no_other_name_and_no_other_authority() -> None:
    made = chain()
    assert not accepted(made.serving.context(), made.authorities, "example.com")
    assert not accepted(made.serving.context(), chain().authorities)


def test_a_self_signed_certificate_is_its_own_authority() -> None:
    made = self_signed(["localhost", "127.0.0.1", "::1"])
    (known,) = ssl.create_default_context(cadata=made.text).get_ca_certs()
    assert known["issuer"] == known["subject"]
    assert accepted(made.context(), made.text)


def test_nothing_is_renewed_before_two_thirds_of_the_lifetime() -> None:
    made = chain()
    assert renewed_chain(made, NAMES, NOW + 59 * DAY, LIFETIME) is made


def test_the_serving_certificate_is_renewed_by_the_same_authority() -> None:
    made = chain()
    later = renewed_chain(made, NAMES, NOW + 60 * DAY, LIFETIME)
    assert later.authorities == made.authorities
    assert expiry(later.serving.text) == NOW + 150 * DAY


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    made = chain()
    end = NOW + timedelta(seconds=LIFETIME * AUTHORITY_LIFETIMES * 2 / 3)
    made = replace(made, serving=renewed_chain(made, NAMES, end - DAY, LIFETIME).serving)
    first = renewed_chain(made, NAMES, end, LIFETIME)
    assert first.serving == made.serving
    assert first.authorities.endswith(made.authorities)
    assert first.authorities != made.authorities
    second = renewed_chain(first, NAMES, end + 60 * DAY, LIFETIME)
    assert second.serving != made.serving
    assert second.authorities == first.authorities


def test_the_old_authority_signs_as_long_as_it_outlives_what_it_signs() -> None:
    made = chain()
    known = made.authorities
    lasts = AUTHORITY_LIFETIMES * 90
    for days in range(0, lasts - 91, 59):
        made = renewed_chain(made, NAMES, NOW + days * DAY, LIFETIME)
        assert issued(made.serving, known), f"a client that started on the first day refuses it on day {days}"
    made = renewed_chain(made, NAMES, NOW + (lasts - 1) * DAY, LIFETIME)
    assert not issued(made.serving, known)
    assert made.authorities.endswith(known)


def issued(certificate: Certificate, authority: str) -> bool:
    """Whether it is signed by this authority."""
    try:
        x509.load_pem_x509_certificate(certificate.text.encode()).verify_directly_issued_by(
            x509.load_pem_x509_certificate(authority.encode())
        )
    except InvalidSignature:
        return False
    return True


def test_a_secret_of_a_version_that_kept_one_key_is_understood() -> None:
    made = chain()
    second = chain()
    older = ServingChain(second.authorities + made.authorities, second.authority_keys, made.serving)
    renewed = renewed_chain(older, NAMES, NOW + 60 * DAY, LIFETIME)
    assert issued(renewed.serving, second.authorities)


def test_a_client_certificate_is_renewed_in_time_and_for_the_authority() -> None:
    made, none = chain(), Certificate("", "")
    first = renewed_client(made, none, "client", NOW, LIFETIME)
    assert renewed_client(made, first, "client", NOW + 59 * DAY, LIFETIME) is first
    later = renewed_client(made, first, "client", NOW + 60 * DAY, LIFETIME)
    assert expiry(later.text) == NOW + 150 * DAY
    for unusable in (made.serving, renewed_client(chain(), none, "client", NOW, LIFETIME), Certificate(first.text, "")):
        assert renewed_client(made, unusable, "client", NOW, LIFETIME) is not unusable
    assert renewed_client(made, first, "another", NOW, LIFETIME) is not first


def test_a_client_certificate_is_for_clients_only() -> None:
    made = chain()
    first = renewed_client(made, Certificate("", ""), "client", NOW, LIFETIME)
    usage = x509.load_pem_x509_certificate(first.text.encode()).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not accepted(first.context(), made.authorities)


def test_an_encrypted_key_is_an_error_and_not_a_prompt() -> None:
    made = chain().serving
    key = serialization.load_pem_private_key(made.key.encode(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret).decode()
    with pytest.raises((ssl.SSLError, ValueError)):
        Certificate(made.text, text).context()


def test_both_are_new_if_both_have_expired() -> None:
    made, late = chain(NOW - 20_000 * DAY), NOW
    renewed = renewed_chain(made, NAMES, late, LIFETIME)
    assert made.authorities not in renewed.authorities
    assert accepted(renewed.serving.context(), renewed.authorities)


def test_a_clock_that_was_ahead_and_is_right_again_leaves_nothing_that_is_not_valid_yet() -> None:
    ahead = renewed_chain(chain(), NAMES, NOW + 20_000 * DAY, LIFETIME)
    assert not accepted(ahead.serving.context(), ahead.authorities)
    right = renewed_chain(ahead, NAMES, NOW, LIFETIME)
    assert accepted(right.serving.context(), right.authorities)


def test_a_clock_that_jumps_back_and_forth_ends_with_a_certificate_that_is_accepted() -> None:
    made = chain()
    for days in (400, -400, 20_000, -20_000, 3, 0):
        made = renewed_chain(made, NAMES, NOW + days * DAY, LIFETIME)
    assert accepted(made.serving.context(), made.authorities)
    assert made.authorities.count("BEGIN CERTIFICATE") <= 4


def test_replicas_with_different_names_share_one_certificate() -> None:
    made = new_chain(["one.example"], NOW, LIFETIME)
    both = renewed_chain(made, ["two.example"], NOW, LIFETIME)
    assert renewed_chain(both, ["one.example"], NOW, LIFETIME) is both


def test_a_serving_certificate_of_another_authority_or_without_its_key_is_replaced() -> None:
    made, other = chain(), chain()
    for broken in (other.serving, Certificate(made.serving.text, other.serving.key), Certificate("", "")):
        renewed = renewed_chain(replace(made, serving=broken), NAMES, NOW, LIFETIME)
        assert accepted(renewed.serving.context(), made.authorities)


@pytest.mark.parametrize(("authorities", "key"), [("", ""), ("text", "text"), ("good", "other"), ("good", "")])
def test_an_authority_that_can_t_sign_is_an_error(authorities: str, key: str) -> None:
    made = chain()
    texts = {"good": made.authorities, "other": chain().authority_keys}
    broken = ServingChain(texts.get(authorities, authorities), texts.get(key, key), made.serving)
    with pytest.raises(InputError):
        renewed_chain(broken, NAMES, NOW, LIFETIME)


def test_a_name_that_no_certificate_can_have_is_an_error() -> None:
    with pytest.raises(InputError, match="neither a host name nor an address"):
        new_chain(["bücher.example"], NOW, LIFETIME)


def test_keys_are_not_printed() -> None:
    made = chain()
    assert "PRIVATE KEY" not in repr(made)
