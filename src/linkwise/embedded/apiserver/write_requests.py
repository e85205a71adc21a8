"""Request bodies of writes: decode, check fields, and apply patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import bad_request, unknown_format
from linkwise.embedded.apiserver.bodies import YAML, decode_body, decode_document
from linkwise.embedded.kinds.fields import reject_unknown_fields
from linkwise.embedded.writes.patch import APPLY, JSON_PATCH, MERGE, STRATEGIC
from linkwise.net.http.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.apiserver.paths import RequestPath
    from linkwise.embedded.apiserver.request import ApiRequest
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store
    from linkwise.embedded.writes.admission import Write

__all__ = ["begin_patch", "object_response", "read_object"]


def begin_patch(
    store: Store, request: ApiRequest, request_path: RequestPath
) -> Callable[[], Write[tuple[Stored, bool]]]:
    """A patch of an object or subresource; completed, it returns the object and whether it was created."""
    patch_type, dry_run = request.content_type, request.query.get("dryRun") == "All"
    if patch_type not in {JSON_PATCH, MERGE, STRATEGIC, APPLY}:
        raise unknown_format((JSON_PATCH, MERGE, STRATEGIC, APPLY))
    body, subresource = request.body, request_path.subresource
    if patch_type == APPLY:
        document = decode_body(body, YAML)
        check_fields(store, request, request_path, document)
        manager = request.query.get("fieldManager", "")
        target = request_path.resource, request_path.name, request_path.namespace
        return lambda: store.begin_apply(*target, document, manager, subresource, dry_run=dry_run)
    body_patch = decode_document(body, JSON)
    if patch_type != JSON_PATCH and not isinstance(body_patch, dict):
        raise bad_request("a merge patch must be an object")
    check_fields(store, request, request_path, body_patch)
    resource, name, namespace = request_path.resource, request_path.name, request_path.namespace

    def begin() -> Write[tuple[Stored, bool]]:
        stored = yield from store.begin_patch(
            resource, name, body_patch, namespace, subresource, patch_type, dry_run=dry_run
        )
        return stored, False

    return begin


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
