"""Access to the API server: who sends a request, what they may do, and the reviews that tell clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.admission import user_info
from linkwise.embedded.api_errors import ApiError, bad_request, not_allowed, unauthorized
from linkwise.embedded.apiserver.request import decode_body, json_response
from linkwise.embedded.kinds.object_types import ApiType, without_nulls
from linkwise.embedded.rbac import Access, Authorizer
from linkwise.embedded.users import with_implied_groups
from linkwise.embedded.writes.validation import check_kind
from linkwise.model.access_policy import Requester
from linkwise.net.http.messages import JSON

if TYPE_CHECKING:
    from linkwise.embedded.admission import Admission
    from linkwise.embedded.apiserver.request import ApiRequest, RequestPath
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.users import Tokens
    from linkwise.net.http.messages import Response

__all__ = ["ApiAccess", "answer_review"]

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


@dataclass(slots=True)
class ApiAccess:
    """Authentication by token, authorization by RBAC, and admission."""

    database: Database
    tokens: Tokens
    admission: Admission
    authorizer: Authorizer = field(init=False)

    def __post_init__(self) -> None:
        self.authorizer = Authorizer(self.database)

    def authenticate(self, request: ApiRequest) -> Requester:
        """The user of a request, or the one whom it impersonates; ApiError 401 without a known token."""
        scheme, _, token = request.header("authorization").partition(" ")
        requester = self.tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        if requester is None:
            raise unauthorized()
        user, group = request.header("impersonate-user"), request.header("impersonate-group")
        if not user:
            return requester
        self._check(requester, Access("impersonate", resource="users", name=user))
        if group:
            self._check(requester, Access("impersonate", resource="groups", name=group))
        return with_implied_groups(user, (group,) if group else ())

    def authorize(self, request: ApiRequest, path: RequestPath) -> None:
        """ApiError 403 if the user may not do this."""
        resource, verb = path.resource, _VERBS.get(request.method, request.method.lower())
        if request.is_watch:
            verb = "watch"
        elif not path.name:
            verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        namespace = path.name if resource.group_resource == "namespaces" else path.namespace
        self._check(
            request.requester, Access(verb, resource.group, resource.plural, path.subresource, namespace, path.name)
        )

    def authorize_proxy(self, request: ApiRequest, namespace: str, name: str) -> None:
        """ApiError 403 if the user may not send this request through the service proxy."""
        verb = _VERBS.get(request.method, request.method.lower())
        self._check(request.requester, Access(verb, "", "services", "proxy", namespace, name))

    def authorize_path(self, request: ApiRequest, path: str) -> None:
        """ApiError 403 if the user may not read a path that is not a resource."""
        if request.requester.user != "system:anonymous":
            verb = _VERBS.get(request.method, request.method.lower())
            self._check(request.requester, Access(verb, path=path))

    def _check(self, requester: Requester, access: Access) -> None:
        if not self.authorizer.allows(requester, access):
            raise _forbidden(requester, access)


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


def _forbidden(requester: Requester, access: Access) -> ApiError:
    if access.path:
        message = f'forbidden: User "{requester.user}" cannot {access.verb} path "{access.path}"'
        return ApiError(403, "Forbidden", message)
    plural = f"{access.resource}.{access.group}" if access.group else access.resource
    target = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    subject = f'{plural} "{access.name}"' if access.name else plural
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    action = f'cannot {access.verb} resource "{target}" in API group "{access.group}" {where}'
    details = {"name": access.name} if access.name else {}
    details |= {"group": access.group} if access.group else {}
    message = f'{subject} is forbidden: User "{requester.user}" {action}'
    return ApiError(403, "Forbidden", message, {**details, "kind": access.resource})


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
