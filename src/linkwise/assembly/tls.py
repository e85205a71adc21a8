"""TLS of the extender, assembled: its certificates in Secrets or files, and the callers that it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.assembly.certificate_keeper import CertificateKeeper, Found, read_file
from linkwise.kube.certificates.secrets import CertificateSecrets
from linkwise.kube.client.api import is_loopback
from linkwise.kube.client.kubeconfig import own_namespace
from linkwise.net.certificates import Certificate, expiry
from linkwise.net.server_tls import ServerTls
from linkwise.serve.strangers import Strangers

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from datetime import datetime

    from linkwise.config.settings import ServeSettings, TlsSettings
    from linkwise.kube.client.api import Connection
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["CLIENT_NAME", "ExtenderTls", "open_port_warning"]

CLIENT_NAME: Final = "system:linkwise-scheduler"
"""common name of the client certificate, for logs of other programs: the service accepts any name"""


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
