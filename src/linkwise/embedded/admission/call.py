"""Calls of webhooks: the address of each, one connection pool per address, and failures in Kubernetes' words."""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from linkwise.embedded.service_addresses import NoAddressError, service_address
from linkwise.errors import ClusterError, LinkwiseError
from linkwise.net.http.client import Http, NotSentError, Origin, SlowError

if TYPE_CHECKING:
    from linkwise.embedded.admission.webhooks import Webhook
    from linkwise.embedded.storage.database import Database

__all__ = ["CallFailedError", "WebhookCalls"]

_HEADERS: Final = b"Content-Type: application/json\r\nAccept: application/json\r\n"


class CallFailedError(LinkwiseError):
    """A webhook could not be called, or did not answer with 200."""


class WebhookCalls:
    """Calls webhooks; keeps connections between calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pools: dict[tuple[str, int, str, str], Http] = {}

    async def call(self, webhook: Webhook, review: bytes) -> bytes:
        """Send an AdmissionReview; CallFailedError with the reason if there is no response in time."""
        url, http = self._destination(webhook)
        seconds = webhook.timeout_seconds
        parts = urlsplit(url)
        query = f"{parts.query}&" if parts.query else ""
        path = f"{parts.path or '/'}?{query}timeout={seconds}s"
        sent = f'failed to call webhook: Post "{parts.scheme}://{parts.netloc}{path}"'
        try:
            answer = await http.call("POST", path, _HEADERS, review, seconds, repeatable=True)
        except SlowError as error:
            raise CallFailedError(f"{sent}: context deadline exceeded") from error
        except NotSentError as error:
            raise CallFailedError(f"{sent}: {_connect_failure(http.origin, error)}") from error
        except ClusterError as error:
            raise CallFailedError(f"{sent}: EOF") from error
        if answer.status != 200:
            text = answer.body.decode("utf-8", "replace").strip()
            raise CallFailedError(f"failed to call webhook: {_refusal(answer.status, text)}")
        return answer.body

    async def close(self) -> None:
        """Close all connections."""
        pools, self._pools = self._pools, {}
        for http in pools.values():
            await http.close()

    def _destination(self, webhook: Webhook) -> tuple[str, Http]:
        config = webhook.client_config
        if config.service is None:
            parts = urlsplit(config.url)
            host, name = parts.hostname or "", ""
            port = parts.port or 443
            url = config.url
        else:
            service = config.service
            name = f"{service.name}.{service.namespace}.svc"
            try:
                host, port = service_address(self._database, service.namespace, service.name, str(service.port))
            except NoAddressError as error:
                raise CallFailedError(f"failed to call webhook: {error}") from error
            url = f"https://{name}:{service.port}/{service.path.removeprefix('/')}"
        key = host, port, name, config.ca_bundle
        if key not in self._pools:
            self._pools[key] = Http(Origin(host, port, tls=_trust(config.ca_bundle), tls_name=name))
        return url, self._pools[key]


def _trust(ca_bundle: str) -> ssl.SSLContext:
    """Trust in the authorities of a caBundle; in those of this system if it is empty."""
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode("ascii") if ca_bundle else None)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise CallFailedError(f"unable to load root certificates: {error}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go does not ask for key identifiers
    return context


def _connect_failure(origin: Origin, error: NotSentError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {cause.verify_message}"
    if isinstance(cause, ConnectionRefusedError):
        return f"dial tcp {origin.authority}: connect: connection refused"
    if isinstance(cause, TimeoutError):
        return f"dial tcp {origin.authority}: i/o timeout"
    return f"dial tcp {origin.authority}: {cause or error}"


def _refusal(status: int, text: str) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    return f"an error on the server ({text!r}) has prevented the request from succeeding" if status >= 500 else text
