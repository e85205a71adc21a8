"""What the server has, told to clients: in one document to those who ask so, group by group to the others.

As much of OpenAPI as clients need to go on: which kinds there are, and that the server itself looks at fields.
"""
# Joined from discovery, openapi: one docstring for all.

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
_CHANGED: Final = ("get", "patch", "update")
_PARTS: Final = {
    "status": ("", _CHANGED),
    "scale": ("Scale", _CHANGED),
    "binding": ("Binding", ("create",)),
    "eviction": ("Eviction", ("create",)),
    "log": ("Pod", ("get",)),
    "ephemeralcontainers": ("Pod", _CHANGED),
    "resize": ("Pod", _CHANGED),
}
"""the kind that a subresource has, if it is another one, and what may be done with it"""
_OTHER_GROUP: Final = {"Scale": ("autoscaling", "v1"), "Eviction": ("policy", "v1")}


def version() -> Raw:
    """Which Kubernetes this looks like."""
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
    """The versions of the core."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": host}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def groups(kinds: Kinds) -> Raw:
    """All groups but the core."""
    found = [_group(name, versions) for name, versions in kinds.groups().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(kinds: Kinds, name: str) -> Raw | None:
    """One group; None if it is not served."""
    versions = kinds.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resources(kinds: Kinds, name: str, version: str) -> Raw | None:
    """The kinds of one version; None if it is not served."""
    found = kinds.in_version(name, version)
    if not found:
        return None
    place = f"{name}/{version}" if name else version
    told = [one for resource in found for one in _resource(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": place, "resources": told}


def aggregated(kinds: Kinds, *, core: bool) -> Raw:
    """The core, or all other groups, in one document."""
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
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _resource(resource: Resource) -> Iterable[Raw]:
    one: Raw = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    yield one | _words(resource)
    for subresource in resource.subresources:
        kind, verbs = _PARTS[subresource]
        yield {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind or resource.kind,
            "verbs": list(verbs),
        } | (dict(zip(("group", "version"), _OTHER_GROUP[kind], strict=True)) if kind in _OTHER_GROUP else {})


def _words(resource: Resource) -> Raw:
    found: Raw = {"shortNames": list(resource.short_names)} if resource.short_names else {}
    return found | ({"categories": list(resource.categories)} if resource.categories else {})


def _aggregated_version(version: str, found: list[Resource]) -> Raw:
    return {"version": version, "freshness": "Current", "resources": [_aggregated(resource) for resource in found]}


def _aggregated(resource: Resource) -> Raw:
    return {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
        "subresources": [_aggregated_part(resource, subresource) for subresource in resource.subresources],
    } | _words(resource)


def _aggregated_part(resource: Resource, subresource: str) -> Raw:
    kind, verbs = _PARTS[subresource]
    group_name, version = _OTHER_GROUP.get(kind, (resource.group, resource.version))
    shown = {"group": group_name, "version": version, "kind": kind or resource.kind}
    return {"subresource": subresource, "responseKind": shown, "verbs": list(verbs)}


_INFO: Final = {"title": "Linkwise embedded", "version": "v1.36.0"}
_JSON_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
V2_PROTOBUF: Final = bytes.fromhex("0a03322e30") + b"\x12\x0b\x0a\x01L\x12\x06v1.36."
"""an OpenAPI v2 document that says nothing, as protobuf: version, then title and version of who says it"""


def v2() -> Raw:
    """An OpenAPI v2 document that says nothing."""
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}


def index(kinds: Kinds) -> Raw:
    """Where the documents of all versions are."""
    places = dict.fromkeys(resource.path for resource in kinds)
    return {"paths": {place[1:]: {"serverRelativeURL": f"/openapi/v3{place}"} for place in places}}


def version_document(kinds: Kinds, group: str, version: str) -> Raw | None:
    """The document of one version; None if it is not served."""
    found = kinds.in_version(group, version)
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
        paths[f"{resource.path}{inside}/{resource.plural}/{{name}}"] = {"patch": patch}
        schemas[_name(group, version, resource.kind)] = {
            **_schema(kinds.served(resource).schema),
            "x-kubernetes-group-version-kind": [kind],
        }
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _schema(schema: Raw | None) -> dict[str, Any]:
    return schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _name(group: str, version: str, kind: str) -> str:
    return ".".join([*reversed((group or "core").split(".")), version, kind])
