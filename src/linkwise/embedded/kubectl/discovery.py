"""What the server has, told to clients: in one document to those who ask so, group by group to the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Kinds
    from linkwise.embedded.storage.collection import Raw

__all__ = ["AGGREGATED", "aggregated", "core_versions", "group", "groups", "resources", "version"]

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
    found = kinds.within(name, version)
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
            "versions": [_aggregated_version(version, kinds.within(name, version)) for version in versions],
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
        "singularName": resource.one,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    yield one | _words(resource)
    for part in resource.parts:
        kind, verbs = _PARTS[part]
        yield {
            "name": f"{resource.plural}/{part}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind or resource.kind,
            "verbs": list(verbs),
        } | (dict(zip(("group", "version"), _OTHER_GROUP[kind], strict=True)) if kind in _OTHER_GROUP else {})


def _words(resource: Resource) -> Raw:
    found: Raw = {"shortNames": list(resource.short)} if resource.short else {}
    return found | ({"categories": list(resource.categories)} if resource.categories else {})


def _aggregated_version(version: str, found: list[Resource]) -> Raw:
    return {"version": version, "freshness": "Current", "resources": [_aggregated(resource) for resource in found]}


def _aggregated(resource: Resource) -> Raw:
    return {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.one,
        "verbs": list(resource.verbs),
        "subresources": [_aggregated_part(resource, part) for part in resource.parts],
    } | _words(resource)


def _aggregated_part(resource: Resource, part: str) -> Raw:
    kind, verbs = _PARTS[part]
    group_name, version = _OTHER_GROUP.get(kind, (resource.group, resource.version))
    shown = {"group": group_name, "version": version, "kind": kind or resource.kind}
    return {"subresource": part, "responseKind": shown, "verbs": list(verbs)}
