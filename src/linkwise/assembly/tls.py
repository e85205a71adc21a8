"""TLS of the extender, assembled: a certificate from a Secret or files, kept valid, and the callers that it refuses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.errors import ClusterError, InputError
from linkwise.kube.certificates import CertificateSecrets
from linkwise.kube.client.api import is_loopback
from linkwise.kube.client.kubeconfig import own_namespace
from linkwise.net.certificates import Certificate, expiry
from linkwise.net.server_tls import ServerTls
from linkwise.serve.strangers import Strangers

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from linkwise.config.settings import ServeSettings, TlsSettings
    from linkwise.kube.client.api import Connection
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["CLIENT_NAME", "CertificateKeeper", "ExtenderTls", "Found", "Look", "open_port_warning", "read_file"]

CLIENT_NAME: Final = "system:linkwise-scheduler"
"""common name of the client certificate, for logs of other programs: the service accepts any name"""
log: Final = logging.getLogger(__name__)
CHECK_SECONDS: Final = 10.0
"""between looks at the certificate"""
CHECKS_PER_LIFETIME: Final = 12
"""of a certificate, at least"""
RETRY_SECONDS: Final = 1.0
"""between looks until there is a certificate"""


class ExtenderTls:
    """The certificates of the port that schedulers call; `run` it beside the server."""

    def __init__(self, settings: TlsSettings, connection: Connection, counting: Counting, timing: Timing) -> None:
        self._settings = settings
        self._counting = counting
        self._namespace = settings.namespace or own_namespace()
        self._secrets = CertificateSecrets(connection, self._namespace)
        self.strangers: Final = Strangers(counting, timing)
        """callers without a certificate"""
        self._tls = ServerTls(self.strangers.handshake_failed)
        find, lifetime = (
            (self._from_files if settings.cert_file else self._from_secrets),
            settings.certificate_lifetime,
        )
        self._keeper = CertificateKeeper("tls", self._tls, find, lifetime, timing, counting.serving_certificate)

    @property
    def context(self) -> ssl.SSLContext:
        """For the server; until the certificates are loaded it trusts no client, and none trusts it."""
        return self._tls.context

    @property
    def names(self) -> list[str]:
        """Host names and addresses of the serving certificate."""
        service = f"{self._settings.service}.{self._namespace}"
        own = [self._settings.service, service, f"{service}.svc", f"{service}.svc.cluster.local"]
        return [*own, "localhost", "127.0.0.1", *self._settings.names]

    @property
    def not_ready(self) -> Mapping[str, str]:
        """What the service waits for before it is ready."""
        return {} if self._keeper.loaded else {"tls": "; ".join(self._keeper.problems).replace("tls: ", "")}

    @property
    def problems(self) -> tuple[str, ...]:
        """For an operator to look at while the service answers."""
        return self._keeper.problems

    async def run(self) -> None:
        """Keep the certificates valid."""
        await self._keeper.run()

    async def _from_secrets(self, now: datetime) -> Found:
        settings, secrets, lifetime = self._settings, self._secrets, self._settings.certificate_lifetime
        chain = await secrets.chain(settings.secret, self.names, now, lifetime)
        client = await secrets.client(settings.client_secret, chain, CLIENT_NAME, now, lifetime)
        self._counting.client_certificate(expiry(client.text).timestamp())
        return Found(chain.serving, chain.authorities)

    async def _from_files(self, now: datetime) -> Found:
        del now
        settings = self._settings
        pair = Certificate(read_file("tls.cert_file", settings.cert_file), read_file("tls.key_file", settings.key_file))
        return Found(pair, read_file("tls.client_ca_file", settings.client_ca_file))


def open_port_warning(settings: ServeSettings) -> str:
    """What is dangerous about a port that other machines reach without TLS; empty if there is none."""
    host, port = settings.http.host, settings.http.port
    if settings.tls.enabled or is_loopback(host):
        return ""
    return f"anyone who reaches {host}:{port} can bind pods: set tls.enabled, or restrict access by a NetworkPolicy"


class Found(NamedTuple):
    """What a look found."""

    serving: Certificate
    client_authorities: str = ""
    """PEM, of the client certificates to accept"""
    problems: tuple[str, ...] = ()


Look = Callable[[datetime], Awaitable[Found]]
"""finds what to serve at that time, created or renewed if need be; raises ClusterError or InputError"""


class CertificateKeeper:
    """Keeps the certificate of one server.

    Certificates are compared with the wall clock at every look, since it may jump.

    Args:
        subject: which server it is, for logs and problems.
        tls: of the server.
        look: finds the certificate.
        lifetime: of the certificates, in seconds; they are looked at several times in it.
        timing: time and sleep.
        served: called with the time of expiry, in seconds since the epoch, of each certificate that is served.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - its parts
        self,
        subject: str,
        tls: ServerTls,
        look: Look,
        lifetime: float,
        timing: Timing,
        served: Callable[[float], None],
    ) -> None:
        self._subject, self._tls, self._find, self._timing, self._report = subject, tls, look, timing, served
        self._interval = min(CHECK_SECONDS, lifetime / CHECKS_PER_LIFETIME)
        self._served: tuple[Certificate, str] | None = None
        self.problems: tuple[str, ...] = (f"{subject}: it has no certificate yet",)
        """for an operator to look at"""

    @property
    def loaded(self) -> bool:
        """Whether there is a certificate to serve."""
        return self._served is not None

    async def run(self) -> None:
        """Look at the certificate until cancelled."""
        while True:
            await self.look()
            await self._timing.sleep(self._interval if self.loaded else RETRY_SECONDS)

    async def look(self) -> None:
        """Find the certificate, and serve it if it is new."""
        try:
            problems = await self._refresh()
        except (ClusterError, InputError) as error:
            problems = [str(error)]
        except Exception:
            log.exception("%s: the certificate was not checked (a bug in Linkwise)", self._subject)
            problems = ["the certificate was not checked; see the log"]
        current = tuple(f"{self._subject}: {problem}" for problem in problems)
        for problem in current:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = current

    async def _refresh(self) -> list[str]:
        now = datetime.fromtimestamp(self._timing.now(), UTC)
        certificate = await self._find(now)
        is_new = self._served != (certificate.serving, certificate.client_authorities)
        if is_new:
            self._tls.replace(certificate.serving, certificate.client_authorities)
            self._served = (certificate.serving, certificate.client_authorities)
        expires = expiry(certificate.serving.text)
        if is_new:
            self._report(expires.timestamp())
            log.info("certificate served by=%s expires=%s", self._subject, expires.isoformat())
        expired = [f"the certificate expired at {expires.isoformat()}"] if expires <= now else []
        return [*certificate.problems, *expired]


def read_file(setting: str, name: str) -> str:
    """The text of a file that a setting names."""
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{setting} can't be read: {error}") from error
