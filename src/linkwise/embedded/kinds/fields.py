"""Field checks: unknown fields are dropped, or rejected with fieldValidation=Strict; custom resources by their schema."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import Cause, bad_request
from linkwise.embedded.kinds.protobuf import INLINE, is_message, messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Served
    from linkwise.embedded.storage.collection import Raw


__all__ = ["check_schema", "drop_unknown_fields", "prune", "reject_unknown_fields"]

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
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_PRESERVE_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_OPENAPI_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_LIMITS: Final[tuple[tuple[str, Callable[[Any, Any], bool], str], ...]] = (
    ("minimum", lambda value, limit: value >= limit, "should be greater than or equal to"),
    ("maximum", lambda value, limit: value <= limit, "should be less than or equal to"),
    ("minLength", lambda value, limit: len(value) >= limit, "should be at least {} chars long"),
    ("maxLength", lambda value, limit: len(value) <= limit, "may not be more than {} bytes"),
    ("minItems", lambda value, limit: len(value) >= limit, "should have at least {} items"),
    ("maxItems", lambda value, limit: len(value) <= limit, "must have at most {} items"),
)


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


def check_schema(schema: Raw, document: Raw) -> Iterator[Cause]:
    """Validate a custom resource against its schema."""
    body = {key: value for key, value in document.items() if key not in _ROOT_FIELDS}
    properties = {key: value for key, value in (schema.get("properties") or {}).items() if key not in _ROOT_FIELDS}
    yield from _check({**schema, "properties": properties}, body, "")


def prune(schema: Raw, document: Raw, unknown: list[str] | None = None) -> Raw:
    """The object without the fields that its schema does not define; their paths are added to `unknown`."""
    head = {key: value for key, value in document.items() if key in _ROOT_FIELDS}
    body = {key: value for key, value in document.items() if key not in _ROOT_FIELDS}
    result: Raw = _prune(schema, body, "", [] if unknown is None else unknown)
    return head | result


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


def _check(schema: Raw, value: Any, path: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    name = path or "<nil>"
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, (int, str)):
            yield Cause(name, "Invalid value: must be of type integer or string")
        return
    expected = schema.get("type", "")
    if expected and (
        not isinstance(value, _OPENAPI_TYPES.get(expected, (object,)))
        or (isinstance(value, bool) and expected != "boolean")
    ):
        yield Cause(
            name, f'Invalid value: "{_type_of(value)}": {name} in body must be of type {expected}: "{_type_of(value)}"'
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{item}"' for item in schema["enum"])
        yield Cause(name, f'Unsupported value: "{value}": supported values: {supported}')
    yield from _check_limits(schema, value, name)
    if isinstance(value, dict):
        yield from _check_fields(schema, value, path)
    elif isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _check(items, item, f"{path}[{index}]")


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _OPENAPI_TYPES.items() if isinstance(value, types)), "null")


def _check_limits(schema: Raw, value: Any, name: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    for keyword, satisfies, message in _LIMITS:
        sized = isinstance(value, (int, float)) if keyword in {"minimum", "maximum"} else isinstance(value, (str, list))
        if sized and keyword in schema and not satisfies(value, schema[keyword]):
            text = message.format(schema[keyword]) if "{}" in message else f"{message} {schema[keyword]}"
            yield Cause(name, f"Invalid value: {value!r}: {name} in body {text}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield Cause(name, f"Invalid value: \"{value}\": {name} in body should match '{schema['pattern']}'")


def _check_fields(schema: Raw, value: Raw, path: str) -> Iterator[Cause]:
    for key in schema.get("required") or ():
        if key not in value and (path or key not in _ROOT_FIELDS):
            yield Cause(f"{path}.{key}" if path else key, "Required value")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, inner in value.items():
        field_schema = properties.get(key, additional if isinstance(additional, dict) else None)
        if field_schema is not None:
            yield from _check(field_schema, inner, f"{path}.{key}" if path else key)


def _prune(schema: Raw, value: Any, path: str, unknown: list[str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        items = schema.get("items") or {_PRESERVE_UNKNOWN: True}
        return [_prune(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    result = {}
    for key, inner in value.items():
        name = f"{path}.{key}" if path else key
        if key in properties:
            result[key] = _prune(properties[key], inner, name, unknown)
        elif schema.get(_PRESERVE_UNKNOWN) or additional:
            result[key] = _prune(additional, inner, name, unknown) if isinstance(additional, dict) else inner
        else:
            unknown.append(name)
    return result
