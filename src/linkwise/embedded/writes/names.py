"""What objects, labels and annotations may be called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from linkwise.embedded.api_errors import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.object_types import Meta

__all__ = ["check_meta", "check_name", "label_name", "qualified_name"]

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_AS_LABEL: Final = frozenset({"namespaces", "services"})
_FREE: Final = frozenset({"clusterroles", "clusterrolebindings", "roles", "rolebindings"})
"""kinds whose names need only fit in a path"""
_ANNOTATIONS: Final = 256 << 10

_TOLD_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_TOLD_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_TOLD_KEY: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_TOLD_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def label_name(text: str) -> str:
    """What is wrong with a name that has to be one label; empty if nothing is."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(text) else _TOLD_LABEL


def qualified_name(text: str) -> str:
    """What is wrong with a key such as example.com/name; empty if nothing is."""
    prefix, slash, name = text.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return f"prefix part {_TOLD_SUBDOMAIN}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if _WORD.fullmatch(name) else _TOLD_KEY


def check_name(resource: Resource, name: str) -> str:
    """What is wrong with an object's name; empty if nothing is."""
    if resource.plural in _FREE:
        return "may not be '.' or '..', or contain '/' or '%'" if name in {".", ".."} or set("/%") & set(name) else ""
    if resource.plural in _AS_LABEL and not resource.group:
        return label_name(name)
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(name) else _TOLD_SUBDOMAIN


def check_meta(resource: Resource, meta: Meta) -> Iterator[Cause]:
    """What is wrong with an object's metadata."""
    if not meta.name:
        yield Cause("metadata.name", "Required value: name or generateName is required")
    elif wrong := check_name(resource, meta.name):
        yield Cause("metadata.name", f'Invalid value: "{meta.name}": {wrong}')
    yield from check_labels("metadata.labels", meta.labels)
    for key in meta.annotations:
        if wrong := qualified_name(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": {wrong}')
    if sum(len(key) + len(value) for key, value in meta.annotations.items()) > _ANNOTATIONS:
        yield Cause("metadata.annotations", f"Too long: may not be more than {_ANNOTATIONS} bytes")
    for number, owner in enumerate(meta.owner_references):
        for word, found in (("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name)):
            if not found:
                yield Cause(f"metadata.ownerReferences[{number}].{word}", 'Invalid value: "": must not be empty')
    if sum(bool(owner.controller) for owner in meta.owner_references) > 1:
        yield Cause("metadata.ownerReferences", "Invalid value: Only one reference can have Controller set to true")


def check_labels(place: str, labels: Mapping[str, str]) -> Iterator[Cause]:
    """What is wrong with labels."""
    for key, value in labels.items():
        if wrong := qualified_name(key):
            yield Cause(place, f'Invalid value: "{key}": {wrong}')
        if len(value) > 63:
            yield Cause(place, f'Invalid value: "{value}": must be no more than 63 bytes')
        elif value and not _WORD.fullmatch(value):
            yield Cause(place, f'Invalid value: "{value}": {_TOLD_VALUE}')
