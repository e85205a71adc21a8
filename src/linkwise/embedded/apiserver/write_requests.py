"""Request bodies of writes: decode, check fields, and apply patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import bad_request, unknown_format
from linkwise.embedded.apiserver.bodies import JSON, YAML, decode_body, decode_document
from linkwise.embedded.apiserver.request import FullResponse
from linkwise.embedded.kinds.fields import reject_unknown_fields
from linkwise.embedded.writes.patch import APPLY, JSON_PATCH, MERGE, STRATEGIC

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.paths import RequestPath
    from linkwise.embedded.apiserver.request import Exchange
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["object_response", "patch", "read_object"]


async def patch(store: Store, exchange: Exchange, request_path: RequestPath) -> tuple[Stored, bool]:
    """Patch an object or subresource; returns it and whether it was created."""
    patch_type, dry_run = exchange.content_type, exchange.query.get("dryRun") == "All"
    if patch_type not in {JSON_PATCH, MERGE, STRATEGIC, APPLY}:
        raise unknown_format((JSON_PATCH, MERGE, STRATEGIC, APPLY))
    body = await exchange.body()
    target = request_path.resource, request_path.name, request_path.namespace
    if patch_type == APPLY:
        document = decode_body(body, YAML)
        check_fields(store, exchange, request_path, document)
        manager = exchange.query.get("fieldManager", "")
        return store.apply(*target, document, manager, request_path.subresource, dry_run=dry_run)
    body_patch = decode_document(body, JSON)
    if patch_type != JSON_PATCH and not isinstance(body_patch, dict):
        raise bad_request("a merge patch must be an object")
    check_fields(store, exchange, request_path, body_patch)
    return store.patch(
        request_path.resource,
        request_path.name,
        body_patch,
        request_path.namespace,
        request_path.subresource,
        patch_type,
        dry_run=dry_run,
    ), False


async def read_object(store: Store, exchange: Exchange, request_path: RequestPath) -> Raw:
    """Decode the object in the request body."""
    document = decode_body(await exchange.body(), exchange.content_type or JSON)
    check_fields(store, exchange, request_path, document)
    return document


def check_fields(store: Store, exchange: Exchange, request_path: RequestPath, document: object) -> None:
    """Reject unknown fields with fieldValidation=Strict."""
    if exchange.query.get("fieldValidation") == "Strict":
        reject_unknown_fields(store.database.kinds.served(request_path.resource), document)


def object_response(store: Store, resource: Resource, stored: Stored, code: int = 200) -> FullResponse:
    """A response with an object."""
    return FullResponse(store.convert(resource, stored).data, code)
