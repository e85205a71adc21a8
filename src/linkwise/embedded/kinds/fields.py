"""Field checks of built-in kinds: unknown fields are dropped, or rejected with fieldValidation=Strict."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import bad_request
from linkwise.embedded.kinds.crd_schemas import prune
from linkwise.embedded.kinds.protobuf import INLINE, is_message, messages

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Served
    from linkwise.embedded.storage.collection import Raw

__all__ = ["drop_unknown_fields", "reject_unknown_fields"]

_ALWAYS_ALLOWED: Final = frozenset({"apiVersion", "kind", "managedFields"})


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "s": (str,),
    "i": (int,),
    "b": (bool,),
    "y": (str,),
    "d": (int, float),
    "Time": (str,),
    "MicroTime": (str,),
    "Quantity": (str, int, float),
    "IntOrString": (int, str),
    "FieldsV1": (dict,),
}
_JSON_NAMES: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def drop_unknown_fields(served: Served, document: Raw) -> Raw:
    """The object without unknown fields; ApiError 400 if a known field has the wrong type."""
    resource = served.resource
    if resource.custom:
        return prune(served.schema, document) if served.schema else document
    return (
        _filter_fields(resource, _json_fields(resource.kind), document, "", [])
        if resource.kind in messages()
        else document
    )


def reject_unknown_fields(served: Served, document: object) -> None:
    """ApiError 400 naming all unknown fields; also works for a patch, which is a partial object."""
    resource, unknown = served.resource, list[str]()
    if not isinstance(document, dict):
        return
    if resource.custom:
        if served.schema:
            prune(served.schema, document, unknown)
    elif resource.kind in messages():
        _filter_fields(resource, _json_fields(resource.kind), document, "", unknown)
    if unknown:
        errors = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(f"{_error_prefix(resource)}: strict decoding error: {errors}")


def _error_prefix(resource: Resource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'


@cache
def _json_fields(kind: str) -> dict[str, str]:
    """Names and types of a message's JSON fields, including those of inlined messages."""
    fields: dict[str, str] = {}
    for name, inner in messages()[kind].values():
        if name in INLINE:
            fields |= _json_fields(inner)
        else:
            fields[name] = inner
    return fields


def _filter_fields(resource: Resource, table: dict[str, str], document: Raw, path: str, unknown: list[str]) -> Raw:
    result: Raw = {}
    for key, value in document.items():
        field_path = f"{path}.{key}" if path else key
        kind = table.get(key)
        if kind is not None:
            result[key] = _filter_value(resource, kind, value, field_path, unknown)
        elif key in _ALWAYS_ALLOWED or key.startswith("$"):
            result[key] = value
        else:
            unknown.append(field_path)
    return result


def _filter_value(resource: Resource, kind: str, value: Any, path: str, unknown: list[str]) -> Any:  # noqa: ANN401 - JSON
    if value is None:
        return None
    inner = kind[1:] if kind[0] == "*" else kind[1:-1] if kind[0] == "{" else ""
    expected = (list,) if kind[0] == "*" else (dict,) if inner or is_message(kind) else _TYPES.get(kind, (object,))
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected and object not in expected):
        actual = _JSON_NAMES.get(type(value), "null")
        message = f"json: cannot unmarshal {actual} into field {path} of type {_JSON_NAMES.get(expected[0], 'null')}"
        raise bad_request(f"{_error_prefix(resource)}: {message}")
    if isinstance(value, list) and inner:
        return [_filter_value(resource, inner, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if isinstance(value, dict) and inner:
        return {key: _filter_value(resource, inner, item, f"{path}[{key}]", unknown) for key, item in value.items()}
    if isinstance(value, dict) and is_message(kind):
        return _filter_fields(resource, _json_fields(kind), value, path, unknown)
    return value
