"""Secret of the webhook's certificates: created by whichever replica is first, and renewed by whichever sees it due."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from linkwise.errors import ClusterError, InputError
from linkwise.net.certificates import Certificate, ServingChain, new_chain, renewed_chain
from linkwise.wire.kubernetes.watch_stream import status_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["WebhookSecret"]

log: Final = logging.getLogger(__name__)

ATTEMPTS: Final = 4
_LABELS: Final = {"app.kubernetes.io/name": "linkwise"}


class _Secret(msgspec.Struct):
    metadata: dict[str, Any]
    data: dict[str, bytes] | None = None


class _Stored(NamedTuple):
    chain: ServingChain
    metadata: dict[str, Any]
    """as it is, so that labels and annotations of others, such as Helm's, are kept"""


class WebhookSecret:
    """The certificates of the webhook in the cluster."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._name = name
        self._collection = f"/api/v1/namespaces/{quote(namespace)}/secrets"

    async def chain(self, names: Sequence[str], now: datetime, lifetime: float) -> ServingChain:
        """The certificates to serve, created or renewed if need be; equal for all replicas.

        Raises:
            ClusterError: the Secret can't be read or written.
        """
        for _ in range(ATTEMPTS):
            stored = await self._read()
            if stored is None:
                chain = new_chain(names, now, lifetime)
                if await self._write("POST", self._collection, chain, {}):
                    log.info("certificates created secret=%s/%s", self._namespace, self._name)
                    return chain
                continue  # another replica was first: its certificates count
            try:
                chain = renewed_chain(stored.chain, names, now, lifetime)
            except InputError as error:
                log.warning("certificates replaced secret=%s/%s reason=%r", self._namespace, self._name, str(error))
                chain = new_chain(names, now, lifetime)
            if chain is stored.chain:
                return chain
            if await self._write("PUT", f"{self._collection}/{quote(self._name)}", chain, stored.metadata):
                log.info("certificates renewed secret=%s/%s", self._namespace, self._name)
                return chain
        raise ClusterError(f"Secret {self._namespace}/{self._name} was changed at the same time; trying again")

    async def _read(self) -> _Stored | None:
        answer = await self._connection.call("GET", f"{self._collection}/{quote(self._name)}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self._refused("get", answer)
        try:
            secret = msgspec.json.decode(answer.body, type=_Secret)
        except msgspec.DecodeError as error:
            raise ClusterError(f"Secret {self._namespace}/{self._name} can't be read: {error}") from error
        data = {key: value.decode("utf-8", "replace") for key, value in (secret.data or {}).items()}
        texts = [data.get(key, "") for key in ("ca.crt", "ca.key", "tls.crt", "tls.key")]
        return _Stored(ServingChain(texts[0], texts[1], Certificate(*texts[2:])), secret.metadata)

    async def _write(self, method: str, path: str, chain: ServingChain, before: Mapping[str, Any]) -> bool:
        """Create or replace the Secret; False if another replica did so in the meantime."""
        labels = {**(before.get("labels") or {}), **_LABELS}
        meta = {**before, "name": self._name, "namespace": self._namespace, "labels": labels}
        data = {
            "ca.crt": chain.authorities.encode(),
            "ca.key": chain.authority_key.encode(),
            "tls.crt": chain.serving.text.encode(),
            "tls.key": chain.serving.key.encode(),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "type": "Opaque",
            "data": data,
        }
        answer = await self._connection.call(method, path, msgspec.json.encode(document))
        if answer.status in {200, 201}:
            return True
        if answer.status in {404, 409}:
            return False
        raise self._refused("create" if method == "POST" else "update", answer)

    def _refused(self, verb: str, answer: Answer) -> ClusterError:
        message = status_of(answer.body).message or f"the API server answered {answer.status}"
        return ClusterError(f"can't {verb} Secret {self._namespace}/{self._name}: {message}")
