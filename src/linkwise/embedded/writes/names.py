"""Validation of names, labels, annotations and other metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import ObjectMeta

__all__ = ["check_label_name", "check_meta", "check_name", "check_qualified_name"]

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_NAMED: Final = frozenset({"namespaces", "services"})
_PATH_NAMED: Final = frozenset({"clusterroles", "clusterrolebindings", "roles", "rolebindings"})
"""resources whose names only have to be valid path segments"""
_ANNOTATION_BYTES: Final = 256 << 10

_SUBDOMAIN_MESSAGE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_MESSAGE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_KEY_MESSAGE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def check_label_name(text: str) -> str:
    """The error of a name that must be an RFC 1123 label; empty if it is valid."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(text) else _LABEL_MESSAGE


def check_qualified_name(text: str) -> str:
    """The error of a key such as example.com/name; empty if it is valid."""
    prefix, slash, name = text.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {_SUBDOMAIN_MESSAGE}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if _NAME_PART.fullmatch(name) else _KEY_MESSAGE


def check_name(resource: Resource, name: str) -> str:
    """The error of an object's name; empty if it is valid."""
    if resource.plural in _PATH_NAMED:
        return "may not be '.' or '..', or contain '/' or '%'" if name in {".", ".."} or set("/%") & set(name) else ""
    if resource.plural in _LABEL_NAMED and not resource.group:
        return check_label_name(name)
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_MESSAGE


def check_meta(resource: Resource, meta: ObjectMeta) -> Iterator[Cause]:
    """Validate an object's metadata."""
    if not meta.name:
        yield Cause("metadata.name", "Required value: name or generateName is required")
    elif message := check_name(resource, meta.name):
        yield Cause("metadata.name", f'Invalid value: "{meta.name}": {message}')
    yield from check_labels("metadata.labels", meta.labels)
    for key in meta.annotations:
        if message := check_qualified_name(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": {message}')
    if sum(len(key) + len(value) for key, value in meta.annotations.items()) > _ANNOTATION_BYTES:
        yield Cause("metadata.annotations", f"Too long: may not be more than {_ANNOTATION_BYTES} bytes")
    for index, owner in enumerate(meta.owner_references):
        for key, value in (("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name)):
            if not value:
                yield Cause(f"metadata.ownerReferences[{index}].{key}", 'Invalid value: "": must not be empty')
    if sum(bool(owner.controller) for owner in meta.owner_references) > 1:
        yield Cause("metadata.ownerReferences", "Invalid value: Only one reference can have Controller set to true")


def check_labels(place: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    """Validate labels."""
    for key, value in labels.items():
        if message := check_qualified_name(key):
            yield Cause(place, f'Invalid value: "{key}": {message}')
        if len(value) > 63:
            yield Cause(place, f'Invalid value: "{value}": must be no more than 63 bytes')
        elif value and not _NAME_PART.fullmatch(value):
            yield Cause(place, f'Invalid value: "{value}": {_VALUE_MESSAGE}')
