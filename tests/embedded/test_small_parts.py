"""Ages, JSON paths, certificates, protobuf and strategic merge patches."""

from __future__ import annotations

import base64
import json
import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from linkwise.embedded.api_errors import ApiError
from linkwise.embedded.apiserver.tls import make_certificate
from linkwise.embedded.kinds.protobuf import decode_object, messages
from linkwise.embedded.kubectl.cells import age, at_path, human_duration
from linkwise.embedded.writes.patch import json_patch, merge_patch
from linkwise.embedded.writes.strategic_merge import strategic_merge_patch

if TYPE_CHECKING:
    from pathlib import Path

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_formatted_as_in_kubectl(seconds: float, told: str) -> None:
    assert human_duration(seconds) == told


def test_a_missing_timestamp_has_an_unknown_age() -> None:
    assert age(None, 5.0) == "<unknown>"


def test_json_paths_traverse_maps_and_lists() -> None:
    document = {"a": [{"b": 1}, {"b": 2}]}
    assert (at_path(document, ".a[1].b"), at_path(document, ".a[5].b"), at_path(document, ".x.y")) == (2, None, None)


def test_the_certificate_is_accepted_by_the_ssl_module() -> None:
    made = make_certificate(["localhost"], ["127.0.0.1"])
    trust = ssl.create_default_context(cadata=made.text)
    (known,) = trust.get_ca_certs()
    assert known["issuer"] == known["subject"]
    assert made.context().get_ciphers()


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


@given(JSON, JSON)
def test_a_merge_patch_is_idempotent(document: object, patch: object) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(JSON)
def test_an_empty_patch_changes_nothing(document: object) -> None:
    whole = {"x": document}
    assert strategic_merge_patch(whole, {}) == whole
    assert json_patch(whole, []) == whole


def test_a_patch_can_set_the_element_order() -> None:
    before = {"containers": [{"name": "a"}, {"name": "b"}]}
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c"}],
    }
    assert [found["name"] for found in strategic_merge_patch(before, patch)["containers"]] == ["b", "c", "a"]


def test_an_element_without_its_merge_key_is_rejected() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge_patch({"containers": []}, {"containers": [{"image": "x"}]})


def test_ports_are_merged_by_the_key_that_they_have() -> None:
    before = {"ports": [{"containerPort": 80}, {"containerPort": 90, "name": "x"}]}
    found = strategic_merge_patch(before, {"ports": [{"containerPort": 90, "name": "y"}]})
    assert found["ports"] == [{"containerPort": 80}, {"containerPort": 90, "name": "y"}]
