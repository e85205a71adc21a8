"""Access to the API server: who sends a request, whether they may, and what admission makes of their writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import ApiError, unauthorized
from linkwise.embedded.rbac import Access, Authorizer
from linkwise.embedded.users import with_implied_groups

if TYPE_CHECKING:
    from linkwise.embedded.admission.dispatch import Admission
    from linkwise.embedded.apiserver.paths import RequestPath
    from linkwise.embedded.apiserver.request import ApiRequest
    from linkwise.embedded.storage.database import Database
    from linkwise.embedded.users import Tokens
    from linkwise.model.requester import Requester

__all__ = ["ApiAccess"]

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
