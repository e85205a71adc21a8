"""Subresources: status, scale, binding, eviction, log, token and finalize; and the bodies of writes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import (
    ApiError,
    Cause,
    bad_request,
    conflict,
    invalid,
    no_such_path,
    not_allowed,
    unknown_format,
)
from linkwise.embedded.apiserver.request import YAML, decode_body, decode_document, json_response
from linkwise.embedded.kinds.fields import reject_unknown_fields
from linkwise.embedded.kubectl.tables import at_path
from linkwise.embedded.storage.database import timestamp
from linkwise.embedded.users import service_account
from linkwise.embedded.writes.patch import APPLY, JSON_PATCH, MERGE, STRATEGIC, merge_patch
from linkwise.net.http.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.admission import Admission
    from linkwise.embedded.apiserver.request import ApiRequest, RequestPath
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store
    from linkwise.embedded.users import Tokens
    from linkwise.embedded.writes.admission import Write

__all__ = ["begin_patch", "handle_subresource", "object_response", "read_object"]

_TOKEN_SECONDS: Final = 3600.0
_CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def handle_subresource(
    store: Store, admission: Admission, tokens: Tokens, request: ApiRequest, request_path: RequestPath
) -> Response:
    """Handle a request for a subresource."""
    resource, subresource = request_path.resource, request_path.subresource
    name, namespace = request_path.name, request_path.namespace
    if resource.group_resource == "namespaces" and subresource == "finalize" and request.method == "PUT":
        return _finalize(store, request, request_path)
    if subresource not in resource.subresources:
        raise no_such_path()
    match subresource:
        case "binding" | "eviction":
            return await _bind_or_evict(store, admission, request, request_path)
        case "log":
            return _log(store, request_path)
        case "scale":
            return await _scale(store, admission, request, request_path)
        case "token":
            return _create_token(store, tokens, request, request_path)
    match request.method:
        case "GET":
            stored = store.get(resource, name, namespace)
        case "PUT" if subresource == "status":
            document = read_object(store, request, request_path)
            dry_run = request.query.get("dryRun") == "All"
            begin = partial(store.begin_replace, resource, name, namespace, document, subresource, dry_run=dry_run)
            stored = await admission.complete(begin, request.requester, request.warnings)
        case "PATCH" if subresource == "status":
            begin_status = begin_patch(store, request, request_path)
            stored, _ = await admission.complete(begin_status, request.requester, request.warnings)
        case _:
            raise not_allowed()
    return object_response(store, resource, stored)


class _ScaleSpec(msgspec.Struct):
    replicas: int = 0


class _ScaleMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Scale(msgspec.Struct):
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)
    metadata: _ScaleMeta = msgspec.field(default_factory=_ScaleMeta)


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


def _finalize(store: Store, request: ApiRequest, request_path: RequestPath) -> Response:
    document = decode_body(request.body, request.content_type or JSON)
    return object_response(
        store, request_path.resource, store.replace(request_path.resource, request_path.name, "", document)
    )


async def _bind_or_evict(
    store: Store, admission: Admission, request: ApiRequest, request_path: RequestPath
) -> Response:
    """POST to the binding or eviction subresource of a pod."""
    if request.method != "POST":
        raise not_allowed()
    document = decode_body(request.body, request.content_type or JSON)
    target = request_path.name, request_path.namespace, document
    if request_path.subresource == "binding":
        binding = partial(store.begin_bind, *target, dry_run=request.query.get("dryRun") == "All")
        await admission.complete(binding, request.requester, request.warnings)
    else:
        await admission.complete(partial(store.begin_evict, *target), request.requester, request.warnings)
    return json_response(_CREATED, 201)


def _log(store: Store, request_path: RequestPath) -> Response:
    pod = store.get(request_path.resource, request_path.name, request_path.namespace).read()
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {request_path.name} does not have a host assigned")
    container = pod["spec"]["containers"][0]["name"]
    raise bad_request(
        f'container "{container}" in pod "{request_path.name}" has no logs: containers on simulated nodes do not run'
    )


async def _scale(store: Store, admission: Admission, request: ApiRequest, request_path: RequestPath) -> Response:
    """Read or write the replicas of a workload as a Scale object."""
    old = store.get(request_path.resource, request_path.name, request_path.namespace)
    if request.method == "GET":
        return json_response(_scale_of(old))
    body: Any = decode_body(request.body, JSON)
    if request.method == "PATCH":
        body = merge_patch(_scale_of(old), body)
    elif request.method != "PUT":
        raise not_allowed()
    try:
        scale = msgspec.convert(body, _Scale)
    except msgspec.ValidationError as error:
        raise ApiError(400, "BadRequest", f"Scale: {error}") from error
    if scale.spec.replicas < 0:
        cause = Cause("spec.replicas", f"Invalid value: {scale.spec.replicas}: must be greater than or equal to 0")
        raise invalid(request_path.resource, request_path.name, [cause])
    if scale.metadata.resource_version not in {None, "", str(old.version)}:
        raise conflict(request_path.resource, request_path.name)
    change = {"spec": {"replicas": scale.spec.replicas}}
    begin = partial(store.begin_patch, request_path.resource, request_path.name, change, request_path.namespace)
    return json_response(_scale_of(await admission.complete(begin, request.requester, request.warnings)))


def _scale_of(stored: Stored) -> Raw:
    document = stored.read()
    keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = at_path(document, ".spec.selector.matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: document["metadata"][key] for key in keys if key in document["metadata"]},
        "spec": {"replicas": replicas} if (replicas := at_path(document, ".spec.replicas")) else {},
        "status": {
            "replicas": at_path(document, ".status.replicas") or 0,
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def _create_token(store: Store, tokens: Tokens, request: ApiRequest, request_path: RequestPath) -> Response:
    """POST to the token subresource of a ServiceAccount; the token is valid as long as the process runs."""
    if request.method != "POST":
        raise not_allowed()
    account = store.get(request_path.resource, request_path.name, request_path.namespace)
    body = decode_body(request.body, request.content_type or JSON)
    expiry = timestamp(store.database.clock() + _TOKEN_SECONDS)
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    token = tokens.add(service_account(account.namespace, account.name))
    status = {"token": token, "expirationTimestamp": expiry}
    return json_response(
        {**head, "metadata": body.get("metadata") or {}, "spec": body.get("spec") or {}, "status": status}, 201
    )
