"""Trust of the API server in the webhook: the `caBundle` of its configurations, written and repaired."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from linkwise.kube.client.api import Connection

__all__ = ["write_ca_bundle"]

log: Final = logging.getLogger(__name__)

PATCH: Final = "application/json-patch+json"
_ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class _Client(msgspec.Struct, rename="camel"):
    ca_bundle: bytes | None = None


class _Webhook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _Client = msgspec.field(default_factory=_Client)


class _Configuration(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


async def write_ca_bundle(connection: Connection, name: str, authorities: str) -> list[str]:
    """Write the authorities into both configurations of that name where they differ; returns what could not be written.

    Raises:
        ClusterError: the API server did not answer.
    """
    problems = []
    for kind in _KINDS:
        path = f"{_ROOT}/{kind}/{quote(name)}"
        answer = await connection.call("GET", path)
        if answer.status == 404:
            problems.append(f"{kind}/{name} does not exist; `linkwise manifests webhook` prints it")
            continue
        if answer.status == 200:
            operations = _operations(answer.body, authorities.encode())
            if not operations:
                continue
            answer = await connection.call("PATCH", path, msgspec.json.encode(operations), PATCH)
            if answer.status == 200:
                log.info("caBundle written %s=%s", kind, name)
                continue
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        problems.append(f"the authority of the webhook is not in {kind}/{name}: {message}")
    return problems


def _operations(body: bytes, authorities: bytes) -> list[dict[str, object]]:
    try:
        webhooks = msgspec.json.decode(body, type=_Configuration).webhooks or []
    except msgspec.DecodeError as error:
        raise ClusterError(f"the webhook configuration can't be read: {error}") from error
    operations: list[dict[str, object]] = []
    for place, webhook in enumerate(webhooks):
        if webhook.client_config.ca_bundle != authorities:
            at = f"/webhooks/{place}"
            # The list may change between the read and this write; then the patch fails, and the next one is right.
            operations.append({"op": "test", "path": f"{at}/name", "value": webhook.name})
            operations.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": authorities})
    return operations
