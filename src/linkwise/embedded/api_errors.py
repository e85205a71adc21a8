"""API errors: Status objects with Kubernetes' own codes, reasons and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkwise.embedded.kinds.builtin import Resource

__all__ = [
    "ApiError",
    "Cause",
    "bad_request",
    "conflict",
    "exists",
    "expired",
    "forbidden",
    "invalid",
    "no_such_path",
    "not_allowed",
    "not_found",
    "success",
    "too_large",
    "too_many",
    "unauthorized",
    "unknown_format",
]

Raw = dict[str, Any]

_REASONS = {
    "Required value": "FieldValueRequired",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Not found": "FieldValueNotFound",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One field error, as in `details.causes` of a Status."""

    field: str
    message: str
    """starts with the error type, as Kubernetes writes it: Required value, Invalid value, Forbidden ..."""

    @property
    def reason(self) -> str:
        """The machine-readable reason of the error type."""
        return next(
            (reason for prefix, reason in _REASONS.items() if self.message.startswith(prefix)), "FieldValueInvalid"
        )


@dataclass(eq=False)
class ApiError(LinkwiseError):
    """A rejected request; nothing was written."""

    code: int
    reason: str
    message: str
    details: Raw = field(default_factory=dict)
    continue_token: str = ""
    """lets a client continue an expired list at the current resourceVersion"""

    def __str__(self) -> str:
        return self.message

    def status(self) -> Raw:
        """The Status object."""
        status: Raw = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


def success(resource: Resource, name: str, uid: str, code: int = 200) -> Raw:
    """Status of a completed request that returns no object."""
    details = _details(resource, name) | ({"uid": uid} if uid else {})
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
        **({"code": code} if code != 200 else {}),
    }


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no object with this name exists."""
    return ApiError(404, "NotFound", f'{resource.group_resource} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    """404: no resource is served at this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def exists(resource: Resource, name: str) -> ApiError:
    """409: an object with this name already exists."""
    return ApiError(
        409, "AlreadyExists", f'{resource.group_resource} "{name}" already exists', _details(resource, name)
    )


def conflict(resource: Resource, name: str, why: str = "", *, subresource: str = "") -> ApiError:
    """409: the object was modified or replaced, or a precondition failed."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    target = f"{resource.group_resource}/{subresource}" if subresource else resource.group_resource
    details = _details(resource, name) | ({"kind": f"{resource.plural}/{subresource}"} if subresource else {})
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {target} "{name}": {why}', details)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: validation failed, with one cause per field."""
    messages = [f"{cause.field}: {cause.message}" for cause in causes]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    summary = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = _details(resource, name) | {
        "kind": resource.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes],
    }
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {summary}', details)


def forbidden(resource: Resource, name: str, reason: str) -> ApiError:
    """403: the request is never allowed for this object."""
    return ApiError(
        403, "Forbidden", f'{resource.group_resource} "{name}" is forbidden: {reason}', _details(resource, name)
    )


def bad_request(message: str) -> ApiError:
    """400: the request is malformed."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the requested resourceVersion is no longer in the history."""
    return ApiError(410, "Expired", message)


def not_allowed() -> ApiError:
    """405: the method is not supported for this resource."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unauthorized() -> ApiError:
    """401: missing or unknown bearer token."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def too_large(limit: int) -> ApiError:
    """413: the body exceeds the size limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unknown_format(accepted: Sequence[str]) -> ApiError:
    """415: the media type of the body is not supported."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_many(message: str, causes: Sequence[Raw] = ()) -> ApiError:
    """429: the client should retry later."""
    return ApiError(429, "TooManyRequests", message, {"causes": list(causes)} if causes else {})


def _details(resource: Resource, name: str) -> Raw:
    details = {"name": name} | ({"group": resource.group} if resource.group else {})
    return {**details, "kind": resource.plural}
