"""TokenReview and SubjectAccessReview: who a caller is, and what the API server allows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from linkwise.wire.decoding import decode_as
from linkwise.wire.kubernetes.metadata import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Caller", "access_review", "allowed_by", "caller_of", "resource_access_review", "token_review"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The user of a token."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = field(default_factory=dict)
    """further facts of the authenticator, which authorizers may decide by"""


class _User(Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(Struct):
    authenticated: bool = False
    user: _User | None = None


class _AccessStatus(Struct):
    allowed: bool = False


class _TokenReview(Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessReview(Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


def token_review(token: str) -> bytes:
    """The request to authenticate a token for the API server."""
    return msgspec.json.encode(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    )


def caller_of(data: bytes) -> Caller | None:
    """The user of a reviewed token, None if it is not valid; InputError if the response is not a TokenReview."""
    status = decode_as(data, _TokenReview).status
    user = status.user
    if not status.authenticated or user is None or not user.username:
        return None
    return Caller(user.username, user.uid, tuple(user.groups or ()), user.extra or {})


def access_review(caller: Caller, verb: str, namespace: str, name: str, resource: str = "pods") -> bytes:
    """The question whether a user may do something with pods or nodes; an empty namespace means all of them."""
    attributes = {"namespace": namespace, "verb": verb, "version": "v1", "resource": resource, "name": name}
    spec = {
        "user": caller.user,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": dict(caller.extra),
        "resourceAttributes": attributes,
    }
    return msgspec.json.encode({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})


def resource_access_review(user: str, attributes: Mapping[str, str]) -> bytes:
    """The question whether a user, known by name, may do something with a resource; attributes as in the API."""
    spec = {"user": user, "groups": _groups(user), "resourceAttributes": dict(attributes)}
    return msgspec.json.encode({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})


def _groups(user: str) -> list[str]:
    """The groups that every service account is in."""
    prefix, _, rest = user.partition("system:serviceaccount:")
    if prefix or not rest:
        return ["system:authenticated"]
    return ["system:serviceaccounts", f"system:serviceaccounts:{rest.partition(':')[0]}", "system:authenticated"]


def allowed_by(data: bytes) -> bool:
    """Whether it is allowed; InputError if the response is not a SubjectAccessReview."""
    return decode_as(data, _AccessReview).status.allowed
