"""AdmissionReview of admission.k8s.io/v1: requests of the API server, and responses with a JSON Patch and warnings.

A response must carry the uid of its request. If that can't be read there is no valid response, and the failurePolicy of
the webhook decides: the API server refuses the objects that its configuration selects, and no others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.errors import InputError
from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.metadata import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkwise.model.json_patch import PatchOperation

__all__ = ["AdmissionRequest", "allow", "decode_review", "deny", "document_of"]

VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
FORBIDDEN: Final = 403
MAX_WARNING: Final = 250
"""characters; the API server cuts longer ones at 256"""
MAX_WARNINGS: Final = 3800
"""characters of all warnings; the API server drops what is beyond 4096"""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]+")


class Resource(Struct):
    """Group, version and plural of a resource."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Struct):
    """The authenticated user."""

    username: str = ""
    groups: list[str] | None = None


class AdmissionRequest(Struct):
    """The request of a review."""

    uid: str
    operation: str
    resource: Resource
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(Struct):
    api_version: str
    kind: str
    request: msgspec.Raw = msgspec.Raw(b"null")


class _Status(Struct):
    message: str
    code: int = FORBIDDEN
    reason: str = "Forbidden"


class _Response(Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    warnings: list[str] | None = None
    patch_type: str | None = None
    patch: bytes | None = None
    """in base64, as bytes are encoded"""


class _Answer(Struct):
    response: _Response
    api_version: str = VERSION
    kind: str = KIND


def decode_review(body: bytes) -> AdmissionRequest:
    """Decode the request of a review; InputError if it is not one of version v1, or has no uid."""
    if not body:
        raise InputError(f"the body is empty; an {KIND} is expected")
    review = decode_as(body, _Review)
    if review.kind != KIND or review.api_version != VERSION:
        found = f"{review.api_version[:80]!r}, kind {review.kind[:80]!r}"
        raise InputError(f"apiVersion {found} is not supported; send an {KIND} of {VERSION}")
    if bytes(review.request) == b"null":
        raise InputError("field 'request' is missing")
    request = decode_as(review.request, AdmissionRequest)
    if not request.uid:
        raise InputError("request.uid is empty")
    return request


def document_of(raw: msgspec.Raw) -> Mapping[str, Any]:
    """The object of a request as plain data; InputError if it is not an object."""
    document = decode_as(raw, object)
    if not isinstance(document, dict):
        raise InputError(f"expected an object, got {'nothing' if document is None else type(document).__name__}")
    return document


def allow(uid: str, patch: Iterable[PatchOperation] = (), warnings: Iterable[str] = ()) -> bytes:
    """Encode a response that admits the object, with changes and warnings."""
    operations = [_operation(operation) for operation in patch]
    response = _Response(uid, allowed=True, warnings=_warnings(warnings))
    if operations:
        response.patch_type, response.patch = "JSONPatch", msgspec.json.encode(operations)
    return msgspec.json.encode(_Answer(response))


def deny(uid: str, message: str, warnings: Iterable[str] = ()) -> bytes:
    """Encode a response that refuses the object; the user reads the message behind the name of the webhook."""
    return msgspec.json.encode(
        _Answer(_Response(uid, allowed=False, status=_Status(message), warnings=_warnings(warnings)))
    )


def _operation(operation: PatchOperation) -> dict[str, object]:
    value = {} if operation.op == "remove" else {"value": operation.value}
    return {"op": operation.op, "path": operation.path, **value}


def _warnings(sentences: Iterable[str]) -> list[str] | None:
    """Warnings as a header can carry them, up to what the API server passes on."""
    warnings: list[str] = []
    left = MAX_WARNINGS
    for sentence in sentences:
        text = _UNPRINTABLE.sub(" ", sentence)
        text = text if len(text) <= MAX_WARNING else f"{text[: MAX_WARNING - 3]}..."
        left -= len(text)
        if left < 0:
            break
        warnings.append(text)
    return warnings or None
