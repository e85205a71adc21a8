"""API discovery: aggregated or not, with the minimal OpenAPI documents that clients require.

The OpenAPI documents list the served kinds and tell kubectl that the server validates fields itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "AGGREGATED",
    "V2_PROTOBUF",
    "aggregated",
    "core_versions",
    "group",
    "groups",
    "index",
    "resources",
    "v2",
    "version",
    "version_document",
]

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_READ_WRITE: Final = ("get", "patch", "update")
_SUBRESOURCES: Final = {
    "status": ("", _READ_WRITE),
    "scale": ("Scale", _READ_WRITE),
    "binding": ("Binding", ("create",)),
    "eviction": ("Eviction", ("create",)),
    "log": ("Pod", ("get",)),
    "ephemeralcontainers": ("Pod", _READ_WRITE),
    "resize": ("Pod", _READ_WRITE),
    "token": ("TokenRequest", ("create",)),
}
"""kind of each subresource, if it differs from its parent's, and its verbs"""
_OTHER_GROUP: Final = {
    "Scale": ("autoscaling", "v1"),
    "Eviction": ("policy", "v1"),
    "TokenRequest": ("authentication.k8s.io", "v1"),
}


def version() -> Raw:
    """The reported Kubernetes version."""
    return {
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.0+linkwise",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "python",
        "platform": "linux/amd64",
    }


def core_versions(host: str) -> Raw:
    """The versions of the core API."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": host}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def groups(kinds: Kinds) -> Raw:
    """All API groups except the core."""
    api_groups = [_group(name, versions) for name, versions in kinds.groups().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": api_groups}


def group(kinds: Kinds, name: str) -> Raw | None:
    """One API group; None if it is not served."""
    versions = kinds.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resources(kinds: Kinds, name: str, version: str) -> Raw | None:
    """The resources of an API version; None if it is not served."""
    served = kinds.in_version(name, version)
    if not served:
        return None
    group_version = f"{name}/{version}" if name else version
    api_resources = [api_resource for resource in served for api_resource in _resource(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": api_resources}


def aggregated(kinds: Kinds, *, core: bool) -> Raw:
    """Aggregated discovery of the core, or of all other groups."""
    names = {"": ["v1"]} if core else kinds.groups()
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_aggregated_version(version, kinds.in_version(name, version)) for version in versions],
        }
        for name, versions in names.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _group(name: str, versions: list[str]) -> Raw:
    group_versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": group_versions, "preferredVersion": group_versions[0]}


def _resource(resource: Resource) -> Iterable[Raw]:
    api_resource: Raw = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    yield api_resource | _aliases(resource)
    for subresource in resource.subresources:
        kind, verbs = _SUBRESOURCES[subresource]
        yield {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind or resource.kind,
            "verbs": list(verbs),
        } | (dict(zip(("group", "version"), _OTHER_GROUP[kind], strict=True)) if kind in _OTHER_GROUP else {})


def _aliases(resource: Resource) -> Raw:
    aliases: Raw = {"shortNames": list(resource.short_names)} if resource.short_names else {}
    return aliases | ({"categories": list(resource.categories)} if resource.categories else {})


def _aggregated_version(version: str, served: list[Resource]) -> Raw:
    return {"version": version, "freshness": "Current", "resources": [_aggregated(resource) for resource in served]}


def _aggregated(resource: Resource) -> Raw:
    return {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
        "subresources": [_aggregated_subresource(resource, subresource) for subresource in resource.subresources],
    } | _aliases(resource)


def _aggregated_subresource(resource: Resource, subresource: str) -> Raw:
    kind, verbs = _SUBRESOURCES[subresource]
    group_name, version = _OTHER_GROUP.get(kind, (resource.group, resource.version))
    response_kind = {"group": group_name, "version": version, "kind": kind or resource.kind}
    return {"subresource": subresource, "responseKind": response_kind, "verbs": list(verbs)}


_INFO: Final = {"title": "Linkwise embedded", "version": "v1.36.0"}
_JSON_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
V2_PROTOBUF: Final = bytes.fromhex("0a03322e30") + b"\x12\x0b\x0a\x01L\x12\x06v1.36."
"""an empty OpenAPI v2 document as protobuf: swagger version, and title and version of the server"""


def v2() -> Raw:
    """An empty OpenAPI v2 document."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def index(kinds: Kinds) -> Raw:
    """The paths of the OpenAPI v3 documents."""
    paths = dict.fromkeys(resource.path for resource in kinds)
    return {"paths": {path[1:]: {"serverRelativeURL": f"/openapi/v3{path}"} for path in paths}}


def version_document(kinds: Kinds, group: str, version: str) -> Raw | None:
    """The OpenAPI v3 document of an API version; None if it is not served."""
    served = kinds.in_version(group, version)
    if not served:
        return None
    paths: Raw = {}
    schemas: Raw = {}
    for resource in served:
        kind = {"group": group, "version": version, "kind": resource.kind}
        namespace_segment = "/namespaces/{namespace}" if resource.namespaced else ""
        parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": kind,
            "parameters": [parameter],
            "requestBody": {"content": {media_type: {} for media_type in _JSON_PATCHES}},
            "responses": {"200": {"description": "OK"}},
        }
        paths[f"{resource.path}{namespace_segment}/{resource.plural}/{{name}}"] = {"patch": patch}
        schemas[_name(group, version, resource.kind)] = {
            **_schema(kinds.served(resource).schema),
            "x-kubernetes-group-version-kind": [kind],
        }
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _schema(schema: Raw | None) -> dict[str, Any]:
    return schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _name(group: str, version: str, kind: str) -> str:
    return ".".join([*reversed((group or "core").split(".")), version, kind])
