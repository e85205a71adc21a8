"""Admission webhook, assembled: its HTTPS server, the certificate that it serves, and the trust of the API server in it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from linkwise.assembly.tls import RETRY_SECONDS, CertificateKeeper, Found, read_file
from linkwise.errors import ClusterError
from linkwise.kube.certificates import CertificateSecrets, write_ca_bundle
from linkwise.kube.client.kubeconfig import own_namespace
from linkwise.net.certificates import Certificate
from linkwise.net.http.budget import Budget
from linkwise.net.http.routes import Routes, health_routes
from linkwise.net.http.server import Limits, Server, listen
from linkwise.net.server_tls import ServerTls
from linkwise.serve.webhook import Webhook

if TYPE_CHECKING:
    from datetime import datetime

    from linkwise.broker.broker import Broker
    from linkwise.config.settings import WebhookSettings
    from linkwise.kube.client.api import Connection
    from linkwise.net.timing import Timing
    from linkwise.serve.metrics import Counting

__all__ = ["WebhookServing"]

log: Final = logging.getLogger("linkwise.webhook")

LIMITS: Final = Limits(max_body=16 << 20)
"""a review has an object and the one before, of 3 MiB at most each"""


class WebhookServing:
    """The webhook of one service; `run` it until `stop`."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        settings: WebhookSettings,
        connection: Connection,
        broker: Broker,
        counting: Counting,
        timing: Timing,
        *,
        budget: Budget | None = None,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._timing = timing
        self._namespace = settings.namespace or own_namespace()
        self._secrets = CertificateSecrets(connection, self._namespace)
        webhook = Webhook(broker, counting, settings, timing)
        routes = Routes([*webhook.routes(), *health_routes(dict, tuple)])
        tls = ServerTls()
        self._server = Server(routes, LIMITS, tls.context, budget or Budget())
        lifetime = settings.certificate_lifetime
        self._keeper = CertificateKeeper("webhook", tls, self._find, lifetime, timing, counting.certificate)
        self.port = 0
        """once it listens"""

    @property
    def names(self) -> list[str]:
        """Host names and addresses of the certificate."""
        service = f"{self._settings.service}.{self._namespace}"
        return [f"{service}.svc", f"{service}.svc.cluster.local", "localhost", "127.0.0.1", *self._settings.names]

    @property
    def problems(self) -> tuple[str, ...]:
        """For an operator to look at while the service answers."""
        return self._keeper.problems

    async def run(self) -> None:
        """Serve as soon as there is a certificate, and keep it valid and trusted."""
        listener = listen(self._settings.host, self._settings.port, "choose another with webhook.port")
        self.port = listener.getsockname()[1]
        try:
            while not self.serving:
                await self._keeper.look()
                if not self.serving:
                    await self._timing.sleep(RETRY_SECONDS)
            log.info("webhook listens on=https://%s:%s", self._settings.host, self.port)
            keeping = asyncio.create_task(self._keeper.run())
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
        return self._keeper.loaded

    def stop(self) -> None:
        """Answer the requests in flight, then stop."""
        self._server.stop()

    def abort(self) -> None:
        """Close all connections immediately."""
        self._server.abort()

    async def _find(self, now: datetime) -> Found:
        """The certificate of the settings' files or of the Secret, after the configurations were repaired."""
        settings = self._settings
        if settings.cert_file:
            return Found(
                Certificate(
                    read_file("webhook.cert_file", settings.cert_file),
                    read_file("webhook.key_file", settings.key_file),
                )
            )
        chain = await self._secrets.chain(settings.secret, self.names, now, settings.certificate_lifetime)
        # First the trust, then the certificate: a new authority is known before anything of it is served.
        try:
            problems = await write_ca_bundle(self._connection, settings.configuration, chain.authorities)
        except ClusterError as error:
            problems = [str(error)]
        return Found(chain.serving, problems=tuple(problems))
