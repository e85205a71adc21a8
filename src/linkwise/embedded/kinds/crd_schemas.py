"""Objects of custom kinds compared with the schema of their definition, as far as schemas are usually written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.embedded.storage.collection import Raw

__all__ = ["check_schema", "pruned"]

_ROOT: Final = frozenset({"apiVersion", "kind", "metadata"})
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
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


def check_schema(schema: Raw, document: Raw) -> Iterator[Cause]:
    """What of an object is not as its schema says."""
    within = {key: value for key, value in document.items() if key not in _ROOT}
    wanted = {key: value for key, value in (schema.get("properties") or {}).items() if key not in _ROOT}
    yield from _check({**schema, "properties": wanted}, within, "")


def pruned(schema: Raw, document: Raw, strange: list[str] | None = None) -> Raw:
    """The object without what its schema does not know; the names of that are added to `strange`."""
    kept = {key: value for key, value in document.items() if key in _ROOT}
    rest = {key: value for key, value in document.items() if key not in _ROOT}
    found: Raw = _prune(schema, rest, "", [] if strange is None else strange)
    return kept | found


def _prune(schema: Raw, value: Any, place: str, strange: list[str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        inside = schema.get("items") or {_OPEN: True}
        return [_prune(inside, one, f"{place}[{number}]", strange) for number, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties") or {}, schema.get("additionalProperties")
    found = {}
    for key, inner in value.items():
        named = f"{place}.{key}" if place else key
        if key in known:
            found[key] = _prune(known[key], inner, named, strange)
        elif schema.get(_OPEN) or others:
            found[key] = _prune(others, inner, named, strange) if isinstance(others, dict) else inner
        else:
            strange.append(named)
    return found


def _check(schema: Raw, value: Any, place: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    named = place or "<nil>"
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, (int, str)):
            yield Cause(named, "Invalid value: must be of type integer or string")
        return
    kind = schema.get("type", "")
    if kind and (not isinstance(value, _TYPES.get(kind, (object,))) or (isinstance(value, bool) and kind != "boolean")):
        yield Cause(
            named, f'Invalid value: "{_type_of(value)}": {named} in body must be of type {kind}: "{_type_of(value)}"'
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(f'"{one}"' for one in schema["enum"])
        yield Cause(named, f'Unsupported value: "{value}": supported values: {known}')
    yield from _check_limits(schema, value, named)
    if isinstance(value, dict):
        yield from _check_fields(schema, value, place)
    elif isinstance(value, list) and isinstance(inside := schema.get("items"), dict):
        for number, one in enumerate(value):
            yield from _check(inside, one, f"{place}[{number}]")


def _check_fields(schema: Raw, value: Raw, place: str) -> Iterator[Cause]:
    for key in schema.get("required") or ():
        if key not in value and (place or key not in _ROOT):
            yield Cause(f"{place}.{key}" if place else key, "Required value")
    known, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, inner in value.items():
        wanted = known.get(key, others if isinstance(others, dict) else None)
        if wanted is not None:
            yield from _check(wanted, inner, f"{place}.{key}" if place else key)


def _check_limits(schema: Raw, value: Any, named: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    for word, holds, said in _LIMITS:
        sized = isinstance(value, (int, float)) if word in {"minimum", "maximum"} else isinstance(value, (str, list))
        if sized and word in schema and not holds(value, schema[word]):
            told = said.format(schema[word]) if "{}" in said else f"{said} {schema[word]}"
            yield Cause(named, f"Invalid value: {value!r}: {named} in body {told}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield Cause(named, f"Invalid value: \"{value}\": {named} in body should match '{schema['pattern']}'")


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _TYPES.items() if isinstance(value, types)), "null")
