"""Admission webhook, assembled: its HTTPS server, the certificate that it serves, and the trust of the API server in it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from linkwise.errors import ClusterError, InputError
from linkwise.kube.webhook.ca_bundle import write_ca_bundle
from linkwise.kube.webhook.secret import WebhookSecret
from linkwise.net.certificates import Certificate, expiry, load_chain
from linkwise.net.http.health import health_routes
from linkwise.net.http.routes import Routes
from linkwise.net.http.server import Limits, Server, listen
from linkwise.serve.webhook import Webhook

if TYPE_CHECKING:
    import ssl

    from linkwise.broker.broker import Broker
    from linkwise.config.settings import WebhookSettings
    from linkwise.kube.client.api import Connection
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["WebhookServing"]

log: Final = logging.getLogger("linkwise.webhook")

CHECK_SECONDS: Final = 10.0
"""between looks at the certificate and at the webhook configurations"""
CHECKS_PER_LIFETIME: Final = 12
"""of a certificate, at least"""
LIMITS: Final = Limits(max_body=16 << 20)
"""a review has an object and the one before, of 3 MiB at most each"""


class WebhookServing:
    """The webhook of one service; `run` it until `stop`.

    Certificates are compared with the wall clock at every look, since it may jump.
    """

    def __init__(
        self, settings: WebhookSettings, connection: Connection, broker: Broker, counting: Counting, timing: Timing
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._counting = counting
        self._timing = timing
        self._namespace = settings.namespace or connection.namespace
        self._secret = WebhookSecret(connection, self._namespace, settings.secret)
        webhook = Webhook(broker, counting, settings)
        routes = Routes([*webhook.routes(), *health_routes(dict, tuple)])
        self._server = Server(routes, LIMITS)
        self._context: ssl.SSLContext | None = None
        self._served: Certificate | None = None
        self.port = 0
        """once it listens"""
        self.problems: tuple[str, ...] = ("webhook: it has no certificate yet",)
        """for an operator to look at while the service answers"""

    @property
    def names(self) -> list[str]:
        """Host names and addresses of the certificate."""
        service = f"{self._settings.service}.{self._namespace}"
        return [f"{service}.svc", f"{service}.svc.cluster.local", "localhost", "127.0.0.1", *self._settings.names]

    async def run(self) -> None:
        """Serve as soon as there is a certificate, and keep it valid and trusted."""
        listener = listen(self._settings.host, self._settings.port, "choose another with webhook.port")
        self.port = listener.getsockname()[1]
        try:
            while self._context is None:
                await self._look()
                if self._context is None:
                    await self._timing.sleep(1.0)
            self._server.tls = self._context
            log.info("webhook listens on=https://%s:%s", self._settings.host, self.port)
            keeping = asyncio.create_task(self._keep())
            try:
                await self._server.serve(listener)
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        finally:
            listener.close()

    @property
    def serving(self) -> bool:
        """Whether it has a certificate, and answers."""
        return self._context is not None

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self._server.stop()

    def abort(self) -> None:
        """Close all connections immediately."""
        self._server.abort()

    async def _keep(self) -> None:
        interval = min(CHECK_SECONDS, self._settings.certificate_lifetime / CHECKS_PER_LIFETIME)
        while True:
            await self._timing.sleep(interval)
            await self._look()

    async def _look(self) -> None:
        """Renew the certificate if it is due, repair the configurations, and serve what is new."""
        try:
            problems = await self._refresh()
        except (ClusterError, InputError) as error:
            problems = [str(error)]
        except Exception:
            log.exception("webhook: the certificate was not checked (a bug in Linkwise)")
            problems = ["the certificate was not checked; see the log"]
        current = tuple(f"webhook: {problem}" for problem in problems)
        for problem in current:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = current

    async def _refresh(self) -> list[str]:
        if self._settings.cert_file:
            certificate = _from_files(self._settings)
            self._serve(certificate)
            expires = expiry(certificate.text)
            return [f"the certificate expired at {expires.isoformat()}"] if expires <= self._now() else []
        chain = await self._secret.chain(self.names, self._now(), self._settings.certificate_lifetime)
        # First the trust, then the certificate: a new authority is known before anything of it is served.
        try:
            problems = await write_ca_bundle(self._connection, self._settings.configuration, chain.authorities)
        except ClusterError as error:
            problems = [str(error)]
        self._serve(chain.serving)
        return problems

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._timing.now(), UTC)

    def _serve(self, certificate: Certificate) -> None:
        """Serve a certificate to new connections."""
        if certificate == self._served:
            return
        if self._context is None:
            try:
                self._context = certificate.context()
            except (ValueError, OSError) as error:
                raise InputError(f"the certificate and its key can't be used: {error}") from error
        else:
            load_chain(self._context, certificate)
        self._served = certificate
        expires = expiry(certificate.text)
        self._counting.certificate(expires.timestamp())
        log.info("certificate served expires=%s", expires.isoformat())


def _from_files(settings: WebhookSettings) -> Certificate:
    try:
        texts = [Path(name).read_text("utf-8") for name in (settings.cert_file, settings.key_file)]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"webhook.cert_file and webhook.key_file can't be read: {error}") from error
    return Certificate(*texts)
