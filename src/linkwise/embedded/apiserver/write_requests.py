"""Request bodies of writes: decode, check fields, and apply patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import bad_request, unknown_format
from linkwise.embedded.apiserver.bodies import YAML, decode_body, decode_document
from linkwise.embedded.kinds.fields import reject_unknown_fields
from linkwise.embedded.writes.patch import APPLY, JSON_PATCH, MERGE, STRATEGIC
from linkwise.net.http.messages import JSON, Response

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.paths import RequestPath
    from linkwise.embedded.apiserver.request import ApiRequest
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["object_response", "patch", "read_object"]


def patch(store: Store, request: ApiRequest, request_path: RequestPath) -> tuple[Stored, bool]:
    """Patch an object or subresource; returns it and whether it was created."""
    patch_type, dry_run = request.content_type, request.query.get("dryRun") == "All"
    if patch_type not in {JSON_PATCH, MERGE, STRATEGIC, APPLY}:
        raise unknown_format((JSON_PATCH, MERGE, STRATEGIC, APPLY))
    body = request.body
    target = request_path.resource, request_path.name, request_path.namespace
    if patch_type == APPLY:
        document = decode_body(body, YAML)
        check_fields(store, request, request_path, document)
        manager = request.query.get("fieldManager", "")
        return store.apply(*target, document, manager, request_path.subresource, dry_run=dry_run)
    body_patch = decode_document(body, JSON)
    if patch_type != JSON_PATCH and not isinstance(body_patch, dict):
        raise bad_request("a merge patch must be an object")
    check_fields(store, request, request_path, body_patch)
    return store.patch(
        request_path.resource,
        request_path.name,
        body_patch,
        request_path.namespace,
        request_path.subresource,
        patch_type,
        dry_run=dry_run,
    ), False


def read_object(store: Store, request: ApiRequest, request_path: RequestPath) -> Raw:
    """Decode the object in the request body."""
    document = decode_body(request.body, request.content_type or JSON)
    check_fields(store, request, request_path, document)
    return document


def check_fields(store: Store, request: ApiRequest, request_path: RequestPath, document: object) -> None:
    """Reject unknown fields with fieldValidation=Strict."""
    if request.query.get("fieldValidation") == "Strict":
        reject_unknown_fields(store.database.kinds.served(request_path.resource), document)


def object_response(store: Store, resource: Resource, stored: Stored, code: int = 200) -> Response:
    """A response with an object."""
    return Response(store.convert(resource, stored).data, code)
