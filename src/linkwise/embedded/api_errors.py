"""What the API server says when it does not do what it was asked: Status objects as every client knows them."""

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
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with an object."""

    field: str
    message: str
    """begins as Kubernetes begins it: Required value, Invalid value, Forbidden ..."""

    @property
    def reason(self) -> str:
        """The word for programs."""
        return next((word for begin, word in _REASONS.items() if self.message.startswith(begin)), "FieldValueInvalid")


@dataclass(eq=False)
class ApiError(LinkwiseError):
    """A request that is not carried out; nothing was written."""

    code: int
    reason: str
    message: str
    details: Raw = field(default_factory=dict)
    rest: str = ""
    """a token by which a list may go on all the same"""

    def __str__(self) -> str:
        return self.message

    def status(self) -> Raw:
        """The Status object."""
        found: Raw = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.rest} if self.rest else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            found["details"] = self.details
        return found


def success(resource: Resource, name: str, uid: str, code: int = 200) -> Raw:
    """The Status of what was done and has nothing to show."""
    details = _about(resource, name) | ({"uid": uid} if uid else {})
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
        **({"code": code} if code != 200 else {}),
    }


def not_found(resource: Resource, name: str) -> ApiError:
    """There is no object of that name."""
    return ApiError(404, "NotFound", f'{resource.full} "{name}" not found', _about(resource, name))


def no_such_path() -> ApiError:
    """Nothing is served there."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def exists(resource: Resource, name: str) -> ApiError:
    """An object of that name is there already."""
    return ApiError(409, "AlreadyExists", f'{resource.full} "{name}" already exists', _about(resource, name))


def conflict(resource: Resource, name: str, why: str = "", *, part: str = "") -> ApiError:
    """The object is another one, or is different, by now."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    what = f"{resource.full}/{part}" if part else resource.full
    details = _about(resource, name) | ({"kind": f"{resource.plural}/{part}"} if part else {})
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}', details)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> ApiError:
    """The object makes no sense."""
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = _about(resource, name) | {
        "kind": resource.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes],
    }
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """What is asked for is never allowed as things are."""
    return ApiError(403, "Forbidden", f'{resource.full} "{name}" is forbidden: {why}', _about(resource, name))


def bad_request(message: str) -> ApiError:
    """The request makes no sense."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """The version that was asked for is not known any more."""
    return ApiError(410, "Expired", message)


def not_allowed() -> ApiError:
    """The method means nothing there."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unauthorized() -> ApiError:
    """Nobody knows who asks."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def too_large(limit: int) -> ApiError:
    """The body is longer than any object may be."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unknown_format(known: Sequence[str]) -> ApiError:
    """The body is in words that nobody understands."""
    what = f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
    return ApiError(415, "UnsupportedMediaType", what)


def too_many(message: str, causes: Sequence[Raw] = ()) -> ApiError:
    """Not now."""
    return ApiError(429, "TooManyRequests", message, {"causes": list(causes)} if causes else {})


def _about(resource: Resource, name: str) -> Raw:
    found = {"name": name} | ({"group": resource.group} if resource.group else {})
    return {**found, "kind": resource.plural}
