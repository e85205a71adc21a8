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
