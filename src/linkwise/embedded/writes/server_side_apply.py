"""Server-side apply: who applies owns what was applied, so that what is left out the next time goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkwise.embedded.api_errors import ApiError, Cause, bad_request
from linkwise.embedded.kinds.object_types import without_nulls
from linkwise.embedded.writes.patch import merge
from linkwise.embedded.writes.strategic_merge import KEYS, strategic

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["applied", "check_apply"]


def check_apply(document: Raw, manager: str) -> None:
    """Refuse what can't be applied."""
    meta = document.get("metadata")
    if not manager:
        cause = Cause("fieldManager", "Required value: is required for apply patch")
        details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}]}
        message = f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
        raise ApiError(422, "Invalid", message, details)
    if not isinstance(document.get("apiVersion"), str) or not isinstance(document.get("kind"), str):
        raise bad_request("Object 'Kind' or 'apiVersion' is missing in what is applied")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")


def applied(resource: Resource, before: Raw, last: Raw, given: Raw) -> Raw:
    """The object with what is applied now, and without what was applied last and is not any more."""
    join = merge if resource.custom else strategic
    less = _less(last, without_nulls(given), keyed=not resource.custom)
    found: Raw = join(join(before, less), without_nulls(given))
    return found


def _less(last: Any, now: Any, *, keyed: bool) -> Raw:  # noqa: ANN401 - JSON
    """A patch that takes away what was there last."""
    found: Raw = {}
    for key, value in last.items():
        if key not in now:
            found[key] = None
        elif isinstance(value, dict) and isinstance(now[key], dict):
            found[key] = _less(value, now[key], keyed=keyed)
        elif keyed and key in KEYS and isinstance(value, list) and isinstance(now[key], list):
            found[key] = _less_of_list(KEYS[key], value, now[key])
    return {key: value for key, value in found.items() if value is None or value}


def _less_of_list(key: str, last: list[Any], now: list[Any]) -> list[Raw]:
    kept = {one[key]: one for one in now if isinstance(one, dict) and key in one}
    found: list[Raw] = []
    for one in last:
        if not isinstance(one, dict) or key not in one:
            continue
        if one[key] not in kept:
            found.append({key: one[key], "$patch": "delete"})
        elif less := _less(one, kept[one[key]], keyed=True):
            found.append({key: one[key], **less})
    return found
