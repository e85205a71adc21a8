"""Patches: JSON Patch (RFC 6902), JSON Merge Patch (RFC 7386) and strategic merge patch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from linkwise.embedded.api_errors import ApiError, bad_request, unknown_format
from linkwise.embedded.writes.strategic_merge import strategic_merge_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw

__all__ = ["APPLY", "APPLY_CBOR", "JSON_PATCH", "MERGE", "STRATEGIC", "apply_patch", "json_patch", "merge_patch"]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
APPLY_CBOR: Final = "application/apply-patch+cbor"


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
