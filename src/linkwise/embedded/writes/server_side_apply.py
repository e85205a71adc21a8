"""Server-side apply: a field manager that stops applying a field removes it.

Ownership is tracked as the last applied configuration per field manager, without managedFields and conflicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkwise.embedded.api_errors import ApiError, Cause, bad_request
from linkwise.embedded.kinds.object_types import without_nulls
from linkwise.embedded.writes.patch import merge_patch
from linkwise.embedded.writes.strategic_merge import MERGE_KEYS, strategic_merge_patch

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["check_apply", "merge_applied"]


def check_apply(document: Raw, manager: str) -> None:
    """Validate an apply request."""
    meta = document.get("metadata")
    if not manager:
        cause = Cause("fieldManager", "Required value: is required for apply patch")
        details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
        message = f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
        raise ApiError(422, "Invalid", message, details)
    if not isinstance(document.get("apiVersion"), str) or not isinstance(document.get("kind"), str):
        raise bad_request("Object 'Kind' or 'apiVersion' is missing in the applied configuration")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def merge_applied(resource: Resource, before: Raw, last_applied: Raw, body: Raw) -> Raw:
    """Merge the applied configuration, and remove the fields that the manager applied last time but no longer does."""
    join = merge_patch if resource.custom else strategic_merge_patch
    removals = _removals(last_applied, without_nulls(body), keyed=not resource.custom)
    result: Raw = join(join(before, removals), without_nulls(body))
    return result


def _removals(last: Any, now: Any, *, keyed: bool) -> Raw:  # noqa: ANN401 - JSON
    """A patch that removes the fields no longer applied."""
    patch: Raw = {}
    for key, value in last.items():
        if key not in now:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(now[key], dict):
            patch[key] = _removals(value, now[key], keyed=keyed)
        elif keyed and key in MERGE_KEYS and isinstance(value, list) and isinstance(now[key], list):
            patch[key] = _list_removals(MERGE_KEYS[key], value, now[key])
    return {key: value for key, value in patch.items() if value is None or value}


def _list_removals(key: str, last: list[Any], now: list[Any]) -> list[Raw]:
    remaining = {element[key]: element for element in now if isinstance(element, dict) and key in element}
    patches: list[Raw] = []
    for element in last:
        if not isinstance(element, dict) or key not in element:
            continue
        if element[key] not in remaining:
            patches.append({key: element[key], "$patch": "delete"})
        elif removals := _removals(element, remaining[element[key]], keyed=True):
            patches.append({key: element[key], **removals})
    return patches
