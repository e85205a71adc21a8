"""Lease object of the election: read, watched, created and replaced, with its resourceVersion as the precondition of writes."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from linkwise.errors import ClusterError, InputError
from linkwise.kube.errors import ForbiddenError
from linkwise.kube.leader.election import LeaseSpec
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.watch_stream import status_of
from linkwise.wire.kubernetes.writes import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.kube.client.api import Answer, Connection

__all__ = ["LeaseObject", "NoNamespaceError", "whole_seconds"]

_LABELS: Final = {"app.kubernetes.io/name": "linkwise"}
_ALONE: Final = "for a single replica, set leader.enabled to false (LINKWISE_LEADER_ENABLED=false)"


class NoNamespaceError(ClusterError):
    """The namespace of the Lease does not exist."""


def whole_seconds(duration: float) -> int:
    """A lease duration as the API server stores it: not shorter."""
    return max(1, math.ceil(duration))


class LeaseObject:
    """One Lease, as this replica last read or wrote it."""

    def __init__(self, connection: Connection, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace, self._name = namespace, name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._document: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    async def read(self, wait: float) -> LeaseSpec | None:
        """The Lease as it is now; None if there is none."""
        answer = await self._connection.call("GET", f"{self._collection}/{quote(self._name, safe='')}", wait=wait)
        if answer.status == 404:
            self._document = {}
            return None
        return self._accept(answer, "get")

    async def watch(self, changed: Callable[[], None], wait: float) -> None:
        """Call `changed` whenever it was written or deleted, until the watch ends or was silent for `wait` seconds.

        Raises:
            ClusterError: it can't be watched.
        """
        selector = quote(f"metadata.name={self._name}", safe="")  # by which RBAC finds the name
        async with self._connection.stream(f"{self._collection}?watch=1&fieldSelector={selector}", wait) as stream:
            if stream.status != 200:
                raise ClusterError(f"can't watch {self}: the API server answered {stream.status}")
            loop = asyncio.get_running_loop()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait) as limit:
                    async for _ in stream.chunks():
                        changed()
                        limit.reschedule(loop.time() + wait)

    async def create(self, spec: LeaseSpec, wait: float) -> LeaseSpec | None:
        """Create it; None if another replica was faster."""
        meta = {"name": self._name, "namespace": self._namespace, "labels": _LABELS}
        document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": _fields(spec)}
        answer = await self._connection.call("POST", self._collection, encode(document), wait=wait)
        if answer.status == 409:
            return None
        if answer.status == 404:
            raise NoNamespaceError(
                f"namespace {self._namespace}, in which replicas elect their leader, does not exist; create it (kubectl create"
                f" namespace {self._namespace}), or name another with leader.namespace; {_ALONE}"
            )
        return self._accept(answer, "create")

    async def replace(self, spec: LeaseSpec, wait: float) -> LeaseSpec | None:
        """Write it as it was last read, with other fields; None if another client has changed or deleted it since."""
        document = {**self._document, "spec": {**self._document.get("spec", {}), **_fields(spec)}}
        path = f"{self._collection}/{quote(self._name, safe='')}"
        answer = await self._connection.call("PUT", path, encode(document), wait=wait)
        return None if answer.status in {404, 409} else self._accept(answer, "update")

    def _accept(self, answer: Answer, verb: str) -> LeaseSpec:
        if answer.status == 403:
            message = status_of(answer.body).message or "forbidden"
            raise ForbiddenError(f"can't {verb} {self}: {message}; `linkwise manifests rbac` prints the role; {_ALONE}")
        if answer.status not in {200, 201}:
            message = status_of(answer.body).message or f"the API server answered {answer.status}"
            raise ClusterError(f"can't {verb} {self}: {message}")
        try:
            self._document = decode_as(answer.body, dict[str, Any])
            return _spec(self._document.get("spec") or {}, str(self._document["metadata"]["resourceVersion"]))
        except (InputError, TypeError, ValueError, AttributeError, KeyError) as error:
            raise ClusterError(f"{self} can't be read: {error}") from error


def _spec(fields: dict[str, Any], version: str) -> LeaseSpec:
    return LeaseSpec(
        str(fields.get("holderIdentity") or ""),
        int(fields.get("leaseDurationSeconds") or 0),
        str(fields.get("acquireTime") or ""),
        str(fields.get("renewTime") or ""),
        int(fields.get("leaseTransitions") or 0),
        version,
    )


def _fields(spec: LeaseSpec) -> dict[str, object]:
    return {
        "holderIdentity": spec.holder,
        "leaseDurationSeconds": spec.duration,
        "acquireTime": spec.acquired,
        "renewTime": spec.renewed,
        "leaseTransitions": spec.transitions,
    }
