"""Protobuf bodies, as kubectl and Go clients send them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.kinds.protobuf import decode_object, messages

if TYPE_CHECKING:
    from pathlib import Path


def test_protobuf_is_decoded_to_the_equivalent_json(root: Path) -> None:
    requests = json.loads((root / "tests/embedded/recorded/create_label_annotate_patch_and_scale.json").read_text())
    sent = {found["path"]: decode_object(base64.b64decode(found["base64"])) for found in requests if "base64" in found}
    deployment = next(found for found in sent.values() if found["kind"] == "Deployment")
    assert deployment["apiVersion"] == "apps/v1"
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "x"
    assert {found["kind"] for found in sent.values()} >= {"Namespace", "ConfigMap", "Deployment", "Job"}


@given(st.binary(max_size=200))
def test_malformed_protobuf_is_a_bad_request(data: bytes) -> None:
    kind = b"\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12" + bytes([len(data) % 128]) + data
    for body in (data, b"k8s\x00" + data, b"k8s\x00" + kind):
        try:
            decode_object(body)
        except ApiError as error:
            assert error.code == 400  # noqa: PT017 - most are refused, some happen to be objects


def test_every_message_of_the_table_uses_known_types() -> None:
    scalars = {"s", "i", "b", "y", "d", "Time", "MicroTime", "Quantity", "IntOrString", "FieldsV1", "RawExtension"}
    for name, fields in messages().items():
        for _, kind in fields.values():
            assert kind.strip("*{}") in scalars | messages().keys(), f"{name}: {kind}"


def encoded(number: int, content: bytes | str) -> bytes:
    """A field with text or a message of less than 128 bytes."""
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def sent(version: str, kind: str, spec: bytes) -> bytes:
    """The body of a request with an object that has only a spec."""
    return b"k8s\x00" + encoded(1, encoded(1, version) + encoded(2, kind)) + encoded(2, encoded(2, spec))


def test_reviews_and_token_requests_of_kubectl_are_decoded() -> None:
    attributes = encoded(1, "team-a") + encoded(2, "get") + encoded(5, "pods") + encoded(6, "log")
    review = decode_object(sent("authorization.k8s.io/v1", "SelfSubjectAccessReview", encoded(1, attributes)))
    asked = {"namespace": "team-a", "verb": "get", "resource": "pods", "subresource": "log"}
    assert review["spec"] == {"resourceAttributes": asked}
    request = decode_object(sent("authentication.k8s.io/v1", "TokenRequest", encoded(1, "api") + b"\x20\x90\x1c"))
    assert request["spec"] == {"audiences": ["api"], "expirationSeconds": 3600}
    who = decode_object(
        b"k8s\x00" + encoded(1, encoded(1, "authentication.k8s.io/v1") + encoded(2, "SelfSubjectReview"))
    )
    assert who == {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
