"""AdmissionReview: the request sent to a webhook, and its response."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.kinds.object_types import ApiType, without_nulls
from linkwise.errors import LinkwiseError

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw
    from linkwise.embedded.writes.admission import AdmissionRequest
    from linkwise.model.requester import Requester

__all__ = ["InvalidReviewError", "ReviewResponse", "decode_review", "review_of", "user_info"]

API_VERSION: Final = "admission.k8s.io/v1"
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class InvalidReviewError(LinkwiseError):
    """A webhook sent something that is not the response to its AdmissionReview."""


class ReviewResponse(ApiType, frozen=True):
    """The response of a webhook."""

    uid: str
    allowed: bool
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()

    def operations(self) -> Any:  # noqa: ANN401 - JSON
        """The operations of the JSON patch; InvalidReviewError if they can't be decoded."""
        try:
            return msgspec.json.decode(base64.b64decode(self.patch or "", validate=True)) if self.patch else []
        except (binascii.Error, msgspec.DecodeError) as error:
            raise InvalidReviewError(f"invalid JSON patch: {error}") from error


class _Review(ApiType, frozen=True):
    api_version: str = ""
    kind: str = ""
    response: ReviewResponse | None = None


def review_of(request: AdmissionRequest, version: Resource, requester: Requester) -> Raw:
    """The AdmissionReview of a write, with its objects in the version that the webhook wants."""
    resource, subresource = request.resource, request.subresource
    options: Raw = {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1"}
    if request.options is not None:
        fields = without_nulls(msgspec.to_builtins(request.options))
        options |= {key: value for key, value in fields.items() if value not in ({}, [])}
    part = {"subResource": subresource, "requestSubResource": subresource} if subresource else {}
    old = request.old.read() | _head(version) if request.old is not None else None
    return {
        "kind": "AdmissionReview",
        "apiVersion": API_VERSION,
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": _kind(request, version),
            "resource": {"group": version.group, "version": version.version, "resource": version.plural},
            "requestKind": _kind(request, resource),
            "requestResource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            **part,
            "name": request.name,
            "namespace": request.name if resource.group_resource == "namespaces" else request.namespace,
            "operation": request.operation,
            "userInfo": user_info(requester),
            "object": request.object if request.kind or request.object is None else request.object | _head(version),
            "oldObject": old,
            "dryRun": request.dry_run,
            "options": options,
        },
    }


def user_info(requester: Requester) -> Raw:
    """UserInfo of a user."""
    return {"username": requester.user, "groups": list(requester.groups)}


def decode_review(body: bytes, uid: str, *, mutating: bool) -> ReviewResponse:
    """The response of a webhook; InvalidReviewError if it is malformed or answers something else."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.DecodeError as error:
        raise InvalidReviewError(f"received invalid webhook response: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        expected, got = f"{API_VERSION}, Kind=AdmissionReview", f"{review.api_version}, Kind={review.kind}"
        raise InvalidReviewError(
            f"received invalid webhook response: expected webhook response of {expected}, got {got}"
        )
    response = review.response
    if response is None:
        raise InvalidReviewError("webhook response was absent")
    if response.uid != uid:
        raise InvalidReviewError(f'expected response.uid="{uid}", got "{response.uid}"')
    if (response.patch or response.patch_type) and not mutating:
        field = "patch" if response.patch else "patchType"
        raise InvalidReviewError(f"validating webhook may not return response.{field}")
    if response.patch and response.patch_type is None:
        raise InvalidReviewError("webhook returned response.patch but not response.patchType")
    if response.patch and response.patch_type != "JSONPatch":
        raise InvalidReviewError(f'unsupported patch type "{response.patch_type}"')
    return response


def _kind(request: AdmissionRequest, version: Resource) -> Raw:
    group, name, kind = request.kind or (version.group, version.version, version.kind)
    return {"group": group, "version": name, "kind": kind}


def _head(version: Resource) -> Raw:
    return {"apiVersion": version.api_version, "kind": version.kind}
