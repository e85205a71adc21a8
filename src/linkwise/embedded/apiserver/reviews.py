"""Reviews: who has a token, what a user may do, and who the client is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from linkwise.embedded.admission.review import user_info
from linkwise.embedded.api_errors import bad_request, not_allowed
from linkwise.embedded.apiserver.bodies import decode_body
from linkwise.embedded.apiserver.request import json_response
from linkwise.embedded.kinds.object_types import ApiType, without_nulls
from linkwise.embedded.rbac import Access
from linkwise.embedded.writes.validation import check_kind
from linkwise.model.requester import Requester
from linkwise.net.http.messages import JSON

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.access import ApiAccess
    from linkwise.embedded.apiserver.paths import RequestPath
    from linkwise.embedded.apiserver.request import ApiRequest
    from linkwise.embedded.storage.collection import Raw
    from linkwise.net.http.messages import Response

__all__ = ["answer_review"]


class _ResourceAttributes(ApiType, frozen=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _PathAttributes(ApiType, frozen=True):
    path: str = ""
    verb: str = ""


class _Spec(ApiType, frozen=True):
    token: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    namespace: str = ""
    resource_attributes: _ResourceAttributes | None = None
    non_resource_attributes: _PathAttributes | None = None


def answer_review(access: ApiAccess, request: ApiRequest, request_path: RequestPath) -> Response:
    """The review with its status."""
    if request.method != "POST" or request_path.name:
        raise not_allowed()
    document: Raw = without_nulls(decode_body(request.body, request.content_type or JSON))
    check_kind(request_path.resource, document)
    try:
        spec = msgspec.convert(document.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise bad_request(f"{request_path.resource.kind}: {error}") from error
    status = _status(access, request, request_path, spec)
    head = {"kind": document["kind"], "apiVersion": document["apiVersion"], "metadata": {}}
    return json_response({**head, "spec": document.get("spec") or {}, "status": status}, 201)


def _status(access: ApiAccess, request: ApiRequest, path: RequestPath, spec: _Spec) -> Raw:
    match path.resource.kind:
        case "TokenReview":
            requester = access.tokens.find(spec.token)
            if requester is None:
                return {"user": {}, "error": "invalid bearer token"}
            return {"authenticated": True, "user": user_info(requester)}
        case "SelfSubjectReview":
            return {"userInfo": user_info(request.requester)}
        case "SelfSubjectAccessReview":
            return _decision(access, request.requester, spec)
        case "SelfSubjectRulesReview":
            return _rules(access, request.requester, spec.namespace)
    if not spec.user and not spec.groups:
        raise bad_request("spec.user: at least one of user or group must be specified")
    if path.namespace and (spec.resource_attributes is None or spec.resource_attributes.namespace != path.namespace):
        raise bad_request(f"spec.resourceAttributes.namespace must match metadata.namespace: {path.namespace}")
    return _decision(access, Requester(spec.user, spec.groups), spec)


def _decision(access: ApiAccess, requester: Requester, spec: _Spec) -> Raw:
    wanted, path = spec.resource_attributes, spec.non_resource_attributes
    if (wanted is None) == (path is None):
        raise bad_request("spec: exactly one of nonResourceAttributes or resourceAttributes must be specified")
    if wanted is not None:
        question = Access(wanted.verb, wanted.group, wanted.resource, wanted.subresource, wanted.namespace, wanted.name)
    elif path is not None:
        question = Access(path.verb, path=path.path)
    reason = access.authorizer.reason(requester, question)
    if reason is None:
        return {"allowed": False}
    return {"allowed": True} | ({"reason": reason} if reason else {})


def _rules(access: ApiAccess, requester: Requester, namespace: str) -> Raw:
    rules: list[dict[str, Any]] = [
        {key: value for key, value in msgspec.to_builtins(rule).items() if value}
        for rule in access.authorizer.rules(requester, namespace)
    ]
    return {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    }
