"""AdmissionReviews are read, and answered with the uid of their request."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from linkwise.errors import InputError
from linkwise.model.json_patch import PatchOperation, pointer
from linkwise.wire.admission import allow, decode_review, deny, document_of
from support.builders.admission import GPU, container, pod, review

DOCUMENT = review(pod(container({GPU: 1})))


def encoded(**changes: object) -> bytes:
    return json.dumps({**DOCUMENT, **changes}).encode()


def test_a_review_has_its_object_and_its_user() -> None:
    request = decode_review(encoded())
    assert (request.uid, request.operation, request.namespace) == (DOCUMENT["request"]["uid"], "CREATE", "team")
    assert (request.user_info.username, request.user_info.groups) == ("ada", ["system:authenticated"])
    assert document_of(request.object) == DOCUMENT["request"]["object"]
    with pytest.raises(InputError, match="expected an object, got nothing"):
        document_of(request.old_object)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is empty"),
        (b"{", "truncated"),
        (b"[]", "expected an object, got a list"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 100_000, "nested too deeply|expected an object"),
        (encoded(apiVersion="admission.k8s.io/v1beta1"), "'admission.k8s.io/v1beta1'.* is not supported"),
        (encoded(apiVersion="v1", kind="Pod"), "is not supported; send an AdmissionReview of admission.k8s.io/v1"),
        (encoded(apiVersion=7), "apiVersion: expected text, got a whole number"),
        (encoded(request=None), "field 'request' is missing"),
        (encoded(request={}), "field 'uid' is missing"),
        (encoded(request={"uid": "", "operation": "CREATE", "resource": {}}), "request.uid is empty"),
        (encoded(request={"uid": "x", "operation": 3, "resource": {}}), "operation: expected text"),
        (encoded(request={"uid": "x", "operation": "CREATE"}), "field 'resource' is missing"),
        (encoded(request={**DOCUMENT["request"], "userInfo": "ada"}), "userInfo: expected an object, got text"),
    ],
)
def test_what_is_not_a_review_is_an_error_that_names_the_field(body: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        decode_review(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_review_or_an_error(body: bytes) -> None:
    with pytest.raises(InputError):
        decode_review(body)


def response(body: bytes) -> dict[str, Any]:
    document = json.loads(body)
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: dict[str, Any] = document["response"]
    return found


def test_an_object_that_is_admitted_as_it_is_has_the_shortest_answer() -> None:
    assert response(allow("u")) == {"uid": "u", "allowed": True}


def test_changes_are_a_json_patch_in_base64() -> None:
    operations = [
        PatchOperation("add", pointer("metadata", "annotations", "a/b~c"), "x"),
        PatchOperation("remove", pointer("spec", "containers", 0, "env", 1)),
    ]
    found = response(allow("u", operations, ["careful"]))
    assert found["patchType"] == "JSONPatch"
    assert found["warnings"] == ["careful"]
    assert json.loads(base64.b64decode(found["patch"])) == [
        {"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "x"},
        {"op": "remove", "path": "/spec/containers/0/env/1"},
    ]


def test_a_refusal_has_its_sentence_and_code() -> None:
    found = response(deny("u", "not this", ["nor that"]))
    status = {"message": "not this", "code": 403, "reason": "Forbidden"}
    assert found == {"uid": "u", "allowed": False, "status": status, "warnings": ["nor that"]}


def test_warnings_are_what_a_header_can_carry() -> None:
    found = response(allow("u", (), ["a\nb\x00c", "é" * 400, *(["x" * 250] * 40)]))
    assert found["warnings"][0] == "a b c"
    assert len(found["warnings"][1]) == 250
    assert sum(map(len, found["warnings"])) < 4096
