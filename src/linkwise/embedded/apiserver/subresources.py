"""Parts of objects that have paths of their own: status, scale, binding, eviction, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from linkwise.embedded.api_errors import ApiError, Cause, bad_request, conflict, invalid, no_such_path, not_allowed
from linkwise.embedded.apiserver.bodies import JSON, object_of
from linkwise.embedded.apiserver.request import Whole
from linkwise.embedded.apiserver.write_requests import given_object, patch, written
from linkwise.embedded.kubectl.cells import at_path
from linkwise.embedded.writes.patch import merge_patch

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.request import Answer, Exchange
    from linkwise.embedded.apiserver.routes import Place
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["part_answer"]

_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def part_answer(store: Store, exchange: Exchange, place: Place) -> Answer:
    """What to say to a request for a part of an object."""
    resource, subresource = place.resource, place.subresource
    if resource.group_resource == "namespaces" and subresource == "finalize" and exchange.method == "PUT":
        return await _finalize(store, exchange, place)
    if subresource not in resource.subresources:
        raise no_such_path()
    match subresource:
        case "binding" | "eviction":
            return await _sent(store, exchange, place)
        case "log":
            return _log(store, place)
        case "scale":
            return await _scale(store, exchange, place)
    match exchange.method:
        case "GET":
            stored = store.get(resource, place.name, place.namespace)
        case "PUT" if subresource == "status":
            document = await given_object(store, exchange, place)
            dry = exchange.query.get("dryRun") == "All"
            stored = store.replace(resource, place.name, place.namespace, document, subresource, dry_run=dry)
        case "PATCH" if subresource == "status":
            stored, _ = await patch(store, exchange, place)
        case _:
            raise not_allowed()
    return written(store, resource, stored)


async def _sent(store: Store, exchange: Exchange, place: Place) -> Answer:
    """A pod is given to a node, or sent away."""
    if exchange.method != "POST":
        raise not_allowed()
    document = object_of(await exchange.body(), exchange.content or JSON)
    if place.subresource == "binding":
        store.bind(place.name, place.namespace, document, dry_run=exchange.query.get("dryRun") == "All")
    else:
        store.evict(place.name, place.namespace, document)
    return Whole.of(_DONE, 201)


def _log(store: Store, place: Place) -> Answer:
    pod = store.get(place.resource, place.name, place.namespace).read()
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {place.name} does not have a host assigned")
    container = pod["spec"]["containers"][0]["name"]
    raise bad_request(f'container "{container}" in pod "{place.name}" has no logs: its node is simulated')


async def _finalize(store: Store, exchange: Exchange, place: Place) -> Answer:
    document = object_of(await exchange.body(), exchange.content or JSON)
    return written(store, place.resource, store.replace(place.resource, place.name, "", document))


class _Wanted(msgspec.Struct):
    replicas: int = 0


class _ScaleMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Scale(msgspec.Struct):
    spec: _Wanted = msgspec.field(default_factory=_Wanted)
    metadata: _ScaleMeta = msgspec.field(default_factory=_ScaleMeta)


async def _scale(store: Store, exchange: Exchange, place: Place) -> Answer:
    """How many are wished for, in the same words for all kinds."""
    old = store.get(place.resource, place.name, place.namespace)
    if exchange.method == "GET":
        return Whole.of(_scale_of(old))
    given: Any = object_of(await exchange.body(), JSON)
    if exchange.method == "PATCH":
        given = merge_patch(_scale_of(old), given)
    elif exchange.method != "PUT":
        raise not_allowed()
    try:
        wanted = msgspec.convert(given, _Scale)
    except msgspec.ValidationError as error:
        raise ApiError(400, "BadRequest", f"Scale: {error}") from error
    if wanted.spec.replicas < 0:
        cause = Cause("spec.replicas", f"Invalid value: {wanted.spec.replicas}: must be greater than or equal to 0")
        raise invalid(place.resource, place.name, [cause])
    if wanted.metadata.resource_version not in {None, "", str(old.version)}:
        raise conflict(place.resource, place.name)
    change = {"spec": {"replicas": wanted.spec.replicas}}
    return Whole.of(_scale_of(store.patch(place.resource, place.name, change, place.namespace)))


def _scale_of(stored: Stored) -> Raw:
    document = stored.read()
    words = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = at_path(document, ".spec.selector.matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {word: document["metadata"][word] for word in words if word in document["metadata"]},
        "spec": {"replicas": wanted} if (wanted := at_path(document, ".spec.replicas")) else {},
        "status": {
            "replicas": at_path(document, ".status.replicas") or 0,
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }
