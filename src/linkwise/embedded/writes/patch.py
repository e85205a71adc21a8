"""Patches: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386), strategic merge patch and server-side apply.

A strategic merge patch merges lists with a merge key element by element. With server-side apply, a field manager that stops
applying a field removes it; ownership is tracked as the last applied configuration per field manager, without managedFields
and conflicts.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import ApiError, Cause, bad_request, unknown_format
from linkwise.embedded.kinds.object_types import without_nulls

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE",
    "MERGE_KEYS",
    "STRATEGIC",
    "apply_patch",
    "check_apply",
    "json_patch",
    "merge_applied",
    "merge_patch",
    "strategic_merge_patch",
]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "secrets": "name",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "podIPs": "ip",
    "hostIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""lists that are merged, and the merge key of their elements"""
_PORT_KEYS: Final = ("containerPort", "port")
_SETS: Final = frozenset({"finalizers"})
_DIRECTIVE: Final = "$patch"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList/"
_RETAIN_KEYS: Final = "$retainKeys"


def apply_patch(resource: Resource, document: Raw, patch: Any, kind: str) -> Raw:  # noqa: ANN401 - JSON
    """Apply a patch to a copy of an object."""
    if kind == JSON_PATCH:
        result = json_patch(document, patch)
    elif kind == MERGE:
        result = merge_patch(document, patch)
    elif kind == STRATEGIC and not resource.custom:
        result = _strategic_merge(document, patch)
    else:
        supported = (JSON_PATCH, MERGE, APPLY) if resource.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
        raise unknown_format(supported)
    if not isinstance(result, dict):
        raise bad_request("the patched document is not an object")
    return result


def _strategic_merge(document: Raw, patch: Any) -> Any:  # noqa: ANN401 - JSON
    try:
        return strategic_merge_patch(document, patch)
    except TypeError as error:  # the value of a merge key is a list or an object
        raise bad_request(f"invalid strategic merge patch: {error}") from error


