"""Which fields objects have: others are dropped, or refused where the client asks for that, as kubectl does."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from linkwise.embedded.api_errors import bad_request
from linkwise.embedded.kinds.crd_schemas import pruned
from linkwise.embedded.kinds.protobuf import INLINE, is_message, messages

if TYPE_CHECKING:
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.kinds.registry import Served
    from linkwise.embedded.storage.collection import Raw

__all__ = ["known_fields", "refuse_strange"]

_ALWAYS: Final = frozenset({"apiVersion", "kind", "managedFields"})


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
_WORDS: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def known_fields(served: Served, document: Raw) -> Raw:
    """The object without fields that its kind does not have; RefusedError if one that it has is of another type."""
    resource = served.resource
    if resource.custom:
        return pruned(served.schema, document) if served.schema else document
    return _known(resource, _fields(resource.kind), document, "", []) if resource.kind in messages() else document


def refuse_strange(served: Served, document: object) -> None:
    """RefusedError that names all fields which the kind does not have; also of a patch, which is only a part of an object."""
    resource, strange = served.resource, list[str]()
    if not isinstance(document, dict):
        return
    if resource.custom:
        if served.schema:
            pruned(served.schema, document, strange)
    elif resource.kind in messages():
        _known(resource, _fields(resource.kind), document, "", strange)
    if strange:
        told = ", ".join(f'unknown field "{place}"' for place in strange)
        raise bad_request(f"{_begin(resource)}: strict decoding error: {told}")


def _begin(resource: Resource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'


@cache
def _fields(kind: str) -> dict[str, str]:
    """Names and types of the fields of a message, with those that JSON writes beside them."""
    found: dict[str, str] = {}
    for name, inner in messages()[kind].values():
        if name in INLINE:
            found |= _fields(inner)
        else:
            found[name] = inner
    return found


def _known(resource: Resource, table: dict[str, str], document: Raw, place: str, strange: list[str]) -> Raw:
    found: Raw = {}
    for key, value in document.items():
        inside = f"{place}.{key}" if place else key
        kind = table.get(key)
        if kind is not None:
            found[key] = _value(resource, kind, value, inside, strange)
        elif key in _ALWAYS or key.startswith("$"):
            found[key] = value
        else:
            strange.append(inside)
    return found


def _value(resource: Resource, kind: str, value: Any, place: str, strange: list[str]) -> Any:  # noqa: ANN401 - JSON
    if value is None:
        return None
    inner = kind[1:] if kind[0] == "*" else kind[1:-1] if kind[0] == "{" else ""
    wanted = (list,) if kind[0] == "*" else (dict,) if inner or is_message(kind) else _TYPES.get(kind, (object,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted and object not in wanted):
        word = _WORDS.get(type(value), "null")
        told = f"json: cannot unmarshal {word} into field {place} of type {_WORDS.get(wanted[0], 'null')}"
        raise bad_request(f"{_begin(resource)}: {told}")
    if isinstance(value, list) and inner:
        return [_value(resource, inner, one, f"{place}[{number}]", strange) for number, one in enumerate(value)]
    if isinstance(value, dict) and inner:
        return {key: _value(resource, inner, one, f"{place}[{key}]", strange) for key, one in value.items()}
    if isinstance(value, dict) and is_message(kind):
        return _known(resource, _fields(kind), value, place, strange)
    return value
