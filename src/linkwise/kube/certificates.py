"""Certificates kept in Secrets: created by the first replica, renewed when due, and trusted by webhooks.

A Secret that does not exist is applied empty and then filled like one that an installation contains. RBAC can permit
server-side apply to create objects of certain names only, and a POST to create none or all. An apply without data
takes nothing away from a replica that was faster.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.kube.client.objects import APPLY, MANAGER
from linkwise.net.certificates import Certificate, ServingChain, new_chain, renewed_chain, renewed_client
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["CertificateSecrets", "write_ca_bundle"]

log: Final = logging.getLogger(__name__)

ATTEMPTS: Final = 4  # each fails only if another replica has just written, and that one needs no second write
_LABELS: Final = {"app.kubernetes.io/name": "linkwise"}

Data = dict[str, str]
"""the texts of a Secret by key"""
PATCH: Final = "application/json-patch+json"
_ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class CertificateSecrets:
    """The certificates of one server and of its clients in the cluster."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._collection = f"/api/v1/namespaces/{quote(namespace)}/secrets"

    async def chain(self, secret: str, names: Sequence[str], now: datetime, lifetime: float) -> ServingChain:
        """The certificates to serve, created or renewed if need be; equal for all replicas.

        Raises:
            ClusterError: the Secret can't be read or written.
        """

        def wanted(stored: Data) -> Data:
            before = _chain(stored)
            try:
                chain = renewed_chain(before, names, now, lifetime)
            except InputError as error:
                if stored:
                    log.warning("certificates replaced secret=%s/%s reason=%r", self._namespace, secret, str(error))
                chain = new_chain(names, now, lifetime)
            return stored if chain is before else _data(chain.serving, chain.authorities, chain.authority_keys)

        return _chain(await self._ensured(secret, wanted))

    async def client(self, secret: str, chain: ServingChain, name: str, now: datetime, lifetime: float) -> Certificate:
        """The certificate of clients with that common name, and the authorities that they shall trust beside it.

        Raises:
            ClusterError: the Secret can't be read or written.
        """

        def wanted(stored: Data) -> Data:
            client = renewed_client(chain, _pair(stored), name, now, lifetime)
            return _data(client, chain.authorities)

        return _pair(await self._ensured(secret, wanted))

    async def _ensured(self, name: str, wanted: Callable[[Data], Data]) -> Data:
        """The data of a Secret, after it was brought to what is wanted of it."""
        for _ in range(ATTEMPTS):
            stored = await self._read(name)
            if stored is None:
                await self._apply_empty(name)
                continue
            data = wanted(stored.data)
            if data == stored.data:
                return data
            if await self._replace(name, data, stored):
                log.info("certificates %s secret=%s/%s", "renewed" if stored.data else "created", self._namespace, name)
                return data
            # Another replica was first: its certificates count.
        raise ClusterError(f"Secret {self._namespace}/{name} was changed at the same time; trying again")

    async def _read(self, name: str) -> _Stored | None:
        answer = await self._connection.call("GET", f"{self._collection}/{quote(name)}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._refused("get", name, answer)
        try:
            secret = msgspec.json.decode(answer.body, type=_Secret)
        except msgspec.DecodeError as error:
            raise ClusterError(f"Secret {self._namespace}/{name} can't be read: {error}") from error
        data = {key: value.decode("utf-8", "replace") for key, value in (secret.data or {}).items()}
        return _Stored(data, secret.metadata, secret.type)

    async def _apply_empty(self, name: str) -> None:
        """Create a Secret without data, unless somebody did so in the meantime."""
        meta = {"name": name, "namespace": self._namespace, "labels": _LABELS}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque"}
        path = f"{self._collection}/{quote(name)}?fieldManager={MANAGER}"
        answer = await self._connection.call("PATCH", path, msgspec.json.encode(document), APPLY)
        if answer.status not in {200, 201, 409}:
            raise self._refused("create", name, answer)

    async def _replace(self, name: str, data: Data, stored: _Stored) -> bool:
        """Write the data of a Secret; False if it was changed or deleted in the meantime."""
        labels = {**(stored.metadata.get("labels") or {}), **_LABELS}
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**stored.metadata, "labels": labels},
            "type": stored.type,  # the API server refuses to change it
            "data": {key: text.encode() for key, text in data.items()},
        }
        answer = await self._connection.call("PUT", f"{self._collection}/{quote(name)}", msgspec.json.encode(document))
        if answer.status == 200:
            return True
        if answer.status in {404, 409}:
            return False
        raise self._refused("update", name, answer)

    def _refused(self, verb: str, name: str, answer: Answer) -> ClusterError:
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        return ClusterError(f"can't {verb} Secret {self._namespace}/{name}: {message}")


class _Secret(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, bytes] | None = None
    type: str = "Opaque"


class _Stored(NamedTuple):
    data: Data
    metadata: dict[str, Any]
    """as it is, so that labels and annotations of others, such as Helm's, are kept"""
    type: str


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


def _chain(data: Mapping[str, str]) -> ServingChain:
    return ServingChain(data.get("ca.crt", ""), data.get("ca.key", ""), _pair(data))


def _pair(data: Mapping[str, str]) -> Certificate:
    return Certificate(data.get("tls.crt", ""), data.get("tls.key", ""))


def _data(pair: Certificate, authorities: str, authority_keys: str = "") -> Data:
    keys = {"ca.key": authority_keys} if authority_keys else {}
    return {"ca.crt": authorities, **keys, "tls.crt": pair.text, "tls.key": pair.key}


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