def merge_patch(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply a JSON merge patch: objects are merged, null removes a field, any other value replaces it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(document: Raw, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply the operations of a JSON patch to a copy, in order."""
    if not isinstance(patch, list):
        raise bad_request("a JSON patch must be a list of operations")
    result: Any = _decode(_encode(document))  # a copy, twenty times as fast as copy.deepcopy
    for number, operation in enumerate(patch):
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"operation {number} of the JSON patch has no path")
        apply = _OPERATIONS.get(str(operation.get("op")))
        if apply is None:
            raise bad_request(
                f"operation {number} of the JSON patch is {operation.get('op')!r}, which is not supported"
            )
        result = apply(result, operation)
    return result


def _error(operation: Raw, reason: str) -> ApiError:
    message = f"the server rejected our request due to an error in our request: {operation['op']} {operation['path']}: {reason}"
    return ApiError(422, "Invalid", message)


def _parse_pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"a JSON patch path must start with '/': {path!r}")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _parent(document: Any, operation: Raw, path: str) -> tuple[Any, str]:  # noqa: ANN401 - JSON
    *parents, last = _parse_pointer(path)
    for token in parents:
        document = _child(document, token, operation)
    return document, last


def _child(parent: Any, token: str, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    if isinstance(parent, dict) and token in parent:
        return parent[token]
    if isinstance(parent, list):
        return parent[_index(parent, token, operation, len(parent) - 1)]
    raise _error(operation, f"missing value at {token!r}")


def _index(parent: list[Any], token: str, operation: Raw, highest: int) -> int:
    if not token.isdecimal() or int(token) > highest:
        raise _error(operation, f"index {token!r} is out of range for a list of {len(parent)}")
    return int(token)


def _value(operation: Raw) -> Any:  # noqa: ANN401 - JSON
    if "value" not in operation:
        raise _error(operation, "missing value")
    return copy.deepcopy(operation["value"])


def _add(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    return _insert(document, operation, operation["path"], _value(operation))


def _insert(document: Any, operation: Raw, path: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if not path:
        return value
    parent, last = _parent(document, operation, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, operation, len(parent)), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _error(operation, "the parent is neither an object nor a list")
    return document


def _remove(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    _pop(document, operation, operation["path"])
    return document


def _pop(document: Any, operation: Raw, path: str) -> Any:  # noqa: ANN401 - JSON
    if not path:
        raise _error(operation, "the document itself can't be removed")
    parent, last = _parent(document, operation, path)
    value = _child(parent, last, operation)
    if isinstance(parent, list):
        del parent[int(last)]
    else:
        del parent[last]
    return value


def _replace(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    if not operation["path"]:
        return _value(operation)
    parent, last = _parent(document, operation, operation["path"])
    _child(parent, last, operation)
    parent[int(last) if isinstance(parent, list) else last] = _value(operation)
    return document


def _read_source(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    value = document
    for token in _parse_pointer(str(operation.get("from", ""))):
        value = _child(value, token, operation)
    return value


def _move(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    return _insert(document, operation, operation["path"], _pop(document, operation, str(operation.get("from", ""))))


def _copy(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    return _insert(document, operation, operation["path"], copy.deepcopy(_read_source(document, operation)))


def _test(document: Any, operation: Raw) -> Any:  # noqa: ANN401 - JSON
    value = document
    for token in _parse_pointer(operation["path"]):
        value = _child(value, token, operation)
    if value != operation.get("value"):
        raise _error(operation, "testing value failed")
    return document


_OPERATIONS: Final[dict[str, Callable[[Any, Raw], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def strategic_merge_patch(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply a strategic merge patch."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(only := patch.get(_RETAIN_KEYS), list):
        result = {key: value for key, value in result.items() if key in only}
    for key, value in patch.items():
        if not key.startswith("$"):
            _put(result, key, value, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM_LIST) and isinstance(
            items := result.get(key.removeprefix(_DELETE_FROM_LIST)), list
        ):
            result[key.removeprefix(_DELETE_FROM_LIST)] = [one for one in items if one not in (value or ())]
    return result


def _put(result: Raw, key: str, value: Any, patch: Raw) -> None:  # noqa: ANN401 - JSON
    if value is None:
        result.pop(key, None)
    elif isinstance(value, list):
        result[key] = _merge_list(key, result.get(key), value, patch.get(_ORDER + key))
    else:
        result[key] = strategic_merge_patch(result.get(key), value)


def _merge_list(name: str, target: Any, patch: list[Any], order: Any) -> list[Any]:  # noqa: ANN401 - JSON
    merged = list(target) if isinstance(target, list) else []
    if name in _SETS:
        return merged + [element for element in patch if element not in merged]
    key = _merge_key(name, [*merged, *patch])
    if not key:
        return patch
    if any(isinstance(element, dict) and element.get(_DIRECTIVE) == "replace" for element in patch):
        return [element for element in patch if not (isinstance(element, dict) and _DIRECTIVE in element)]
    for element in patch:
        merged = _merge_element(name, key, merged, element)
    if isinstance(order, list):
        positions = {element.get(key): position for position, element in enumerate(order) if isinstance(element, dict)}
        merged.sort(key=lambda element: positions.get(element.get(key), len(positions)))
    return merged


def _merge_element(name: str, key: str, merged: list[Any], element: Any) -> list[Any]:  # noqa: ANN401 - JSON
    if not isinstance(element, dict) or key not in element:
        raise bad_request(f"map: {element} does not contain declared merge key: {key} (in {name})")
    same = [index for index, item in enumerate(merged) if isinstance(item, dict) and item.get(key) == element[key]]
    if element.get(_DIRECTIVE) == "delete":
        return [item for index, item in enumerate(merged) if index not in same]
    if not same:
        return [*merged, strategic_merge_patch({}, element)]
    return [strategic_merge_patch(item, element) if index in same else item for index, item in enumerate(merged)]


def _merge_key(name: str, elements: list[Any]) -> str:
    if name == "ports":
        return next(
            (key for key in _PORT_KEYS if any(isinstance(element, dict) and key in element for element in elements)), ""
        )
    return MERGE_KEYS.get(name, "")


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
