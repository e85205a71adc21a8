"""As much of OpenAPI as clients need to go on: which kinds there are, and that the server itself looks at fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw

__all__ = ["V2_PROTOBUF", "index", "v2", "version_document"]

_INFO: Final = {"title": "Linkwise embedded", "version": "v1.36.0"}
_JSON_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
V2_PROTOBUF: Final = bytes.fromhex("0a03322e30") + b"\x12\x0b\x0a\x01L\x12\x06v1.36."
"""an OpenAPI v2 document that says nothing, as protobuf: version, then title and version of who says it"""


def v2() -> Raw:
    """An OpenAPI v2 document that says nothing."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def index(kinds: Kinds) -> Raw:
    """Where the documents of all versions are."""
    places = dict.fromkeys(resource.place for resource in kinds)
    return {"paths": {place[1:]: {"serverRelativeURL": f"/openapi/v3{place}"} for place in places}}


def version_document(kinds: Kinds, group: str, version: str) -> Raw | None:
    """The document of one version; None if it is not served."""
    found = kinds.within(group, version)
    if not found:
        return None
    paths: Raw = {}
    schemas: Raw = {}
    for resource in found:
        kind = {"group": group, "version": version, "kind": resource.kind}
        inside = "/namespaces/{namespace}" if resource.namespaced else ""
        parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
            "parameters": [parameter],
            "requestBody": {"content": {word: {} for word in _JSON_PATCHES}},
            "responses": {"200": {"description": "OK"}},
        }
        paths[f"{resource.place}{inside}/{resource.plural}/{{name}}"] = {"patch": patch}
        schemas[_name(group, version, resource.kind)] = {
            **_schema(kinds.told(resource).schema),
            "x-kubernetes-group-version-kind": [kind],
        }
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _schema(schema: Raw | None) -> dict[str, Any]:
    return schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _name(group: str, version: str, kind: str) -> str:
    return ".".join([*reversed((group or "core").split(".")), version, kind])
