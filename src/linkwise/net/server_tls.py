"""TLS of a server: a certificate that can be replaced while it listens, client certificates, and failed handshakes.

A client certificate is optional: one that is presented must be valid and of a trusted authority, or the handshake fails. What
is served without one is for the application to decide.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from linkwise.errors import InputError
from linkwise.net.certificates import self_signed

if TYPE_CHECKING:
    from linkwise.net.certificates import Certificate

__all__ = ["BAD_CERTIFICATE", "PROTOCOL", "UNTRUSTED_SERVER", "HandshakeFailed", "ServerTls"]

BAD_CERTIFICATE: Final = "bad_certificate"
"""the certificate of the client has expired, is of another authority, or is not for clients"""
UNTRUSTED_SERVER: Final = "untrusted_server"
"""the client refused the certificate of the server"""
PROTOCOL: Final = "protocol"
"""what the client sent is not TLS, or of a version that is not supported"""

HandshakeFailed = Callable[[str, str], None]
"""takes one of the reasons above, and what the library says"""


class ServerTls:
    """Certificate and trusted authorities of a server, replaced together, for connections that are accepted from then on.

    Until the first `replace` the server has a certificate that no client trusts, so that probes are answered, which do not
    verify it.
    """

    def __init__(self, failed: HandshakeFailed = lambda *_: None) -> None:
        self._failed = failed
        self._context: Final = _CurrentContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.current = self._made(self_signed(["localhost"]), "")

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a listening server."""
        return self._context

    def replace(self, certificate: Certificate, client_authorities: str = "") -> None:
        """Serve this certificate, and accept client certificates of these authorities, PEM; without any, none.

        Raises:
            InputError: they can't be used; the ones before stay.
        """
        try:
            self._context.current = self._made(certificate, client_authorities)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise InputError(f"the certificate and its key can't be used: {error}") from error

    def _made(self, certificate: Certificate, client_authorities: str) -> ssl.SSLContext:
        context = certificate.context(_ReportingContext)
        cast("_ReportingContext", context).failed = self._failed
        if client_authorities:
            # A connection that is resumed is not verified again and would outlive the certificate of its client. Without
            # tickets that is impossible in TLS 1.3; for TLS 1.2 the library can't turn it off.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: intermediate authorities can be trusted
            context.load_verify_locations(cadata=client_authorities)
        return context


class _CurrentContext(ssl.SSLContext):
    """Passes every new connection to the current context.

    A context can add authorities but not remove one, and event loops keep the context that a server is started with.
    """

    current: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - as in the class above
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """A connection with the current certificate."""
        return self.current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


class _Connection(ssl.SSLObject):
    """Reports a handshake that fails: event loops close such a connection before the application sees it."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            cast("_ReportingContext", self.context).failed(*_why(error))
            raise


class _ReportingContext(ssl.SSLContext):
    sslobject_class = _Connection
    failed: HandshakeFailed


def _why(error: ssl.SSLError) -> tuple[str, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        return BAD_CERTIFICATE, error.verify_message
    reason = error.reason or str(error)
    return UNTRUSTED_SERVER if "ALERT" in reason else PROTOCOL, reason.lower().replace("_", " ")
