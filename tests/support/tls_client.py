"""TLS contexts of clients, with a certificate of their own or without."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from linkwise.net.certificates import Certificate, new_chain, renewed_client

if TYPE_CHECKING:
    from linkwise.net.certificates import ServingChain

__all__ = ["NAMES", "chain", "client", "trusting"]

NAMES = ["localhost", "127.0.0.1"]
LIFETIME = 90 * 86_400.0


def chain(lifetime: float = LIFETIME) -> ServingChain:
    """An authority, and a serving certificate of it for this machine."""
    return new_chain(NAMES, datetime.now(UTC), lifetime)


def client(of: ServingChain, *, days_ago: float = 0.0) -> Certificate:
    """A client certificate of the authority, made so many days ago, for thirty days."""
    made = datetime.now(UTC) - timedelta(days=days_ago)
    return renewed_client(of, Certificate("", ""), "system:linkwise-scheduler", made, 30 * 86_400.0)


def trusting(authorities: str, certificate: Certificate | None = None) -> ssl.SSLContext:
    """The context of a client that trusts these authorities, and presents a certificate if it has one."""
    context = ssl.create_default_context(cadata=authorities)
    if certificate is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(certificate.key + certificate.text)
            file.flush()
            context.load_cert_chain(file.name)
    return context
